"""The OHTTP gateway as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.gateway.config import GatewayConfig
from services.gateway.drivers import KeyRotation, Publishing, ReplayCleanup
from services.gateway.handlers import GATEWAY, Handlers
from services.gateway.keys import KeyRing
from services.gateway.leader_uploads import frames_url
from services.gateway.ports import ReplayWindow
from services.gateway.service import Gateway
from services.gateway.store import RedisReplayWindow, ReplayStore
from tacit import ohttp
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.message_frames import MOST_UPLOAD_BYTES
from tacit.multibuffer.library import level
from tacit.native_level import BATCHES
from tacit.service.app import CLOCK_BOUND, HEALTH_PROBLEMS, METRICS, ServiceEnv, add_driver, make_app, voucher_of
from tacit.service.base.keys import open_signing_key
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers, tokens_of
from tacit.service.kernels import show_kernels
from tacit.service.metric_names import KEY_METRICS
from tacit.service.metrics import number_of
from tacit.service.operated import OPERATED, HeldKey
from tacit.service.stores import add_store

_PUBLISH_SECONDS = 5.0
_KEEP_SECONDS = 60.0

NAME = "gateway"
STORE = web.AppKey("store", ReplayWindow)


def create_app(config: GatewayConfig, deps: ServiceEnv) -> web.Application:
    """Build the gateway. Makes its key files on the first start. Raises ``UsageError`` for an unsafe configuration."""
    callers = Callers(NAME, config.listen, {"relay": None} | tokens_of({"relay": config.relay_bearer}))
    if not callers.guards("relay"):
        raise UsageError("relay_bearer or listen.client_ca is needed: a gateway serves only its relay")
    ring = KeyRing.open(config.key_ring_path, config.rotation_seconds, deps.entropy, deps.clock.now())
    signing_key = open_signing_key(config.signing_key_path, deps.entropy)
    store = _replay_window(config, deps)
    gateway = Gateway(config, deps, ring, store)
    largest = max(config.max_request, config.max_frame)
    app = make_app(NAME, deps, max_body=largest, answered=gateway.counters.answered, callers=callers)
    app[HEALTH_PROBLEMS] += gateway.targets.troubles()
    app[STORE] = store
    Handlers(gateway).add_routes(app)
    app.cleanup_ctx.append(_open_store)
    add_store(app, lambda: store.durable)
    app[OPERATED].held = lambda: [
        HeldKey("leaves", b64url(signing_key.public)),
        *(HeldKey("ohttp", f"period {period}", (period + 1) * ring.rotation) for period in ring.by_period()),
    ]
    app[METRICS].declare(*KEY_METRICS)
    app[METRICS].add("tacit_keys_end_timestamp_seconds", number_of(lambda: ring.ends))
    app[METRICS].add("tacit_keys_period_seconds", number_of(lambda: ring.rotation))
    if config.batch_crypto:
        show_kernels(app, {BATCHES: level})
    log, url = voucher_of(deps, "the log"), config.recipe_server_url
    app[CLOCK_BOUND] = True
    app[HEALTH_PROBLEMS].append(gateway.key_trouble)
    rotation = KeyRotation(gateway, signing_key, None if url is None else log, url)
    add_driver(app, rotation, _KEEP_SECONDS, "making keys", in_doubt=True)
    add_driver(app, ReplayCleanup(gateway, store, deps), _KEEP_SECONDS, "forgetting requests")
    add_driver(app, gateway.counters, config.bucket_seconds / 4, "logging counts")
    if url is not None:
        require_secure_url(url, insecure_http=config.insecure_http)
        publishing = Publishing(gateway, signing_key, log, url, deps)
        add_driver(app, publishing, _PUBLISH_SECONDS, "publishing key sets")
    return app


def make_transport(config: GatewayConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a gateway that runs as a process of its own: bounded. Only the answer to
    a frame may be larger than a device's largest."""
    return HttpTransport(
        timeout=config.target_timeout,
        max_response=ohttp.SIZE_CLASSES[-1],
        max_responses={frames_url(rule.leader_url): MOST_UPLOAD_BYTES for rule in config.targets if rule.frames},
        connections=1024,
        tls=config.client_tls,
        insecure_http=config.insecure_http,
        repeat_posts=True,
    )


def _replay_window(config: GatewayConfig, deps: ServiceEnv) -> ReplayWindow:
    if config.replay_window is None:
        return ReplayStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    from tacit.adapters.messaging.redis_replay import RedisSeen

    url = config.replay_window.url(insecure=config.insecure_http)
    return RedisReplayWindow(RedisSeen(url, NAME, config.replay_window.prefix), config.date_window, deps.clock)


async def _open_store(app: web.Application) -> AsyncIterator[None]:
    await app[STORE].open()
    yield
    await app[GATEWAY].close()
    await app[STORE].close()
    app[GATEWAY].counters.flush()
