"""The Leader as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.leader.aggregation import AggregationDriver
from services.leader.collection import Collections
from services.leader.config import LeaderConfig
from services.leader.handlers import Handlers
from services.leader.service import Leader
from services.leader.store import LeaderStore
from tacit.adapters.http import ClientTls
from tacit.adapters.lean_http import LeanTransport
from tacit.aggregator.credentials import read_credentials
from tacit.aggregator.http import name_task
from tacit.aggregator.log_follower import FOLLOWER, LogFollower
from tacit.aggregator.parties import PARTIES, Parties
from tacit.errors import UsageError
from tacit.messages import Role
from tacit.service.app import Deps, add_driver, make_app
from tacit.service.limits import ByteBudget

NAME = "leader"
STORE = web.AppKey("store", LeaderStore)
AGGREGATION = web.AppKey("aggregation", AggregationDriver)
COLLECTIONS = web.AppKey("collections", Collections)


def create_app(config: LeaderConfig, deps: Deps) -> web.Application:
    """The Leader of ``config``. Raises ``UsageError`` for secrets that are missing or malformed."""
    if config.retention < config.limits.collection_grace:
        raise UsageError("retention must not be shorter than limits.collection_grace: jobs would lose their tables")
    credentials = read_credentials(config, Role.LEADER)
    app = make_app(NAME, deps, max_body=config.max_body, middlewares=[name_task])
    store = LeaderStore(config.database_url(NAME))
    parties = Parties()
    leader = Leader(store, parties, deps, config.limits)
    aggregation = AggregationDriver(store, parties, deps, config.limits, credentials.peer.token)
    collections = Collections(store, parties, deps, config.limits, credentials.peer.token)
    follower = LogFollower(store, parties, credentials.identity, config.log, config.policy, deps, config.retention)

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        await follower.load()
        yield
        await leader.close()
        await store.close()

    app.cleanup_ctx.append(storage)
    handlers = Handlers(
        leader,
        collections,
        parties,
        credentials.hpke_keys,
        collector=credentials.collector,
        readers=credentials.readers,
        max_body=config.max_body,
        budget=ByteBudget(config.max_in_flight, deps.entropy),
    )
    app.router.add_routes(handlers.routes(config.prefix))
    add_driver(app, follower, config.log.poll_seconds)
    handlers.wake_aggregation = add_driver(app, aggregation, config.limits.idle_seconds)
    handlers.wake_collection = add_driver(app, collections, config.limits.idle_seconds)
    app[PARTIES], app[STORE], app[FOLLOWER] = parties, store, follower
    app[AGGREGATION], app[COLLECTIONS] = aggregation, collections
    return app


def make_transport(config: LeaderConfig) -> LeanTransport:
    """The transport for ``Deps`` of a leader that runs on its own."""
    return LeanTransport(tls=ClientTls(config.peer_ca), insecure_http=config.insecure_http, repeat_posts=True)
