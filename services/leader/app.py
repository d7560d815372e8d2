"""The Leader as an aiohttp application: one process of it, in every role or in some."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from services.leader.collection import Collections
from services.leader.config import LeaderConfig
from services.leader.coordinator import Coordinator
from services.leader.handlers import Handlers
from services.leader.senders import gateway_digests, senders_of
from services.leader.service import Leader
from services.leader.store import LeaderStore
from services.leader.uploads import UPLOAD, UPLOAD_ALL, Uploads
from services.leader.work import JobWork
from services.leader.workers import Workers
from tacit.adapters.lean_http import LeanTransport
from tacit.aggregator.credentials import Credentials, read_credentials
from tacit.aggregator.http import name_task
from tacit.aggregator.log_follower import FOLLOWER, LogFollower
from tacit.aggregator.parties import PARTIES, Parties
from tacit.errors import UsageError
from tacit.messages import Role
from tacit.ports import JobQueue
from tacit.service.announcements import wake_on_announcements
from tacit.service.app import TROUBLES, Deps, add_driver, add_store, make_app
from tacit.service.backends import make_queue
from tacit.service.callers import CALLERS, Callers
from tacit.service.limits import ByteBudget

NAME = "leader"
STORE = web.AppKey("store", LeaderStore)
COORDINATOR = web.AppKey("coordinator", Coordinator)
WORKERS = web.AppKey("workers", Workers)
COLLECTIONS = web.AppKey("collections", Collections)

__all__ = ["COLLECTIONS", "COORDINATOR", "STORE", "UPLOAD", "UPLOAD_ALL", "WORKERS", "create_app", "make_transport"]


def create_app(config: LeaderConfig, deps: Deps, *, queue: JobQueue | None = None) -> web.Application:
    """A process of the Leader of ``config``. ``queue`` wakes workers: by default the one that ``config`` names, or one
    of this process alone, and others look for themselves. Raises ``UsageError`` for secrets that are missing or
    malformed."""
    if config.retention < config.limits.collection_grace:
        raise UsageError("retention must not be shorter than limits.collection_grace: jobs would lose their tables")
    credentials = read_credentials(config, Role.LEADER)
    callers = Callers(NAME, config.listen, {**credentials.digests, **gateway_digests(config)})
    app = make_app(NAME, deps, max_body=config.max_body, middlewares=[name_task], callers=callers)
    store = LeaderStore(config.database_url(NAME), config.watermark(NAME, deps.clock, deps.recovery))
    parties = Parties()
    works = "worker" in config.roles
    leader = Leader(store, parties, deps, config.limits)
    follower = LogFollower(
        store,
        parties,
        credentials.identity,
        config.log,
        config.policy,
        deps,
        config.retention,
        coordinates=works,
        void_after=max(config.void_seconds, config.limits.collection_grace),
    )
    _add_storage(app, store, follower, leader)
    app[PARTIES], app[STORE], app[FOLLOWER] = parties, store, follower
    app[TROUBLES].append(lambda: store.doubtful)
    add_store(app, lambda: store.durable)
    collections = Collections(store, parties, deps, config.limits, credentials.peer.token)
    handlers = _handlers(config, deps, credentials, leader, collections, app)
    app.router.add_routes(handlers.routes(config.prefix))
    look = add_driver(app, follower, config.log.poll_seconds, "following the log")
    wake_on_announcements(app, config.announcer, look, insecure=config.insecure_http)
    if works:
        work = JobWork(store, deps, config.limits, credentials.peer.token, config.job_crypto())
        queue = queue or make_queue(config.queue, NAME, deps.clock, deps.entropy, insecure=config.insecure_http)
        coordinator = Coordinator(store, parties, deps, config.limits, queue)
        workers = Workers(store, parties, deps, config.limits, queue, work)
        _add_workers(app, workers, queue)
        idle = config.limits.idle_seconds
        leader.wake = handlers.wake_aggregation = add_driver(app, coordinator, idle, "forming jobs")
        workers.wake = add_driver(app, workers, idle, "sending jobs")
        work.batch_filled = handlers.wake_collection = add_driver(app, collections, idle, "collecting")
        app[COORDINATOR], app[WORKERS], app[COLLECTIONS] = coordinator, workers, collections
    return app


def _add_storage(app: web.Application, store: LeaderStore, follower: LogFollower, leader: Leader) -> None:
    """Have the database open while the app runs."""

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        await follower.load()
        yield
        await leader.close()
        await store.close()

    app.cleanup_ctx.append(storage)


def _handlers(
    config: LeaderConfig,
    deps: Deps,
    credentials: Credentials,
    leader: Leader,
    collections: Collections,
    app: web.Application,
) -> Handlers:
    uploads, senders = None, None
    if "upload" in config.roles:
        senders = senders_of(config, app[CALLERS], deps)
        budget = ByteBudget(config.max_in_flight, deps.entropy)
        uploads = Uploads(leader, app[PARTIES], deps, budget, config.max_body)
        app[UPLOAD], app[UPLOAD_ALL] = uploads.call, uploads.call_all
    return Handlers(
        leader,
        collections,
        app[PARTIES],
        credentials.hpke_keys,
        max_body=config.max_body,
        uploads=uploads,
        senders=senders,
    )


def _add_workers(app: web.Application, workers: Workers, queue: JobQueue) -> None:
    """Listen to the queue while the app runs in the background; give the jobs back at its end."""

    async def listening(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(workers.listen()) if workers.background else None
        yield
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await queue.close()
        await workers.close()

    app.cleanup_ctx.append(listening)


def make_transport(config: LeaderConfig) -> LeanTransport:
    """The transport for ``Deps`` of a leader that runs on its own."""
    return LeanTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)
