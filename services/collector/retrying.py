"""Collections as jobs: which ones are stuck, and how one is retried."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

from services.collector.records import UNFINISHED, Collection, CollectionState
from services.collector.store import CollectorStore
from tacit.codec import b64url
from tacit.service.operated import Job

KIND = "collection"


class CollectionJobs:
    """``waking`` returns the event that wakes the collector."""

    def __init__(self, store: CollectorStore, waking: Callable[[], asyncio.Event]) -> None:
        self._store = store
        self._waking = waking

    async def jobs(self) -> list[Job]:
        """Every collection that is under way or refused, by recipe and number."""
        async with self._store.read() as tx:
            return [job_of(row) for row in await tx.collections() if row.state is not CollectionState.RELEASED]

    async def retry(self, job_id: str) -> bool:
        """Retry a collection: a refused one is requested again; one that waits for another attempt is due at once, and
        its pauses start anew. False if no collection with this id is under way or refused."""
        async with self._store.transaction() as tx:
            row = await tx.collection(job_id)
            if row is None or (row.state not in UNFINISHED and row.state is not CollectionState.REFUSED):
                return False
            refused = row.state is CollectionState.REFUSED
            state, job = (CollectionState.REQUESTED, "") if refused else (row.state, row.job)
            await tx.put_collection(
                replace(row, state=state, job=job, rule="", detail="", attempts=0, next_attempt=0.0)
            )
        self._waking().set()
        return True


def job_of(row: Collection) -> Job:
    """A collection as its operator sees it: stuck if it was refused or its last attempt failed."""
    stuck = row.state is CollectionState.REFUSED or row.attempts > 0
    detail = f"{row.rule}: {row.detail}" if row.rule else ""
    following = math.ceil(row.next_attempt) if row.attempts and row.state in UNFINISHED else None
    return Job(row.id, KIND, b64url(row.recipe_hash), row.state.value, stuck, detail, following)
