"""What changed, sent to listeners (server-sent events): states of questions, and yields as coarsely as they are known.

Nothing is kept: a listener that was away reads the resources again. One that does not keep up is cut off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from services.admin.core.log import Log, told
from services.admin.core.ports import QuestionsTx
from services.admin.core.records import QuestionState
from tacit.errors import Abort
from tacit.operations.results import CollectorAccess
from tacit.operations.yields import yield_at
from tacit.ports import Clock
from tacit.service.store import Transactions

MOST_WAITING: Final = 64
"""The most events that may wait for one listener."""
MOST_STREAMS: Final = 8
MOST_LISTENING: Final = 64
"""Streams of one person, and of all: each is a request that is being answered, of which a service has only so many."""
WATCHED: Final = 50
"""How many of the newest published questions are watched for their yields."""


@dataclass(frozen=True, slots=True)
class Event:
    """``kind``: ``question`` (``id``, ``state``, ``revision``), ``recipe`` (``hash``, ``contributions``, ...) or
    ``fleet``, of a staging deployment (without members)."""

    kind: str
    document: dict[str, Any]

    def encode(self) -> bytes:
        """The event as a block of ``text/event-stream``."""
        return f"event: {self.kind}\ndata: {json.dumps(self.document, separators=(',', ':'))}\n\n".encode()


@dataclass
class Events:
    """All listeners."""

    _queues: dict[asyncio.Queue[Event | None], str] = field(default_factory=dict)

    @property
    def heard(self) -> bool:
        """Whether there is any listener."""
        return bool(self._queues)

    @contextmanager
    def listening(self, who: str = "") -> Iterator[asyncio.Queue[Event | None]]:
        """The events from now on, for the person ``who``; None: it is over. Where there are too many streams, of one
        person or of all, the oldest of them is over."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(MOST_WAITING + 1)
        own = [one for one, person in self._queues.items() if person == who]
        if len(own) >= MOST_STREAMS:
            self._end(own[0])
        elif len(self._queues) >= MOST_LISTENING:
            self._end(next(iter(self._queues)))
        self._queues[queue] = who
        try:
            yield queue
        finally:
            self._queues.pop(queue, None)

    def tell(self, event: Event) -> None:
        """Send an event to all listeners. The stream of a listener that is too far behind ends."""
        for queue in list(self._queues):
            if queue.qsize() >= MOST_WAITING:
                self._end(queue)
            else:
                queue.put_nowait(event)

    def end(self) -> None:
        """End all streams."""
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[Event | None]) -> None:
        del self._queues[queue]
        queue.put_nowait(None)


class YieldWatch:
    """Looks, while anybody listens, how far the batches of published questions are filled, and tells what is new."""

    def __init__(
        self,
        store: Transactions[QuestionsTx],
        events: Events,
        log: Log,
        collector: CollectorAccess | None,
        clock: Clock,
    ) -> None:
        self._store = store
        self._events = events
        self._log = log
        self._collector = collector
        self._clock = clock
        self._known: dict[str, dict[str, Any]] = {}

    async def step(self) -> int:
        """Returns how many events were sent. A collector that cannot be reached is asked again."""
        if not self._events.heard or self._collector is None:
            self._known.clear()
            return 0
        async with self._store.read() as tx:
            hashes = await tx.newest_published(WATCHED)
        found = {one: document for one in hashes if (document := await self._look(one, self._collector)) is not None}
        fresh = {one: document for one, document in found.items() if self._known.get(one) != document}
        self._known |= fresh
        for document in fresh.values():
            self._events.tell(Event("recipe", document))
        return len(fresh)

    async def _look(self, recipe_hash: str, collector: CollectorAccess) -> dict[str, Any] | None:
        if self._known.get(recipe_hash, {}).get("exact"):
            return self._known[recipe_hash]
        try:
            async with told("collector"):
                _, found = await yield_at(self._log.transport, collector, recipe_hash, self._clock.now())
        except Abort:
            return None
        return {
            "hash": recipe_hash,
            "contributions": found.contributions,
            "min_batch_size": found.min_batch_size,
            "reached": found.reached,
            "exact": found.exact,
        }


def question_event(question_id: str, state: QuestionState | None, revision: int) -> Event:
    """A question that was written, moved, or deleted (state None)."""
    return Event("question", {"id": question_id, "state": None if state is None else state.value, "revision": revision})
