"""The Helper as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.helper.config import HelperConfig
from services.helper.handlers import Handlers
from services.helper.service import Helper
from services.helper.store import HelperStore
from tacit.adapters.http import AiohttpTransport
from tacit.aggregator.credentials import read_credentials
from tacit.aggregator.http import name_task
from tacit.aggregator.log_follower import FOLLOWER, LogFollower
from tacit.aggregator.parties import PARTIES, Parties
from tacit.messages import Role
from tacit.service.announcements import wake_on_announcements
from tacit.service.app import TROUBLES, Deps, add_driver, add_store, make_app
from tacit.service.auth import token_digest
from tacit.service.callers import Callers
from tacit.service.limits import ByteBudget

NAME = "helper"
STORE = web.AppKey("store", HelperStore)


def create_app(config: HelperConfig, deps: Deps) -> web.Application:
    """The Helper of ``config``. Raises ``UsageError`` for secrets that are missing or malformed."""
    credentials = read_credentials(config, Role.HELPER)
    callers = Callers(NAME, config.listen, {**credentials.digests, "leader": token_digest(credentials.peer.token)})
    app = make_app(NAME, deps, max_body=config.max_body, middlewares=[name_task], callers=callers)
    store = HelperStore(config.database_url(NAME), config.watermark(NAME, deps.clock, deps.recovery))
    parties = Parties()
    budget = ByteBudget(config.max_in_flight, deps.entropy)
    helper = Helper(store, deps, config.max_job, budget, config.job_crypto())
    follower = LogFollower(
        store,
        parties,
        credentials.identity,
        config.log,
        config.policy,
        deps,
        config.retention,
        void_after=config.void_seconds,
    )

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        await follower.load()
        yield
        await store.close()

    app.cleanup_ctx.append(storage)
    handlers = Handlers(
        helper,
        parties,
        credentials.hpke_keys,
        max_body=config.max_body,
        budget=budget,
    )
    app.router.add_routes(handlers.routes(config.prefix))
    look = add_driver(app, follower, config.log.poll_seconds, "following the log")
    wake_on_announcements(app, config.announcer, look, insecure=config.insecure_http)
    app[PARTIES], app[STORE], app[FOLLOWER] = parties, store, follower
    app[TROUBLES].append(lambda: store.doubtful)
    add_store(app, lambda: store.durable)
    return app


def make_transport(config: HelperConfig) -> AiohttpTransport:
    """The transport for ``Deps`` of a helper that runs on its own."""
    return AiohttpTransport(tls=config.client_tls, insecure_http=config.insecure_http)
