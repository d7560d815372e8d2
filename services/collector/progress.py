"""How a collection's row moves: onwards, into a pause, into a refusal, or to its result.

The result and the end of the collection commit together, so a batch is released once here, however often it is fetched.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, Protocol

from services.collector.records import Collection, CollectionState, Result
from services.collector.store import CollectorStore
from tacit.answers import is_final
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.models.interfaces.collector import Source
from tacit.ports import HttpResponse
from tacit.problem import read_problem
from tacit.retry_after import retry_after
from tacit.roles.collector import AggregateResult
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger

MAX_DETAIL = 500
LEAST_PAUSE = 0.5
"""Seconds between two polls at a Leader that asks for none."""


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


class Subject(Protocol):
    """Something whose batches can be collected: a recipe of the log, or whatever else a Leader has a task for."""

    @property
    def name(self) -> str:
        """The source's name as log lines show it."""
        ...

    def active(self) -> Source:
        """What can be collected. Raises ``Refusal``."""
        ...

    def document(self, row: Collection, aggregate: AggregateResult, now: float) -> dict[str, Any]:
        """The document that is released for a batch. Raises ``Refusal``."""
        ...


class Progress:
    """Moves rows of collections."""

    def __init__(self, store: CollectorStore, pace: Pace, deps: ServiceEnv) -> None:
        self._store = store
        self._config = pace
        self._backoff = Backoff(pace.retry_delay, LONGEST_PAUSE)
        self._deps = deps
        self._log = get_logger("collector")
        self._keeping = asyncio.Lock()

    async def keep(self, known: Subject, row: Collection, aggregate: AggregateResult, state: CollectionState) -> int:
        """Estimate the result and store it. Raises ``Refusal``."""
        document = known.document(row, aggregate, self._deps.clock.now())
        result = Result(row.id, row.recipe_hash, row.number, json.dumps(document))
        async with self._keeping, self._store.transaction() as tx:
            await tx.add_result(result)
            await tx.put_collection(replace(row, state=state, rule="", detail="", attempts=0, next_attempt=0.0))
        self._deps.saw("collector", recipe=known.name, report_count=aggregate.report_count)
        self._log.info("released", recipe=known.name, report_count=aggregate.report_count)
        return 1

    async def said_no(self, row: Collection, answer: HttpResponse, party: str) -> int:
        """Handle an error answer: a final problem refuses the collection; anything else is retried."""
        problem = read_problem(answer.body)
        detail = problem.detail or problem.title or f"status {answer.status}"
        if is_final(answer.status, answer.body):
            return await self.refuse(row, problem.type, detail)
        asked = retry_after(answer.headers, self._deps.clock.now())
        return await self.later(row, problem.type or f"{party}-answer", detail, asked)

    async def refuse(self, row: Collection, rule: str, detail: str) -> int:
        """End a collection without a result."""
        self._log.warning("collection_refused", collection=row.id, rule=rule, why=detail[:MAX_DETAIL])
        return await self.move(row, CollectionState.REFUSED, rule=rule, detail=detail[:MAX_DETAIL])

    async def move(self, row: Collection, state: CollectionState, **changes: Any) -> int:
        """Put a collection into ``state`` with a clean record of attempts; returns 1."""
        fresh: dict[str, Any] = {"attempts": 0, "next_attempt": 0.0, "rule": "", "detail": ""}
        async with self._store.transaction() as tx:
            await tx.put_collection(replace(row, state=state, **{**fresh, **changes}))
        return 1

    async def later(self, row: Collection, rule: str, detail: str, asked: float = 0.0) -> int:
        """Record why an exchange failed, and try again after a pause that grows with each failure, and is at least the
        ``asked`` seconds; returns 0."""
        delay = self._backoff.pause(row.attempts, self._deps.entropy, asked)
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

    async def wait(self, row: Collection, due: float) -> int:
        """Leave a collection as it is until ``due`` (POSIX seconds); returns 0."""
        async with self._store.transaction() as tx:
            await tx.put_collection(replace(row, attempts=0, rule="", detail="", next_attempt=due))
        return 0

    def pause(self, answer: HttpResponse) -> float:
        """Seconds until the next poll: as long as the Leader asks for, within the configured limits."""
        asked = retry_after(answer.headers, self._deps.clock.now())
        if not asked and not answer.headers.get("retry-after", "").strip().isdigit():  # it does not ask
            return self._config.poll_seconds
        return min(max(asked, LEAST_PAUSE), self._config.max_poll_seconds)
