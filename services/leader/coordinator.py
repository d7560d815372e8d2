"""The work that one Leader process does for all: it forms jobs from pending reports, splits jobs that kill their
workers, and drops partitions whose reports are all processed.

Each change is one transaction that runs alone and reads again what it decides on. So two processes that both believe
for a moment that they lead form nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.leader.arrivals import Arrivals
from services.leader.config import LeaderLimits
from services.leader.records import JobRow, JobState
from services.leader.store import LeaderStore, LeaderTx
from tacit.adapters.databases.signals import Wakeup
from tacit.aggregator.parties import Parties
from tacit.messages import BatchMode, Role
from tacit.roles.aggregator import Party
from tacit.roles.leader import SHARE_OVERHEAD, report_bytes, share_size
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.base.random_order import shuffle
from tacit.task import Task

POOL = 1 << 13
"""Most pending reports among which one shuffle mixes."""

MAX_REQUEST = 12 << 20
"""Most bytes of a job's request: a Helper takes bodies of 16 MiB, and a job that was sent is never split (P14)."""

MAX_CELLS = 1 << 14
"""Most encrypted cells in a job of a pan-private task, so that the Helper answers within seconds: each cell costs it a
quarter of a millisecond."""

SPLITS = 16
"""Most jobs that one step splits."""

SWEEP_SECONDS = 5.0
"""Seconds between two checks for partitions that can be dropped."""

ROOM_SECONDS = 1.0
"""Seconds between two checks for room for uploads. A check that finds none makes it."""


class Coordinator:
    """The driver of the process that leads; idle in every other process. ``sending`` is notified when it has formed
    jobs."""

    def __init__(
        self,
        store: LeaderStore,
        parties: Parties,
        deps: ServiceEnv,
        limits: LeaderLimits,
        sending: Wakeup,
        arrivals: Arrivals,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._limits = limits
        self._sending = sending
        self._arrivals = arrivals
        self._lock = asyncio.Lock()
        self._closed_at: float | None = None
        self._swept_at = deps.clock.now()
        self._room_seen_at = -ROOM_SECONDS
        self._log = get_logger("leader")

    async def step(self) -> int:
        """One round of splitting, forming and sweeping. Returns how many jobs were formed."""
        if not await self._store.leads():
            return 0
        parties = self._parties.active()
        # before the reads: what is stored while they run is counted for the next look, whether or not they see it
        self._arrivals.begin({party.task.task_id: self._most(party.task) for party in parties})
        async with self._lock:
            async with self._store.read() as tx:
                poisonous = bool(await tx.split_jobs(self._deps.clock.now(), 1))
                waiting = await tx.tasks_with_pending() if parties else set()
                asked = [party for party in parties if party.task.task_id in waiting]
                ready = [party for party in asked if await self._is_ready(tx, party)]
                lacks_room = await self._lacks_room(tx)
            job_ids = await self._split_poisonous() if poisonous else []
            for party in ready:
                job_ids += await self._carve(party)
            await self._sweep(lacks_room)
        # after the commits: a worker that is woken sooner does not find the job. Without it (a crash), workers find the
        # job in the database at their next look
        if job_ids:
            self._sending.notify()
        return len(job_ids)

    async def _is_ready(self, tx: LeaderTx, party: Party) -> bool:
        sizes, lacking = await self._sizes(tx, party)
        if lacking is not None:
            self._arrivals.lacks(party.task.task_id, lacking)
        return bool(sizes)

    async def _lacks_room(self, tx: LeaderTx) -> bool:
        now = self._deps.clock.now()
        if 0 <= now - self._room_seen_at < ROOM_SECONDS:
            return False
        self._room_seen_at = now
        return await tx.numbered.lacks_room()

    async def _carve(self, party: Party) -> list[bytes]:
        """Form the jobs for which one task is ready."""
        async with self._store.transaction() as tx:
            # read again, under the lock: since the first look, uploads have continued and jobs may have failed
            sizes, _ = await self._sizes(tx, party)
            if not sizes or not await tx.is_open(party, self._deps.clock.now()):
                return []
            # the Helper sees the order of a job's reports, which must not be their order of arrival
            pool = shuffle(await tx.pending(party.task.task_id, self._deps.clock.now(), POOL), self._deps.entropy)
            batch_id = await self._batch(tx, party)
            jobs: list[JobRow] = []
            for size in sizes:
                seqs, pool = tuple(pool[:size]), pool[size:]
                jobs.append(self._job(party.task.task_id, batch_id, seqs))
            await tx.add_jobs(jobs)
            await tx.take_pending(party.task.task_id, [seq for job in jobs for seq in job.seqs])
        return [job.job_id for job in jobs]

    def _job(self, task_id: bytes, batch_id: bytes | None, seqs: Sequence[int], expired: int = 0) -> JobRow:
        return JobRow(self._deps.entropy(16), task_id, batch_id, JobState.FORMED, tuple(seqs), expired=expired)

    async def _sizes(self, tx: LeaderTx, party: Party) -> tuple[list[int], int | None]:
        """The sizes of the jobs that may be formed now: full ones, and one with the remaining reports if waiting for
        more would serve nothing. And how many more reports would then make another full one: 0 where none would,
        ``None`` where no report waits and so nothing more was read."""
        task, now = party.task, self._deps.clock.now()
        most = self._most(task)
        left, since = await tx.pending_head(task.task_id, now, POOL)
        if not left:
            return [], None
        unfinished = await tx.unfinished_jobs(task.task_id)
        room = await self._room(tx, party)
        free = self._limits.max_jobs - unfinished
        sizes: list[int] = []
        while len(sizes) < free and left and room:
            full = left >= min(most, room)
            if not full and (sizes or not self._is_enough(party, left, room, since, unfinished)):
                break
            sizes.append(min(most, room, left))
            left -= sizes[-1]
            room -= sizes[-1]
        return sizes, max(0, min(most, room) - left)

    def _most(self, task: Task) -> int:
        """The most reports that a new job of the task can hold."""
        most = min(self._limits.job_size, most_reports(task, self._limits.job_bytes))
        return min(most, task.min_batch_size) if task.batch_mode is BatchMode.LEADER_SELECTED else most

    def _is_enough(self, party: Party, pending: int, room: int, since: float, unfinished: int) -> bool:
        """Whether a job with fewer reports than it could hold is formed: no other job of the task is under way, or the
        oldest report has waited long enough, or no more reports will come."""
        now = self._deps.clock.now()
        if now - since >= self._limits.max_job_delay or now >= party.task.end_seconds:
            return True
        return unfinished == 0 and pending >= min(self._limits.min_job_size, room)

    async def _room(self, tx: LeaderTx, party: Party) -> int:
        """How many reports new jobs may hold, since a leader-selected batch closes at exactly B (P13)."""
        task = party.task
        if task.batch_mode is BatchMode.TIME_INTERVAL:
            return POOL
        batch_id = await tx.open_batch(task.task_id)
        if batch_id is None:
            return task.min_batch_size
        counted = await tx.counted(task.task_id, batch_id)
        return max(0, task.min_batch_size - counted - await tx.in_flight(task.task_id, batch_id))

    async def _batch(self, tx: LeaderTx, party: Party) -> bytes | None:
        if party.task.batch_mode is BatchMode.TIME_INTERVAL:
            return None
        batch_id = await tx.open_batch(party.task.task_id)
        if batch_id is None:
            batch_id = self._deps.entropy(32)
            await tx.add_batch(party.task.task_id, batch_id)
        return batch_id

    async def _split_poisonous(self) -> list[bytes]:
        """Halve formed jobs whose workers died over them; reject the report of such a job that holds only one."""
        formed: list[JobRow] = []
        async with self._store.transaction() as tx:
            jobs = await tx.split_jobs(self._deps.clock.now(), SPLITS)
            for job in jobs:
                if len(job.seqs) > 1:
                    middle = len(job.seqs) // 2
                    for part in (job.seqs[:middle], job.seqs[middle:]):
                        formed.append(self._job(job.task_id, job.batch_id, part, job.expired))
                else:
                    await tx.reject_unread(job)
            await tx.add_jobs(formed)
            await tx.remove_jobs(jobs)
        for job in jobs:
            self._log.error("job_split", size=len(job.seqs))
        return [job.job_id for job in formed]

    async def _sweep(self, lacks_room: bool) -> None:
        """Keep room for uploads; drop partitions that nobody needs; every ``scrub_seconds`` close the current one, so
        that deleted bytes do not stay in it for want of newer reports."""
        if lacks_room:
            async with self._store.transaction() as tx:
                await tx.numbered.make_room()
        now = self._deps.clock.now()
        if now - self._swept_at < min(SWEEP_SECONDS, self._limits.scrub_seconds):
            return
        self._swept_at = now
        closing = self._closed_at is None or now - self._closed_at >= self._limits.scrub_seconds
        async with self._store.transaction() as tx:
            if closing and self._closed_at is not None:
                await tx.numbered.close_slice()
            done = await tx.numbered.scrub(await tx.seqs_in_jobs(), rewrite=closing)
        if closing:
            self._closed_at = now
        if done.dropped or done.rewritten:
            self._log.info("reports_scrubbed", dropped=done.dropped, rewritten=done.rewritten)


def most_reports(task: Task, job_bytes: int) -> int:
    """How many reports of a task a job may hold, by the sizes of its reports and of its request, and by the Helper's
    work on it."""
    most = max(1, min(job_bytes // report_bytes(task), MAX_REQUEST // _request_bytes(task)))
    if task.state_key(Role.HELPER) is None:
        return most
    return min(most, max(1, MAX_CELLS // task.vdaf.flp.OUTPUT_LEN))


def _request_bytes(task: Task) -> int:
    """Most bytes of one report in a job's request: the Helper's sealed share, the public share, and the Leader's
    verifier share."""
    vdaf = task.vdaf
    verifier = vdaf.field.ENCODED_SIZE * vdaf.flp.VERIFIER_LEN * vdaf.PROOFS
    return 3 * SHARE_OVERHEAD + share_size(task, Role.HELPER) + verifier
