"""What the Leader's operator sees of its jobs and collections, and which of them can be retried.

Aggregation jobs are made of devices' reports, so a single job may reveal a single device. They are therefore shown as
one entry for each active recipe, which is there with and without reports, and as numbers over all recipes, as in the
metrics. Collection jobs belong to the collector, and no device affects them.
"""

from __future__ import annotations

import math

from services.leader.arrivals import Wakeups
from services.leader.records import CollectionRow, CollectionState
from services.leader.store import LeaderStore
from tacit.aggregator.records import TaskState
from tacit.codec import b64url, unb64url
from tacit.ports import Clock
from tacit.service.operated import Job

AGGREGATION, COLLECTION = "aggregation", "collection"


class LeaderJobs:
    """The Leader's jobs, for ``tacit.service.operated``. ``wakeups`` are notified when something is to be retried."""

    def __init__(self, store: LeaderStore, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups

    async def jobs(self) -> list[Job]:
        """One entry for each active recipe, in the order in which the log showed them, then the collection jobs that
        are under way."""
        async with self._store.read() as tx:
            served = {
                row.task_id: b64url(row.recipe_hash)
                for row in await tx.tasks()
                if row.state is TaskState.ACTIVE and row.task_id is not None
            }
            collections = await tx.unfinished_collections(math.inf)
        jobs = [Job(f"{AGGREGATION}.{b64url(task)}", AGGREGATION, recipe, "served", None)
                 for task, recipe in served.items()]  # fmt: skip
        return jobs + [_collection(one.row, served.get(one.row.task_id, "")) for one in collections]

    async def retry(self, job_id: str) -> bool:
        """Make the unfinished aggregation jobs of a recipe, or one collection job, due at once; jobs that a worker has
        stay as they are. False if there is nothing with this id."""
        if job_id not in {one.id for one in await self.jobs()}:
            return False
        kind, _, name = job_id.partition(".")
        async with self._store.transaction() as tx:
            if kind == AGGREGATION:
                await tx.retry_jobs(unb64url(name), self._clock.now())
            else:
                await tx.retry_collection(unb64url(name))
        for wakeup in self._wakeups:
            wakeup.notify()
        return True


def _collection(row: CollectionRow, recipe: str) -> Job:
    """A job that is asking the Helper shows when it asks again; a job that waits for its batch shows no time."""
    asking = row.state is CollectionState.ASKING
    failed = asking and row.attempts > 0
    detail = f"{row.attempts} attempts at the Helper failed" if failed else ""
    following = math.ceil(row.next_attempt) if failed else None
    return Job(f"{COLLECTION}.{b64url(row.job_id)}", COLLECTION, recipe, row.state.value, failed, detail, following)
