"""Requests of one process that wait for the end of collection jobs: one look reads for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from services.leader.store import LeaderStore

LOOK_SECONDS = 0.5
"""Seconds between two looks while a Collector waits, in case a signal from another process is lost."""


class Waiters:
    """The driver that wakes the requests of this process whose jobs have ended; it reads nothing while none waits."""

    def __init__(self, store: LeaderStore) -> None:
        self._store = store
        self._waiting: dict[bytes, set[asyncio.Event]] = {}

    @contextmanager
    def entered(self, job_id: bytes) -> Iterator[asyncio.Event]:
        """Wait for the job within this block: the event is set once a look finds that it is not under way. Enter before
        reading the job, so that no end is missed in between."""
        ended = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(ended)
        try:
            yield ended
        finally:
            events = self._waiting[job_id]
            events.discard(ended)
            if not events:
                del self._waiting[job_id]

    async def step(self) -> int:
        """One look; returns 0: the next one is due after a signal or ``LOOK_SECONDS``."""
        asked = [*self._waiting]
        if not asked:
            return 0
        async with self._store.read() as tx:
            ended = await tx.ended_collections(asked)
        for job_id in ended:
            for event in self._waiting.get(job_id, ()):
                event.set()
        return 0
