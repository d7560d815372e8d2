"""The Collector of the test API: the service's own collections, for tasks from ``add_task``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from infra.tools.interop.api import MAX_BODY, MOST_TASKS, command, ready
from infra.tools.interop.documents import CollectionPoll, CollectionStart, CollectorTask, Query, in_units, task_id_of
from infra.tools.interop.tasks import Credentials, bare_task
from services.collector.records import Collection, CollectionState
from services.collector.service import Collector
from services.collector.store import CollectorStore
from tacit.aggregator.keys import generate_hpke_key
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.hpke import KeyPair
from tacit.messages import BatchMode, Interval, Role
from tacit.models.secure_aggregation.collector import DapSource
from tacit.roles.collector import AggregateResult
from tacit.service.app import ServiceEnv, add_driver, make_app
from tacit.service.http.live_tokens import NO_TOKEN
from tacit.service.stores import add_store
from tacit.task import Task
from tacit.vdaf.prio3 import Prio3Count, Prio3Sum
from tacit.version import DapVersion

IN_MEMORY = "sqlite+aiosqlite:///:memory:"
IDLE_SECONDS = 0.1


@dataclass(frozen=True)
class _Pace:
    retry_delay: float = 0.5
    poll_seconds: float = 0.5
    max_poll_seconds: float = 5.0


@dataclass(frozen=True)
class BareSubject:
    """A task to collect, and its key pair."""

    task: Task
    key_pair: KeyPair = field(repr=False)

    @property
    def name(self) -> str:
        """The task's id as text, by which the collection is known."""
        return self.task.task_id_text

    def active(self) -> DapSource:
        """The task and its key pair."""
        return DapSource(self.task, self.key_pair)

    def document(self, _row: Collection, aggregate: AggregateResult, _now: float) -> dict[str, Any]:
        """The members that ``collection_poll`` returns for a batch; the interval in seconds."""
        precision, values = self.task.time_precision, [str(value) for value in aggregate.values]
        return {
            "report_count": aggregate.report_count,
            "interval_start": aggregate.interval.start * precision,
            "interval_duration": aggregate.interval.duration * precision,
            "result": values[0] if isinstance(self.task.vdaf, Prio3Count | Prio3Sum) else values,
        }


class BareSubjects:
    """The tasks that the collector knows, by task id."""

    def __init__(self) -> None:
        self.known: dict[bytes, BareSubject] = {}

    def find(self, task_id: bytes, /) -> BareSubject | None:
        return self.known.get(task_id)

    async def step(self) -> int:
        """Return 0, as there is nowhere to look for more tasks."""
        return 0


def make_collector(deps: ServiceEnv, version: DapVersion, credentials: Credentials) -> web.Application:
    """A Collector whose tasks come from ``add_task``."""
    app = make_app("interop-collector", deps, max_body=MAX_BODY)
    store, subjects = CollectorStore(IN_MEMORY), BareSubjects()
    collector = Collector(store, subjects, _Pace(), deps, NO_TOKEN)

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        yield
        await collector.close()
        await store.close()

    app.cleanup_ctx.append(storage)
    add_store(app, lambda: store.durable)
    commands = Commands(collector, store, subjects, deps, version, credentials)
    app.router.add_routes(commands.routes())
    collector.wake = add_driver(app, collector, IDLE_SECONDS, "collecting")
    return app


class Commands:
    """The commands of the test API with which tasks are added to a collector, and batches collected."""

    def __init__(
        self,
        collector: Collector,
        store: CollectorStore,
        subjects: BareSubjects,
        deps: ServiceEnv,
        version: DapVersion,
        credentials: Credentials,
    ) -> None:
        self._collector = collector
        self._store = store
        self._subjects = subjects
        self._deps = deps
        self._version = version
        self._credentials = credentials

    def routes(self) -> list[web.RouteDef]:
        return [
            ready(),
            command("add_task", CollectorTask, self.add_task),
            command("collection_start", CollectionStart, self.start),
            command("collection_poll", CollectionPoll, self.poll),
        ]

    async def add_task(self, _request: web.Request, asked: CollectorTask) -> dict[str, Any]:
        """Make a key pair for a task, and return its configuration."""
        known = self._subjects.known
        if asked.id in known:
            raise UsageError("task_id: a task with this id was added before")
        if len(known) >= MOST_TASKS:
            raise UsageError(f"this process has its {MOST_TASKS} tasks; start another")
        key = generate_hpke_key(self._deps.entropy(1)[0], self._deps.entropy)
        configs = {Role.COLLECTOR: key.config}
        task = bare_task(asked.id, asked.configuration(self._version), self._version, configs)
        known[task.task_id] = BareSubject(task, key.key_pair)
        self._credentials.add(task, {}, asked.collector_authentication_token)
        return {"collector_hpke_config": b64url(key.config.encode())}

    async def start(self, _request: web.Request, asked: CollectionStart) -> dict[str, Any]:
        """Ask the Leader for a batch, at once; returns the ``handle`` with which it is polled. Raises ``UsageError``
        for an unknown task, an aggregation parameter, or a batch that the Leader refuses."""
        subject = self._subjects.find(task_id_of(asked.task_id))
        if subject is None:
            raise UsageError("task_id: no task with this id was added")
        if asked.agg_param:
            raise UsageError("agg_param: Prio3 takes an empty aggregation parameter")
        row, _ = await self._collector.create(subject.task.task_id, _interval(subject.task, asked.query))
        await self._collector.step()
        row = await self._collector.show(row.id)
        if row.state is CollectionState.REFUSED:
            raise UsageError(_why(row))
        return {"handle": row.id}

    async def poll(self, _request: web.Request, asked: CollectionPoll) -> dict[str, Any]:
        """Whether a batch is released, and its result if it is. Raises ``Abort`` (404), and ``UsageError`` with the
        Leader's reason for a batch that was refused."""
        row = await self._collector.show(asked.handle)
        if row.state is CollectionState.REFUSED:
            raise UsageError(_why(row))
        if row.state not in {CollectionState.FINISHING, CollectionState.RELEASED}:
            return {"status": "in progress"}
        async with self._store.read() as tx:
            found = await tx.results(row.recipe_hash)
        document = next(json.loads(result.document) for result in found if result.collection == row.id)
        return {"status": "complete", **document}


def _interval(task: Task, query: Query) -> Interval | None:
    """The interval that a query names. Raises ``UsageError``."""
    if query.batch_mode != task.batch_mode:
        raise UsageError("query: its batch mode is not the task's")
    if task.batch_mode is BatchMode.LEADER_SELECTED:
        return None
    if query.batch_interval_start is None or query.batch_interval_duration is None:
        raise UsageError("query: batch_interval_start and batch_interval_duration are missing")
    return in_units(query.batch_interval_start, query.batch_interval_duration, task.time_precision)


def _why(row: Collection) -> str:
    return f"{row.rule}: {row.detail}"
