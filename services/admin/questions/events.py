"""Server-sent events about what changed: states of questions, and yields as coarsely as they are known.

No event is stored: a listener that was away reads the resources again. One that does not keep up is cut off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from services.admin.questions.log import Log, blaming
from services.admin.storage.records import QuestionState
from services.admin.storage.store import AdminStore
from tacit.errors import Abort
from tacit.operations.results import CollectorAccess
from tacit.operations.yields import yield_at
from tacit.ports import Clock

MOST_WAITING: Final = 64
"""The most events that may wait for one listener."""
MOST_STREAMS: Final = 8
MOST_LISTENING: Final = 64
"""How many streams one person may have, and all together: each occupies one of the requests that a service can answer
at a time."""
WATCHED: Final = 50
"""How many of the newest published questions are watched for their yields."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event. ``kind``: ``question`` (document: ``id``, ``state``, ``revision``), ``recipe`` (``hash``,
    ``contributions``, ...) or, in a staging deployment, ``fleet`` (an empty document)."""

    kind: str
    document: dict[str, Any]

    def encode(self) -> bytes:
        """The event as a block of ``text/event-stream``."""
        return f"event: {self.kind}\ndata: {json.dumps(self.document, separators=(',', ':'))}\n\n".encode()


@dataclass
class Events:
    """The open event streams, each with a queue of its own, the oldest first."""

    _queues: dict[asyncio.Queue[Event | None], str] = field(default_factory=dict)

    @property
    def heard(self) -> bool:
        """Whether there is any listener."""
        return bool(self._queues)

    @contextmanager
    def listening(self, who: str = "") -> Iterator[asyncio.Queue[Event | None]]:
        """A queue of the events from now on, for the person ``who``; None in it says that the stream is over. If one
        person has too many streams, or all together have, the oldest one ends."""
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
        """End every stream: each listener still gets the events that wait for it, and then None."""
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[Event | None]) -> None:
        del self._queues[queue]
        queue.put_nowait(None)


class YieldWatch:
    """While anybody listens, watches how far the batches of published questions are filled, and sends each change."""

    def __init__(
        self,
        store: AdminStore,
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
        """Look once. Returns how many events were sent. A collector that cannot be reached is asked again next time."""
        if not self._events.heard or self._collector is None:
            self._known.clear()
            return 0
        async with self._store.read() as tx:
            hashes = await tx.newest_published(WATCHED)
        documents = {
            one: document for one in hashes if (document := await self._look(one, self._collector)) is not None
        }
        fresh = {one: document for one, document in documents.items() if self._known.get(one) != document}
        self._known |= fresh
        for document in fresh.values():
            self._events.tell(Event("recipe", document))
        return len(fresh)

    async def _look(self, recipe_hash: str, collector: CollectorAccess) -> dict[str, Any] | None:
        if self._known.get(recipe_hash, {}).get("exact"):
            return self._known[recipe_hash]
        try:
            async with blaming("collector"):
                _, document = await yield_at(self._log.transport, collector, recipe_hash, self._clock.now())
        except Abort:
            return None
        return {
            "hash": recipe_hash,
            "contributions": document.contributions,
            "min_batch_size": document.min_batch_size,
            "reached": document.reached,
            "exact": document.exact,
        }


def question_event(question_id: str, state: QuestionState | None, revision: int) -> Event:
    """The event for a question that was written, changed its state, or was deleted (``state`` None)."""
    return Event("question", {"id": question_id, "state": None if state is None else state.value, "revision": revision})
