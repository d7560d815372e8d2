"""The witness as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web

from services.witness.config import WitnessConfig
from services.witness.handlers import WITNESS, get_key, post_add_checkpoint
from services.witness.service import COUNTED, Witness
from services.witness.store import WitnessStore
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.logview.whole import MAX_BUNDLE
from tacit.service.app import HEALTH_PROBLEMS, METRICS, ServiceEnv, ask_time, make_app
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers
from tacit.service.metric_names import Rule, Shown
from tacit.service.metrics import number_of
from tacit.service.operated import OPERATED, HeldKey
from tacit.service.stores import add_store
from tacit.tlog.witnessing import MAX_ADD_CHECKPOINT

NAME = "witness"


SHOWN = tuple(
    Shown(f"tacit_witness_{name}_total", "counter", (), Rule.EXACT, about, by=("witness",))
    for name, about in COUNTED.items()
)


def create_app(config: WitnessConfig, deps: ServiceEnv) -> web.Application:
    """Build the application; its store opens with it. Raises ``UsageError`` for an unsafe setting or an unreadable
    key."""
    for log in config.logs:
        require_secure_url(log.url, insecure_http=config.insecure_http)
    app = make_app(NAME, deps, max_body=MAX_ADD_CHECKPOINT, callers=Callers(NAME, config.listen, {}))
    store = WitnessStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    app[WITNESS] = witness = Witness(config, deps, store)
    app[HEALTH_PROBLEMS].append(witness.trouble)
    app[OPERATED].held = lambda: [HeldKey("cosignatures", witness.key.encode())]
    app.router.add_post("/add-checkpoint", post_add_checkpoint)
    app.router.add_get("/key", get_key)
    app[METRICS].declare(*SHOWN)
    for name in COUNTED:
        app[METRICS].add(f"tacit_witness_{name}_total", number_of(partial(witness.counts.__getitem__, name)))
    app.cleanup_ctx.append(_running)
    add_store(app, lambda: store.durable)
    for origin, log in witness.logs.items():
        ask_time(app, f"log {origin}", f"{log.url}/checkpoint", witness.times[origin])
    return app


def make_transport(config: WitnessConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a witness that runs as a process of its own."""
    return HttpTransport(max_response=MAX_BUNDLE, tls=config.client_tls, insecure_http=config.insecure_http)


async def _running(app: web.Application) -> AsyncIterator[None]:
    await app[WITNESS].open()
    yield
    await app[WITNESS].close()
