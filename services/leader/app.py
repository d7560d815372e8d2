"""The Leader as an aiohttp application: one of its processes, in every role or in some."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from services.leader.arrivals import Arrivals, Wakeups, make_wakeups
from services.leader.collection import Collections
from services.leader.config import LeaderConfig, LeaderLimits
from services.leader.coordinator import Coordinator
from services.leader.handlers import Handlers
from services.leader.helper_job_cleanup import LOOK_SECONDS as FORGET_LOOK
from services.leader.helper_job_cleanup import HelperJobCleanup
from services.leader.metrics import add_leader_metrics
from services.leader.retrying import LeaderJobs
from services.leader.senders import Senders, senders_of
from services.leader.service import Leader
from services.leader.store import LeaderStore
from services.leader.uploads import REPORTS, UPLOAD, Uploads
from services.leader.waiters import LOOK_SECONDS
from services.leader.work import JobWork
from services.leader.workers import Workers
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.credentials import held_keys, read_credentials
from tacit.aggregator.http import name_task
from tacit.aggregator.kernels import show_aggregator_kernels
from tacit.aggregator.keys import HpkeKey, read_peer_tokens
from tacit.aggregator.log_follower import follow_log
from tacit.aggregator.participant import AggregatorParticipant
from tacit.aggregator.parties import PARTIES, Parties
from tacit.aggregator.yield_looks import YieldLooks
from tacit.messages import Role
from tacit.models.parties import SHUFFLER
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.service.app import COUNT, HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app
from tacit.service.base.marks import watermark_of
from tacit.service.fast_routes import add_fast_route
from tacit.service.http.callers import Callers, gateway_tokens, tokens_of
from tacit.service.http.limits import ByteBudget
from tacit.service.http.live_tokens import Accepted, ShownToken
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store
from tacit.version import DAP_18, DapVersion

NAME = "leader"
STORE = web.AppKey("store", LeaderStore)
COORDINATOR = web.AppKey("coordinator", Coordinator)
WORKERS = web.AppKey("workers", Workers)
COLLECTIONS = web.AppKey("collections", Collections)

__all__ = [
    "COLLECTIONS",
    "COORDINATOR",
    "STORE",
    "UPLOAD",
    "WORKERS",
    "Parts",
    "assemble",
    "create_app",
    "make_transport",
]


@dataclass(frozen=True)
class Parts:
    """The parts of a Leader process, apart from the source of its tasks. ``senders``: who may upload; ``None`` for a
    process that takes no uploads. ``works``: whether it works on jobs and collections."""

    name: str
    store: LeaderStore
    callers: Callers
    hpke_keys: Sequence[HpkeKey] = field(repr=False)
    helper_token: ShownToken = field(repr=False)
    senders: Senders | None
    works: bool
    limits: LeaderLimits
    crypto: JobCrypto = OPENSSL
    prefix: str = ""
    max_body: int = 1 << 20
    max_in_flight: int = 256 << 20
    version: DapVersion = DAP_18


def create_app(config: LeaderConfig, deps: ServiceEnv) -> web.Application:
    """Build a process of the Leader of ``config``, whose tasks come from the log's recipes. Raises ``UsageError`` for
    secrets that are missing or malformed."""
    credentials = read_credentials(config, Role.LEADER)
    tokens = {**credentials.tokens, **gateway_tokens(config.gateway_tokens), **_shuffler_tokens(config)}
    callers = Callers(NAME, config.listen, tokens)
    parts = Parts(
        name=NAME,
        store=LeaderStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery)),
        callers=callers,
        hpke_keys=credentials.hpke_keys,
        helper_token=ShownToken(config.peer_file, read_peer_tokens),
        senders=senders_of(config, callers, deps) if "upload" in config.roles else None,
        works="worker" in config.roles,
        limits=config.limits,
        crypto=config.job_crypto(),
        prefix=config.prefix,
        max_body=config.max_body,
        max_in_flight=config.max_in_flight,
    )

    def follow(app: web.Application) -> None:
        store = app[STORE]
        follow_log(
            app,
            store,
            app[PARTIES],
            AggregatorParticipant(credentials.identity, takes_mixed=callers.guards(SHUFFLER)),
            config,
            deps,
            coordinates="worker" in config.roles,
            void_after=config.void_after,
        )
        app[HEALTH_PROBLEMS].append(credentials.hpke_keys.trouble)

    app = assemble(parts, deps, follow)
    identity = credentials.identity
    app[OPERATED].held = lambda: held_keys(identity.signing_key, identity.hpke_keys, identity.state_keys)
    return app


def _shuffler_tokens(config: LeaderConfig) -> dict[str, Accepted | None]:
    """The shuffler's tokens, if one may upload; ``None`` for one that is known by its certificate alone."""
    if config.shuffler_token is None and SHUFFLER not in config.listen.client_names:
        return {}
    return {SHUFFLER: None} | tokens_of({SHUFFLER: config.shuffler_token})


def assemble(parts: Parts, deps: ServiceEnv, add_tasks: Callable[[web.Application], None]) -> web.Application:
    """Build a Leader process. Once the database is open, ``add_tasks`` fills ``app[PARTIES]`` and ``app[STORE]`` with
    its tasks."""
    app = make_app(parts.name, deps, max_body=parts.max_body, middlewares=[name_task], callers=parts.callers)
    store, parties = parts.store, Parties()
    wakeups = make_wakeups(store.signals)
    arrivals = Arrivals(store, wakeups.forming, deps.entropy, background=deps.background)
    leader = Leader(store, parties, deps, parts.limits, arrivals, wakeups.forming)
    _add_storage(app, store, leader)
    app[PARTIES], app[STORE] = parties, store
    app[HEALTH_PROBLEMS] += [lambda: store.doubtful, parts.helper_token.trouble]
    add_tasks(app)
    add_store(app, lambda: store.durable)
    add_leader_metrics(app, store)
    show_aggregator_kernels(app)
    collections = Collections(store, parties, deps, parts.limits, parts.helper_token, wakeups.moved)
    handlers = _handlers(parts, deps, leader, collections, wakeups, app)
    app[OPERATED].jobs.append(LeaderJobs(store, deps.clock, wakeups))
    app.router.add_routes(handlers.routes(parts.prefix, parts.version))
    if parts.works:
        work = JobWork(store, deps, parts.limits, parts.helper_token, wakeups.collecting, parts.crypto)
        coordinator = Coordinator(store, parties, deps, parts.limits, wakeups.sending, arrivals)
        workers = Workers(store, parties, deps, parts.limits, work)
        _close_at_the_end(app, workers)
        idle = parts.limits.idle_seconds
        wakeups.forming.handler = add_driver(app, coordinator, idle, "forming jobs").set
        workers.wake = add_driver(app, workers, idle, "sending jobs")
        wakeups.sending.handler = workers.poll_now
        wakeups.collecting.handler = add_driver(app, collections, idle, "collecting").set
        forgetting = HelperJobCleanup(store, deps, parts.helper_token)
        add_driver(app, forgetting, FORGET_LOOK, "deleting answers at helpers")
        app[COORDINATOR], app[WORKERS], app[COLLECTIONS] = coordinator, workers, collections
    wakeups.moved.handler = add_driver(app, collections.waiters, LOOK_SECONDS, "answering collectors").set
    return app


def _add_storage(app: web.Application, store: LeaderStore, leader: Leader) -> None:
    """Keep the database open while the app runs."""

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        yield
        await leader.close()
        await store.close()

    app.cleanup_ctx.append(storage)


def _handlers(
    parts: Parts, deps: ServiceEnv, leader: Leader, collections: Collections, wakeups: Wakeups, app: web.Application
) -> Handlers:
    store = app[STORE]
    if parts.senders is not None:
        budget = ByteBudget(parts.max_in_flight, deps.entropy)
        count = partial(app[COUNT], parts.prefix + REPORTS)
        uploads = Uploads(leader, app[PARTIES], deps, budget, parts.max_body, count)
        app[UPLOAD] = uploads.call
        for route in (uploads.route, uploads.frame_route):
            add_fast_route(app, route(parts.prefix, parts.senders))
    return Handlers(
        leader,
        collections,
        YieldLooks(store, deps.clock, deps.entropy),
        app[PARTIES],
        parts.hpke_keys,
        max_body=parts.max_body,
        wakeups=wakeups,
    )


def _close_at_the_end(app: web.Application, workers: Workers) -> None:
    """Give the jobs back when the app ends."""

    async def closing(_app: web.Application) -> AsyncIterator[None]:
        yield
        await workers.close()

    app.cleanup_ctx.append(closing)


def make_transport(config: LeaderConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a leader that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)
