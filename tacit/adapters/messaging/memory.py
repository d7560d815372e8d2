"""Subscriptions to announcements, as one process keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tacit.announcer import MAX_ANNOUNCEMENT, Announcement


def check_announcement(topic: str, payload: bytes) -> Announcement:
    """Make an announcement of a valid size; raises ``ValueError``."""
    if not topic or len(payload) > MAX_ANNOUNCEMENT:
        raise ValueError(f"an announcement needs a topic and at most {MAX_ANNOUNCEMENT} bytes")
    return Announcement(topic, payload)


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
        """True from ``close`` on: nothing that is offered is kept any more."""
        return self._closed
