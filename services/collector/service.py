"""The collector: asks the Leader for a batch, polls, opens, estimates, stores, publishes.

If a recipe's model has one server, the collector asks that server for the sum instead, until the sum is released.

A collection is stored with the exact bytes of its request before anything is sent; after a restart it continues with
the same bytes and the same job. The result and the end of the collection commit together, so a batch is released once
here, however often it is fetched. In leader-selected mode the Leader is then told to delete the job, which frees the
same request for the next batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import replace
from typing import Any, Protocol

from services.collector.one_server import read_aggregate
from services.collector.ports import CollectionsTx
from services.collector.records import Collection, CollectionState, Result
from tacit import media_types
from tacit.aggregator.work import creation
from tacit.codec import b64url, unb64url
from tacit.errors import Abort, CryptoError, DecodeError, Refusal
from tacit.hpke import KeyPair
from tacit.messages import BatchMode, CollectionJobReq, CollectionJobResp, Interval, Role
from tacit.pauses import LONGEST_PAUSE, Backoff
from tacit.ports import HttpResponse, TransportError
from tacit.problem import problem_type, read_problem
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM
from tacit.roles.collector import AggregateResult, collection_request, open_collection
from tacit.service.app import Deps
from tacit.service.live_tokens import NO_TOKEN, ShownToken
from tacit.service.log import get_logger
from tacit.service.store import Transactions
from tacit.task import Task
from tacit.task.one_server import OneServerTask

STEP_LIMIT = 64
WAIT_SECONDS = 10
"""Seconds that a poll asks the Leader to wait (RFC 7240): less than any timeout between the two."""
MAX_DETAIL = 500
_JOB = re.compile(r"[A-Za-z0-9_-]{1,128}")
LEADER, ANALYZER = "leader", "analyzer"
_INACTIVE = ("recipe-inactive", "the recipe is not active in the log")


class Pace(Protocol):
    """Pauses in seconds: before a failed exchange is retried, between polls, and the longest between polls."""

    @property
    def retry_delay(self) -> float:
        """Mean length in seconds of the first pause after a failed exchange; each further failure doubles it."""
        ...

    @property
    def poll_seconds(self) -> float:
        """Seconds between two polls if the Leader names no pause."""
        ...

    @property
    def max_poll_seconds(self) -> float:
        """Most seconds between two polls, whatever the Leader asks for."""
        ...


Active = tuple[Task, KeyPair] | OneServerTask
"""A DAP task with the key pair to which aggregate shares are sealed, or the task of a model with one server."""


class Subject(Protocol):
    """Something whose batches can be collected: a recipe of the log, or whatever else a Leader has a task for."""

    @property
    def name(self) -> str:
        """The name in log lines."""
        ...

    def active(self) -> Active:
        """What can be collected. Raises ``Refusal``."""
        ...

    def document(self, row: Collection, aggregate: AggregateResult, now: float) -> dict[str, Any]:
        """The document that is released for a batch. Raises ``Refusal``."""
        ...


class Subjects(Protocol):
    """All subjects, by hash (32 bytes)."""

    def find(self, recipe_hash: bytes, /) -> Subject | None:
        """The subject with this hash, or None if it is unknown."""
        ...

    async def step(self) -> int:
        """Look for new subjects; returns how many are new."""
        ...


class Collector:
    """Creates, shows and advances collections. ``leader_token`` is presented to the Leader, ``analyzer_token`` to the
    one server of recipes that have no Leader."""

    def __init__(
        self,
        store: Transactions[CollectionsTx],
        recipes: Subjects,
        config: Pace,
        deps: Deps,
        leader_token: ShownToken,
        analyzer_token: ShownToken = NO_TOKEN,
    ) -> None:
        self._store = store
        self._recipes = recipes
        self._config = config
        self._backoff = Backoff(config.retry_delay, LONGEST_PAUSE)
        self._deps = deps
        self._at_leader, self._at_analyzer = leader_token, analyzer_token
        self._log = get_logger("collector")
        self._lock, self._keeping = asyncio.Lock(), asyncio.Lock()
        self._polls: dict[str, asyncio.Task[int]] = {}
        self.wake = asyncio.Event()

    async def create(self, recipe_hash: bytes, interval: Interval | None = None) -> tuple[Collection, bool]:
        """Find or create the collection of the recipe's next batch, or of ``interval`` if queries may name one; returns
        it and whether it is new.

        A collection that is under way, or the only one that a time-interval recipe has, is returned as it is; a refused
        one is requested again. Raises ``Abort`` (404) for a recipe that the log does not show, and ``Refusal`` for one
        that cannot be collected.
        """
        known = self._recipes.find(recipe_hash)
        if known is None:
            await self._recipes.step()
            known = self._recipes.find(recipe_hash)
        if known is None:
            raise _not_found("the log shows no recipe with this hash")
        active = known.active()
        request = b"" if isinstance(active, OneServerTask) else collection_request(active[0], interval).encode()
        once = isinstance(active, OneServerTask) or active[0].batch_mode is BatchMode.TIME_INTERVAL
        async with self._store.transaction() as tx:
            earlier = await tx.collections(recipe_hash)
            last = next((row for row in reversed(earlier) if row.request == request), None)
            if last is not None and last.state is CollectionState.REFUSED:
                again = replace(
                    last,
                    state=CollectionState.REQUESTED,
                    job="",
                    rule="",
                    detail="",
                    attempts=0,
                    next_attempt=0.0,
                )
                await tx.put_collection(again)
                return again, False
            if last is not None and (last.state is not CollectionState.RELEASED or once):
                return last, False
            row = _new_collection(recipe_hash, len(earlier), request)
            await tx.add_collection(row)
            return row, True

    async def show(self, collection_id: str) -> Collection:
        """One collection. Raises ``Abort`` (404)."""
        async with self._store.read() as tx:
            row = await tx.collection(collection_id)
        if row is None:
            raise _not_found("there is no collection with this id")
        return row

    async def collections(self) -> list[Collection]:
        """Every collection."""
        async with self._store.read() as tx:
            return await tx.collections()

    async def step(self) -> int:
        """Advance every due collection by one exchange; returns how many changed their state. In the background, polls
        at the Leader run concurrently and the step does not wait for them. A collection that fails unexpectedly records
        that in its row and is retried later."""
        async with self._lock:
            async with self._store.read() as tx:
                rows = await tx.due(self._deps.clock.now(), STEP_LIMIT)
            moved = 0
            for row in rows:
                if row.state is CollectionState.COLLECTING and self._deps.background:
                    self._start_poll(row)
                else:
                    moved += await self._advance(row)
            return moved

    def _start_poll(self, row: Collection) -> None:
        if row.id not in self._polls:
            task = self._polls[row.id] = asyncio.create_task(self._poll_due(row.id))
            task.add_done_callback(lambda task: self._poll_ended(row.id, task))

    def _poll_ended(self, collection_id: str, task: asyncio.Task[int]) -> None:
        self._polls.pop(collection_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("poll_failed", error=error)
        else:
            self.wake.set()

    async def _poll_due(self, collection_id: str) -> int:
        """Poll for a collection in its current state: an earlier poll may have changed it since the step read it."""
        row = await self.show(collection_id)
        if row.state is not CollectionState.COLLECTING or row.next_attempt > self._deps.clock.now():
            return 0
        return await self._advance(row)

    async def close(self) -> None:
        """Stop waiting at the Leader."""
        polls = list(self._polls.values())
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)

    async def _advance(self, row: Collection) -> int:
        known = self._recipes.find(row.recipe_hash)
        if known is None:
            return await self._later(row, *_INACTIVE)
        try:
            active = known.active()
        except Refusal:
            return await self._later(row, *_INACTIVE)
        party = ANALYZER if isinstance(active, OneServerTask) else LEADER
        try:
            if isinstance(active, OneServerTask):
                return await self._fetch(known, active, row)
            if row.state is CollectionState.REQUESTED:
                return await self._ask(active[0], row)
            if row.state is CollectionState.COLLECTING:
                return await self._poll(known, active, row)
            return await self._forget(active[0], row)
        except TransportError as error:
            return await self._later(row, f"{party}-unreachable", str(error))
        except Exception as error:  # an error in one collection must not hold up the others, and must be recorded
            self._log.error("collection_broken", collection=row.id, error=error)
            return await self._later(row, "collection-broken", f"it ended with {type(error).__name__}; see the log")

    async def _ask(self, task: Task, row: Collection) -> int:
        headers = {**self._at_leader.headers(), "Content-Type": media_types.dap("collection-job-req")}
        method, url = creation(task.version, _jobs_url(task), unb64url(row.id))
        answer = await self._deps.transport.request(method, url, headers=headers, body=row.request)
        if not 200 <= answer.status < 300:
            return await self._said_no(row, answer)
        job = row.id if method == "PUT" else answer.headers.get("location", "").rpartition("/")[2]
        if not _JOB.fullmatch(job):
            return await self._later(row, "leader-answer", "the Leader named no collection job")
        due = self._deps.clock.now() + (0.0 if answer.body else self._pause(answer))
        return await self._move(row, CollectionState.COLLECTING, job=job, next_attempt=due)

    async def _fetch(self, known: Subject, task: OneServerTask, row: Collection) -> int:
        """Ask the one server. The collection is under way once that server knows the recipe."""
        answer = await self._deps.transport.request("GET", task.url("aggregate"), headers=self._at_analyzer.headers())
        is_there = 200 <= answer.status < 300
        if not is_there and problem_type(answer.body) != INTERVAL_OPEN_PROBLEM:
            return await self._said_no(row, answer, ANALYZER)
        if not is_there or row.state is CollectionState.REQUESTED:
            due = 0.0 if is_there else self._deps.clock.now() + self._pause(answer)
            return await self._move(row, CollectionState.COLLECTING, next_attempt=due)
        try:
            return await self._keep(known, row, read_aggregate(task, answer.body), CollectionState.RELEASED)
        except Refusal as refusal:
            return await self._refuse(row, refusal.rule, refusal.detail)

    async def _poll(self, known: Subject, active: tuple[Task, KeyPair], row: Collection) -> int:
        task, key_pair = active
        url = f"{_jobs_url(task)}/{row.job}"
        headers = self._at_leader.headers()
        if self._deps.background:
            headers = {**headers, "Prefer": f"wait={WAIT_SECONDS}"}
        asked = self._deps.clock.now()
        answer = await self._deps.transport.request("GET", url, headers=headers)
        if answer.status == 404 and problem_type(answer.body) == "about:blank":
            return await self._move(row, CollectionState.REQUESTED, job="")
        if not 200 <= answer.status < 300:
            return await self._said_no(row, answer)
        if not answer.body:
            now = self._deps.clock.now()
            waited = task.batch_mode is BatchMode.LEADER_SELECTED and now - asked >= WAIT_SECONDS / 2
            due = now + (0.0 if waited else self._pause(answer))
            async with self._store.transaction() as tx:
                await tx.put_collection(replace(row, attempts=0, rule="", detail="", next_attempt=due))
            return 0
        try:
            aggregate = _opened(task, key_pair, row.request, answer.body)
            selected = task.batch_mode is BatchMode.LEADER_SELECTED
            state = CollectionState.FINISHING if selected else CollectionState.RELEASED
            return await self._keep(known, row, aggregate, state)
        except Refusal as refusal:
            return await self._refuse(row, refusal.rule, refusal.detail)

    async def _keep(self, known: Subject, row: Collection, aggregate: AggregateResult, state: CollectionState) -> int:
        """Estimate the result and store it. Raises ``Refusal``."""
        document = known.document(row, aggregate, self._deps.clock.now())
        result = Result(row.id, row.recipe_hash, row.number, json.dumps(document))
        async with self._keeping, self._store.transaction() as tx:
            await tx.add_result(result)
            await tx.put_collection(replace(row, state=state, rule="", detail="", attempts=0, next_attempt=0.0))
        self._deps.saw("collector", recipe=known.name, report_count=aggregate.report_count)
        self._log.info("released", recipe=known.name, report_count=aggregate.report_count)
        return 1

    async def _forget(self, task: Task, row: Collection) -> int:
        url = f"{_jobs_url(task)}/{row.job}"
        answer = await self._deps.transport.request("DELETE", url, headers=self._at_leader.headers())
        if 200 <= answer.status < 300 or answer.status == 404:
            return await self._move(row, CollectionState.RELEASED)
        return await self._later(row, "leader-answer", f"the Leader answered with status {answer.status}")

    async def _said_no(self, row: Collection, answer: HttpResponse, party: str = LEADER) -> int:
        """Handle an error answer: a final problem refuses the collection; anything else is retried."""
        problem = read_problem(answer.body)
        detail = problem.detail or problem.title or f"status {answer.status}"
        if problem.is_final:
            return await self._refuse(row, problem.type, detail)
        return await self._later(row, problem.type or f"{party}-answer", detail)

    async def _refuse(self, row: Collection, rule: str, detail: str) -> int:
        self._log.warning("collection_refused", collection=row.id, rule=rule, why=detail[:MAX_DETAIL])
        return await self._move(row, CollectionState.REFUSED, rule=rule, detail=detail[:MAX_DETAIL])

    async def _move(self, row: Collection, state: CollectionState, **changes: Any) -> int:
        fresh: dict[str, Any] = {"attempts": 0, "next_attempt": 0.0, "rule": "", "detail": ""}
        async with self._store.transaction() as tx:
            await tx.put_collection(replace(row, state=state, **{**fresh, **changes}))
        return 1

    async def _later(self, row: Collection, rule: str, detail: str) -> int:
        delay = self._backoff.pause(row.attempts, self._deps.entropy)
        waiting = replace(
            row,
            rule=rule,
            detail=detail[:MAX_DETAIL],
            attempts=row.attempts + 1,
            next_attempt=self._deps.clock.now() + delay,
        )
        async with self._store.transaction() as tx:
            await tx.put_collection(waiting)
        return 0

    def _pause(self, answer: HttpResponse) -> float:
        """Seconds until the next poll: as long as the Leader asks for, within the configured limits."""
        text = answer.headers.get("retry-after", "").strip()
        if not (text.isascii() and text.isdigit()):
            return self._config.poll_seconds
        return min(max(float(text[:9]), 0.0), self._config.max_poll_seconds)


def _opened(task: Task, key_pair: KeyPair, request: bytes, body: bytes) -> AggregateResult:
    """The aggregate result in the Leader's answer to ``request``. Raises ``Refusal``."""
    try:
        return open_collection(task, key_pair, CollectionJobReq.decode(request), CollectionJobResp.decode(body))
    except DecodeError as error:
        raise Refusal("collection-malformed", str(error)) from error
    except CryptoError as error:
        raise Refusal("collection-sealed", str(error)) from error


def _new_collection(recipe_hash: bytes, number: int, request: bytes) -> Collection:
    digest = hashlib.sha256(b"tacit collection" + recipe_hash + number.to_bytes(8, "big")).digest()
    return Collection(b64url(digest[:16]), recipe_hash, number, CollectionState.REQUESTED, request)


def _jobs_url(task: Task) -> str:
    return task.url(Role.LEADER, "collection_jobs")


def _not_found(detail: str) -> Abort:
    return Abort("about:blank", detail, status=404, title="Not Found")
