"""The relay as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from relay.config import RelayConfig
from relay.handlers import RELAY, add_routes
from relay.key_sets import LoggedKeySets
from relay.service import Relay
from tacit.adapters.network.http import HttpTransport
from tacit.errors import UsageError
from tacit.message_frames import ANSWER_OVERHEAD
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app
from tacit.service.http.live_tokens import ShownToken


def create_app(config: RelayConfig, deps: ServiceEnv) -> web.Application:
    """Build the relay. Raises ``UsageError`` for a gateway URL that P7 forbids, or a token file that others can
    read."""
    if config.retry_after_least > config.retry_after_most:
        raise UsageError("retry_after_least must not be above retry_after_most")
    credential = ShownToken(config.gateway_bearer)
    relay = Relay(config, deps, credential)
    app = make_app("relay", deps, max_body=config.max_request, answered=relay.counters.answered)
    app[HEALTH_PROBLEMS].append(credential.trouble)
    key_sets = None
    if config.log is not None:
        folder = None if config.storage == "memory" else config.state_dir
        key_sets = LoggedKeySets(config.log, deps, folder, insecure_http=config.insecure_http)
        add_driver(app, key_sets, config.log.poll_seconds, "reading key sets")
        app[HEALTH_PROBLEMS].append(key_sets.trouble)
    add_routes(app, relay, key_sets)
    app.cleanup_ctx.append(_close_relay)
    add_driver(app, relay.counters, config.bucket_seconds / 4, "logging counts")
    return app


def make_transport(config: RelayConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a relay that runs as a process of its own: bounded, with its client
    certificate."""
    frames = 1 if config.frames is None else config.frames.max_messages
    return HttpTransport(
        timeout=config.gateway_timeout,
        max_response=frames * (config.max_response + ANSWER_OVERHEAD),
        connections=1024,
        tls=config.client_tls,
        insecure_http=config.insecure_http,
    )


async def _close_relay(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[RELAY].close()
