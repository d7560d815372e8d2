"""The workers of one Leader process: they take due jobs under leases, and work on several at a time.

The database says which jobs are due; the coordinator, in whichever process, wakes all workers when it has formed some.
A job is taken for ``lease_seconds`` and kept by renewal. The leases of a process that dies run out, and another process
takes the jobs over. Jobs that wait for one Helper never take all places, so a slow or dead Helper holds up only its own
tasks.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from services.leader.config import LeaderLimits
from services.leader.records import JobRow
from services.leader.store import LeaderStore
from services.leader.work import JobWork, LeaseLostError, PreparationError
from tacit.adapters.waiting import first_of
from tacit.aggregator.parties import Parties
from tacit.errors import Abort, Fatal, UsageError
from tacit.roles.aggregator import Party
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger

CANDIDATES = 64
"""Most due jobs that one look considers."""

JOBS_PER_CHECKPOINT = 16
"""Number of jobs after which the bytes of processed reports are removed from SQLite's log, if there was no quieter
moment."""

UNKNOWN_TASK_SECONDS = 30.0
"""Seconds for which a job of a task that this process does not know is left alone."""


class Workers:
    """The driver that advances aggregation jobs.

    In the background a step starts as many jobs as there are free places, and returns when something has changed.
    Otherwise (tests, simulations) it does everything that is due, one job after another.
    """

    def __init__(
        self,
        store: LeaderStore,
        parties: Parties,
        deps: ServiceEnv,
        limits: LeaderLimits,
        work: JobWork,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._limits = limits
        self._work = work
        self.background = deps.background
        self._holder = int.from_bytes(deps.entropy(7), "big") + 1
        self._running: dict[asyncio.Task[int], tuple[str, bytes]] = {}
        self._ignored: dict[bytes, float] = {}
        self._unscrubbed = 0
        self._renewed_at = 0.0
        self._log = get_logger("leader")
        self.changed = asyncio.Event()
        self.wake = asyncio.Event()

    async def step(self) -> int:
        """One step, as described above. Returns how many reports were processed or, in the background, whether anything
        changed."""
        if not self.background:
            moved = 0
            while jobs := await self._claim(1):
                moved += sum([await self._run(party, job) for party, job in jobs])
            if moved:
                await self._store.checkpoint()
            return moved
        self.changed.clear()
        await self._start_jobs(self._limits.concurrent_jobs - len(self._running))
        if not self._running:
            return 0
        now = self._deps.clock.now()
        if now - self._renewed_at >= self._limits.lease_seconds / 3:
            self._renewed_at = now
            async with self._store.transaction(shared=True) as tx:
                job_ids = [job_id for _, job_id in self._running.values()]
                await tx.renew_leases(job_ids, self._holder, now + self._limits.lease_seconds)
        await first_of(self.changed.wait(), self._deps.clock.sleep(self._limits.idle_seconds))
        await self._scrub(at_least=JOBS_PER_CHECKPOINT if self._running else 1)
        return 1

    def poll_now(self) -> None:
        """Look for due jobs now, and start those for which there is a free place."""
        self.changed.set()
        self.wake.set()

    async def _start_jobs(self, free: int) -> None:
        if free <= 0:
            return
        for party, job in await self._claim(free):
            task = asyncio.create_task(self._run(party, job))
            self._running[task] = (_helper_of(party), job.job_id)
            task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[int]) -> None:
        self._running.pop(task, None)
        self._unscrubbed += 1
        self.changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("job_interrupted", error=error)  # its lease is no longer renewed, and runs out

    async def _claim(self, free: int) -> list[tuple[Party, JobRow]]:
        """Take up to ``free`` due jobs; those of one Helper take at most half of all places."""
        now = self._deps.clock.now()
        async with self._store.read() as tx:
            due = await tx.due_jobs(now, CANDIDATES, self._skipped_tasks(now))
        chosen: dict[bytes, Party] = {}
        places = self._places()
        for job_id, task_id in due:
            party = await self._parties.look_up(task_id)
            if party is None:
                self._ignored[task_id] = now + UNKNOWN_TASK_SECONDS
                continue
            helper = _helper_of(party)
            if len(chosen) < free and places[helper] < max(1, self._limits.concurrent_jobs // 2):
                places[helper] += 1
                chosen[job_id] = party
        if not chosen:
            return []
        async with self._store.transaction(shared=True) as tx:
            jobs = await tx.claim_jobs(chosen, now, self._holder, now + self._limits.lease_seconds)
        return [(chosen[job.job_id], job) for job in jobs]

    def _places(self) -> Counter[str]:
        """How many jobs wait for each Helper."""
        return Counter(helper for helper, _ in self._running.values())

    def _skipped_tasks(self, now: float) -> list[bytes]:
        """Tasks whose jobs are skipped: unknown ones, and those whose Helper has all the places that it may have."""
        self._ignored = {task_id: until for task_id, until in self._ignored.items() if until > now}
        places = self._places()
        full = {helper for helper, count in places.items() if count >= max(1, self._limits.concurrent_jobs // 2)}
        busy = [party.task.task_id for party in self._parties.active() if _helper_of(party) in full]
        return [*self._ignored, *busy]

    async def _run(self, party: Party, job: JobRow) -> int:
        """Work on one job. Nothing that happens to it holds up the others."""
        try:
            return await self._work.run(party, job)
        except LeaseLostError:
            self._log.warning("job_lease_lost")
        except PreparationError as error:
            async with self._store.transaction(shared=True) as tx:
                await tx.expire_lease(job, self._deps.clock.now(), str(error))
        except (Abort, Fatal, UsageError) as error:
            self._log.error("job_broken", error=error)
            return await self._work.set_aside(party, job)
        return 0

    async def _scrub(self, at_least: int) -> None:
        if self._unscrubbed >= at_least:
            self._unscrubbed = 0
            await self._store.checkpoint()

    async def close(self) -> None:
        """Let go of every job: another process will do what was not committed."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        try:
            async with self._store.transaction(shared=True) as tx:
                await tx.free_leases(self._holder)
        except Exception as error:  # closing must not fail: in the worst case the leases run out
            self._log.warning("leases_not_freed", error=error)


def _helper_of(party: Party) -> str:
    return party.task.configuration.helper_aggregator_endpoint
