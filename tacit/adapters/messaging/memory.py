"""Queue, and subscriptions to announcements, within one process: the default, which needs no server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from tacit.adapters.waiting import first_of
from tacit.ports import MAX_ANNOUNCEMENT, MAX_JOB_ID, Announcement, Clock, Delivery

BOUND = 100_000


def checked_ids(ids: Sequence[bytes]) -> Sequence[bytes]:
    """Return ``ids`` if a queue can carry them; raises ``ValueError``."""
    if any(not 0 < len(one) <= MAX_JOB_ID for one in ids):
        raise ValueError(f"an id must have 1 to {MAX_JOB_ID} bytes")
    return ids


def checked_announcement(topic: str, payload: bytes) -> Announcement:
    """Make an announcement of a valid size; raises ``ValueError``."""
    if not topic or len(payload) > MAX_ANNOUNCEMENT:
        raise ValueError(f"an announcement needs a topic and at most {MAX_ANNOUNCEMENT} bytes")
    return Announcement(topic, payload)


class MemoryJobQueue:
    """``JobQueue`` within one process; holds ``bound`` ids and then drops the oldest. A taken id is never delivered
    again."""

    def __init__(self, clock: Clock, bound: int = BOUND) -> None:
        self._clock = clock
        self._ids: deque[bytes] = deque(maxlen=bound)
        self._changed = asyncio.Event()
        self._closed = False

    async def put(self, ids: Sequence[bytes]) -> None:
        """Queue ``ids`` (each at most ``MAX_JOB_ID`` bytes, else ``ValueError``) and wake a waiting ``take``."""
        self._ids.extend(checked_ids(ids))
        self._changed.set()

    async def take(self, seconds: float) -> Delivery | None:
        """Take the oldest id; None when none came within ``seconds``, or after ``close``."""
        if not self._ids and not self._closed and seconds > 0:
            self._changed.clear()
            await first_of(self._clock.sleep(seconds), self._changed.wait())
        return Delivery(self._ids.popleft(), None) if self._ids and not self._closed else None

    async def done(self, receipt: object) -> None:
        """Do nothing: a taken id is never delivered again."""

    async def close(self) -> None:
        """Stop all deliveries and wake every waiting ``take``."""
        self._closed = True
        self._changed.set()


class Latest:
    """``Subscription`` that keeps the newest announcement per topic until its reader comes."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = frozenset(topics)
        self._waiting: dict[str, Announcement] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def offer(self, announcement: Announcement) -> None:
        """Keep the announcement if this subscription has its topic."""
        if announcement.topic in self.topics and not self._closed:
            self._waiting[announcement.topic] = announcement
            self._changed.set()

    def __aiter__(self) -> Latest:
        return self

    async def __anext__(self) -> Announcement:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.pop(next(iter(self._waiting)))

    def close(self) -> None:
        """Discard pending announcements and end the iteration."""
        self._closed = True
        self._waiting.clear()
        self._changed.set()

    @property
    def closed(self) -> bool:
        """Whether the subscription has been closed."""
        return self._closed
