"""The collector: asks the Leader for a batch, polls, opens, estimates, stores, publishes.

If a recipe's model has one server, the collector asks that server for the sum instead, until the sum is released.

A collection is stored with the exact bytes of its request before anything is sent; after a restart it continues with
the same bytes and the same job.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from services.collector.exchanges import LeaderExchange, OneServerExchange
from services.collector.progress import Pace, Progress, Subject
from services.collector.records import Collection, CollectionState
from services.collector.store import CollectorStore
from tacit.codec import b64url
from tacit.errors import Abort, Refusal
from tacit.messages import Interval
from tacit.models.one_server import ANALYZER
from tacit.models.secure_aggregation.collector import LEADER
from tacit.ports import TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import NO_TOKEN, ShownToken

STEP_LIMIT = 64
_INACTIVE = ("recipe-inactive", "the recipe is not active in the log")


class Subjects(Protocol):
    """What may be collected, by hash (32 bytes): recipes of a log, or bare tasks."""

    def find(self, recipe_hash: bytes, /) -> Subject | None:
        """The subject with this hash, which need not be active; None if ``step`` has not come upon it."""
        ...

    async def step(self) -> int:
        """Look for new subjects; returns how many are new."""
        ...


class Exchange(Protocol):
    """How the collector asks one kind of server, a Leader or the one server of a recipe without aggregators."""

    async def advance(self, known: Subject, source: Any, row: Collection, /) -> int:
        """Make one exchange for a collection from ``source``, whose party is of this kind; returns 1 if the
        collection's state changed. Raises ``TransportError``."""
        ...


class Collector:
    """Creates, shows and advances collections. ``leader_token`` is presented to the Leader, ``analyzer_token`` to the
    one server of recipes that have no Leader."""

    def __init__(
        self,
        store: CollectorStore,
        recipes: Subjects,
        config: Pace,
        deps: ServiceEnv,
        leader_token: ShownToken,
        analyzer_token: ShownToken = NO_TOKEN,
    ) -> None:
        self._store = store
        self._recipes = recipes
        self._deps = deps
        self._rows = Progress(store, config, deps)
        self._exchanges: Mapping[str, Exchange] = {
            LEADER: LeaderExchange(self._rows, deps, leader_token),
            ANALYZER: OneServerExchange(self._rows, deps, analyzer_token),
        }
        self._log = get_logger("collector")
        self._lock = asyncio.Lock()
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
        source = known.active()
        request = source.request(interval)
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
            if last is not None and (last.state is not CollectionState.RELEASED or source.once):
                return last, False
            number = len(earlier)
            digest = hashlib.sha256(b"tacit collection" + recipe_hash + number.to_bytes(8, "big")).digest()
            row = Collection(b64url(digest[:16]), recipe_hash, number, CollectionState.REQUESTED, request)
            await tx.add_collection(row)
            return row, True

    async def show(self, collection_id: str) -> Collection:
        """The collection with this id in its present state. Raises ``Abort`` (404)."""
        async with self._store.read() as tx:
            row = await tx.collection(collection_id)
        if row is None:
            raise _not_found("there is no collection with this id")
        return row

    async def collections(self, after: int, limit: int) -> list[Collection]:
        """At most ``limit`` collections, by recipe and number, behind the first ``after``."""
        async with self._store.read() as tx:
            return await tx.collections(None, after, limit)

    async def step(self) -> int:
        """Advance every due collection by one exchange; returns how many changed their state. In the background, polls
        at the Leader run concurrently and the step does not wait for them, nor does one exchange wait for another. A
        collection that fails unexpectedly records that in its row and is retried later."""
        async with self._lock:
            async with self._store.read() as tx:  # a poll that is under way is still due, and must take nobody's place
                due = await tx.due(self._deps.clock.now(), STEP_LIMIT + len(self._polls))
            rows = [row for row in due if row.id not in self._polls][:STEP_LIMIT]
            if not self._deps.background:
                return sum([await self._advance(row) for row in rows])
            polls = [row for row in rows if row.state is CollectionState.COLLECTING]
            for row in polls:
                self._start_poll(row)
            others = [row for row in rows if row.state is not CollectionState.COLLECTING]
            return sum(await asyncio.gather(*map(self._advance, others)))

    def _start_poll(self, row: Collection) -> None:
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
            return await self._rows.later(row, *_INACTIVE)
        try:
            source = known.active()
        except Refusal:
            return await self._rows.later(row, *_INACTIVE)
        try:
            return await self._exchanges[source.party].advance(known, source, row)
        except TransportError as error:
            return await self._rows.later(row, f"{source.party}-unreachable", str(error), error.retry_after)
        except Exception as error:  # an error in one collection must not hold up the others, and must be recorded
            self._log.error("collection_broken", collection=row.id, error=error)
            return await self._rows.later(
                row, "collection-broken", f"it ended with {type(error).__name__}; see the log"
            )


def _not_found(detail: str) -> Abort:
    return Abort("about:blank", detail, status=404, title="Not Found")
