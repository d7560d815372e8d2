"""Aggregation jobs at rest: formed by the coordinator, taken by workers under leases, ended once.

``holder`` names the lease. A worker that writes about a job names its own lease, so a worker whose lease ran out and
went to another can no longer change the job. Ending a sent job needs no lease, because every worker that has the same
request gets the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from services.leader.records import (
    JOB_STATES,
    UNFINISHED,
    AnsweredJob,
    FailingJob,
    JobRow,
    JobState,
    pack_seqs,
    unpack_seqs,
)
from services.leader.schema import JOBS
from tacit.aggregator.store import CommonTx
from tacit.errors import Fatal

MAX_EXPIRED = 1
"""Number of leases that may run out on a formed job before it is split instead of given out again."""

_COLUMNS = (
    JOBS.c.job_id,
    JOBS.c.task_id,
    JOBS.c.batch_id,
    JOBS.c.state,
    JOBS.c.members,
    JOBS.c.attempts,
    JOBS.c.holder,
    JOBS.c.expired,
    JOBS.c.location,
    JOBS.c.digest,
)


class JobsTx(CommonTx):
    """One transaction on aggregation jobs. A write under a lease that another worker has by now changes nothing."""

    def counts(self) -> sa.ColumnElement[bool]:
        """SQL condition: an accepted report counts once its job is done. It excludes the jobs that are not done,
        because they are few and PostgreSQL hashes a NOT IN; the done jobs themselves it would look up once per
        report."""
        unfinished = sa.select(JOBS.c.job_id).where(JOBS.c.state != JobState.DONE.value)
        return super().counts() & self.common.outcomes.c.job_id.not_in(unfinished)

    async def add_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Store formed jobs, free for any worker."""
        rows = [
            {
                "job_id": job.job_id,
                "task_id": job.task_id,
                "batch_id": job.batch_id,
                "state": JobState.FORMED.value,
                "members": pack_seqs(job.seqs),
                "size": len(job.seqs),
                "attempts": 0,
                "next_attempt": 0.0,
                "holder": 0,
                "lease_until": 0.0,
                "expired": job.expired,
                "cause": "",
                "location": "",
                "digest": b"",
            }
            for job in jobs
        ]
        columns = tuple(rows[0]) if rows else ()
        await self.dialect.copy_rows(self.connection, JOBS, columns, [tuple(row.values()) for row in rows])

    async def due_jobs(self, now: float, limit: int, other_than: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """(job id, task id) of jobs that a worker may take, longest due first, leaving out the tasks in
        ``other_than``."""
        if not other_than:
            rows = await self.dialect.run(self.connection, _DUE_FIRST, now=now, most=limit)
            return [(row[0], row[1]) for row in rows]
        query = _DUE_FIRST.where(JOBS.c.task_id.not_in(sorted(other_than)))
        found = await self.connection.execute(query, {"now": now, "most": limit})
        return [(row[0], row[1]) for row in found]

    async def claim_jobs(self, job_ids: Collection[bytes], now: float, holder: int, until: float) -> list[JobRow]:
        """Take those of ``job_ids`` that are still due and that no other process is taking at this moment."""
        lease = {"now": now, "lease": holder, "until": until}
        taken = [await self.dialect.run(self.connection, _CLAIM, id=job_id, **lease) for job_id in sorted(job_ids)]
        return [_job(row) for rows in taken for row in rows]

    async def renew_leases(self, job_ids: Collection[bytes], holder: int, until: float) -> None:
        """Extend the leases of those of ``job_ids`` that ``holder`` still has."""
        mine = self.dialect.among(JOBS.c.job_id, sorted(job_ids))
        await self.connection.execute(
            sa.update(JOBS).where(mine, JOBS.c.holder == holder, JOBS.c.state.in_(UNFINISHED)).values(lease_until=until)
        )

    async def free_leases(self, holder: int) -> None:
        """Give back every job of ``holder``, in the state before it was taken."""
        await self.connection.execute(
            sa.update(JOBS)
            .where(JOBS.c.holder == holder, JOBS.c.state.in_(UNFINISHED))
            .values(holder=0, lease_until=0.0)
        )

    async def expire_lease(self, job: JobRow, now: float, cause: str) -> None:
        """Treat a formed job that could not be prepared as if its worker had died."""
        await self.connection.execute(sa.update(JOBS).where(_held(job)).values(holder=0, lease_until=now, cause=cause))

    async def job_to_send(self, job: JobRow, digest: bytes, seqs: Sequence[int]) -> bool:
        """Store what fixes the exact request of the job: its SHA-256, and these reports in this order. False if another
        worker has the lease by now."""
        what = {"of": pack_seqs(seqs), "reports": len(seqs), "request": digest}
        return bool(await self.dialect.run(self.connection, _SEND, id=job.job_id, lease=job.holder, **what))

    async def drop_job(self, job: JobRow) -> bool:
        """Delete a formed job of which no report is to be sent. False if another worker has the lease by now."""
        result = await self.connection.execute(sa.delete(JOBS).where(_held(job), _may_become(None)))
        return bool(result.rowcount)

    async def postpone_job(self, job: JobRow, next_attempt: float, location: str, cause: str) -> None:
        """Record a failed attempt, its cause, and the URL at which to ask a Helper that works asynchronously; give the
        lease back."""
        await self.connection.execute(
            sa.update(JOBS)
            .where(_held(job))
            .values(
                attempts=job.attempts + 1,
                next_attempt=next_attempt,
                location=location,
                cause=cause,
                holder=0,
                lease_until=0.0,
            )
        )

    async def retry_jobs(self, task_id: bytes, now: float) -> None:
        """Make the unfinished jobs of a task that no worker has due at once."""
        waiting = JOBS.c.state.in_(UNFINISHED) & (JOBS.c.lease_until <= now) & (JOBS.c.next_attempt > now)
        await self.connection.execute(
            sa.update(JOBS).where(JOBS.c.task_id == task_id, waiting).values(next_attempt=0.0)
        )

    async def end_job(self, job_id: bytes, state: JobState, location: str = "", forget_at: float = 0.0) -> bool:
        """End a sent job and forget its reports; False if it had ended before. ``location``: the URL at which the
        Helper keeps its answer, to be deleted at ``forget_at``."""
        kept = {"at": location, "forget": forget_at if location else 0.0}
        return bool(await self.dialect.run(self.connection, _end(state), id=job_id, **kept))

    async def answered_jobs(self, now: float, limit: int) -> list[AnsweredJob]:
        """Jobs that are done and whose answers are to be deleted at the Helpers by ``now``."""
        return [AnsweredJob(*row) for row in await self.dialect.run(self.connection, _ANSWERED, now=now, most=limit)]

    async def forget_answers(self, job_ids: Collection[bytes]) -> None:
        """The answers of these jobs are deleted at the Helpers, or will not be."""
        for piece in self.dialect.pieces(sorted(job_ids)):
            mine = self.dialect.among(JOBS.c.job_id, piece)
            await self.connection.execute(sa.update(JOBS).where(mine, _KEPT).values(location="", next_attempt=0.0))

    async def postpone_answers(self, task_ids: Collection[bytes], now: float, until: float) -> None:
        """Move those deletions at Helpers that are due by ``now`` to ``until``, for these tasks (POSIX seconds)."""
        for piece in self.dialect.pieces(sorted(task_ids)):
            mine = self.dialect.among(JOBS.c.task_id, piece)
            due = mine & _KEPT & (JOBS.c.next_attempt <= now)
            await self.connection.execute(sa.update(JOBS).where(due).values(next_attempt=until))

    async def split_jobs(self, now: float, limit: int) -> list[JobRow]:
        """Formed jobs whose leases ran out too often: one of their reports may be what kills the workers."""
        rows = await self.dialect.run(self.connection, _POISONOUS, now=now, most=limit)
        return [_job(row) for row in rows]

    async def remove_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Delete formed jobs whose reports go into other jobs. Raises ``Fatal`` if one of them is not in the state
        formed."""
        wanted = self.dialect.among(JOBS.c.job_id, [job.job_id for job in jobs])
        gone = await self.connection.execute(sa.delete(JOBS).where(wanted, _may_become(None)))
        if gone.rowcount != len(jobs):
            raise Fatal("a job that is to be split is not formed any more")

    async def unfinished_jobs(self, task_id: bytes) -> int:
        """How many jobs of a task are formed or sent."""
        return int((await self.dialect.run(self.connection, _UNFINISHED_OF, task=task_id))[0][0])

    async def seqs_in_jobs(self) -> set[int]:
        """The sequence numbers of all reports in unfinished jobs, over all tasks."""
        rows = await self.connection.execute(sa.select(JOBS.c.members).where(JOBS.c.state.in_(UNFINISHED)))
        return {seq for packed in rows.scalars() for seq in unpack_seqs(packed)}

    async def in_flight(self, task_id: bytes, batch_id: bytes | None = None) -> int:
        """Number of reports in the unfinished jobs of a task, or of one of its batches."""
        query = sa.select(sa.func.coalesce(sa.func.sum(JOBS.c.size), 0)).where(
            JOBS.c.task_id == task_id, JOBS.c.state.in_(UNFINISHED)
        )
        if batch_id is not None:
            query = query.where(JOBS.c.batch_id == batch_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def job_counts(self, task_id: bytes) -> dict[str, int]:
        """Number of a task's jobs by state, without the states that no job is in."""
        rows = await self.connection.execute(
            sa.select(JOBS.c.state, sa.func.count()).where(JOBS.c.task_id == task_id).group_by(JOBS.c.state)
        )
        return {row[0]: row[1] for row in rows}

    async def leased_jobs(self, task_id: bytes, now: float) -> int:
        """Number of unfinished jobs of a task that a worker has."""
        query = sa.select(sa.func.count()).where(
            JOBS.c.task_id == task_id, JOBS.c.state.in_(UNFINISHED), JOBS.c.lease_until > now
        )
        return int((await self.connection.execute(query)).scalar_one())

    async def failing_jobs(self, task_id: bytes, limit: int) -> list[FailingJob]:
        """Unfinished jobs of a task whose last attempt failed, those with most attempts first."""
        columns = (JOBS.c.job_id, JOBS.c.state, JOBS.c.size, JOBS.c.attempts, JOBS.c.expired, JOBS.c.cause)
        query = sa.select(*columns).where(JOBS.c.task_id == task_id, _failing())
        rows = await self.connection.execute(query.order_by(JOBS.c.attempts.desc(), JOBS.c.job_id).limit(limit))
        return [FailingJob(*row) for row in rows]

    async def all_jobs(self) -> dict[str, int]:
        """Number of jobs of all tasks by state, without the states that no job is in."""
        rows = await self.connection.execute(sa.select(JOBS.c.state, sa.func.count()).group_by(JOBS.c.state))
        return {row[0]: row[1] for row in rows}

    async def all_failing_jobs(self) -> int:
        """Number of unfinished jobs whose last attempt failed."""
        query = sa.select(sa.func.count()).select_from(JOBS).where(_failing())
        return int((await self.connection.execute(query)).scalar_one())


def _failing() -> sa.ColumnElement[bool]:
    return JOBS.c.state.in_(UNFINISHED) & ((JOBS.c.attempts > 0) | (JOBS.c.expired > 0))


def is_unfinished() -> sa.ColumnElement[bool]:
    """SQL condition: a job is formed or sent."""
    return sa.or_(*(JOBS.c.state == state for state in UNFINISHED))


_NOW = sa.bindparam("now", type_=sa.Float())
_LEASED = JOBS.c.lease_until > 0
_TO_SPLIT = (JOBS.c.state == JobState.FORMED.value) & (JOBS.c.expired >= MAX_EXPIRED) & _LEASED
_DUE = is_unfinished() & (JOBS.c.lease_until <= _NOW) & (JOBS.c.next_attempt <= _NOW) & sa.not_(_TO_SPLIT)
_DUE_FIRST = (
    sa.select(JOBS.c.job_id, JOBS.c.task_id).where(_DUE).order_by(JOBS.c.next_attempt).limit(sa.bindparam("most"))
)
_POISONOUS = sa.select(*_COLUMNS).where(_TO_SPLIT, JOBS.c.lease_until <= _NOW).limit(sa.bindparam("most"))
_UNFINISHED_OF = sa.select(sa.func.count()).where(JOBS.c.task_id == sa.bindparam("task"), is_unfinished())
_KEPT = (JOBS.c.state == JobState.DONE.value) & (JOBS.c.next_attempt > 0) & (JOBS.c.location != "")
_ANSWERED = (
    sa.select(JOBS.c.job_id, JOBS.c.task_id, JOBS.c.location)
    .where(_KEPT, JOBS.c.next_attempt <= _NOW)
    .order_by(JOBS.c.next_attempt, JOBS.c.job_id)
    .limit(sa.bindparam("most"))
)
_CLAIM = (
    sa.update(JOBS)
    .where(
        JOBS.c.job_id.in_(
            sa.select(JOBS.c.job_id).where(JOBS.c.job_id == sa.bindparam("id"), _DUE).with_for_update(skip_locked=True)
        )
    )
    .values(
        holder=sa.bindparam("lease"),
        lease_until=sa.bindparam("until"),
        expired=JOBS.c.expired + sa.case((_LEASED, 1), else_=0),
    )
    .returning(*_COLUMNS)
)


def _may_become(state: JobState | None) -> sa.ColumnElement[bool]:
    """SQL condition: a job may move to ``state`` (``None``: be deleted)."""
    return sa.or_(*(JOBS.c.state == name for name in JOB_STATES.names_before(state)))


_SEND = (
    sa.update(JOBS)
    .where(JOBS.c.job_id == sa.bindparam("id"), JOBS.c.holder == sa.bindparam("lease"), _may_become(JobState.SENT))
    .values(
        state=JobState.SENT.value,
        digest=sa.bindparam("request"),
        members=sa.bindparam("of"),
        size=sa.bindparam("reports"),
        attempts=0,
        cause="",
    )
    .returning(JOBS.c.job_id)
)


@cache
def _end(state: JobState) -> sa.UpdateBase:
    ended = sa.update(JOBS).where(JOBS.c.job_id == sa.bindparam("id"), _may_become(state))
    left = {"digest": b"", "members": b"", "holder": 0, "lease_until": 0.0, "cause": ""}
    left |= {"location": sa.bindparam("at"), "next_attempt": sa.bindparam("forget")}
    return ended.values(state=state.value, **left).returning(JOBS.c.job_id)


def _held(job: JobRow) -> sa.ColumnElement[bool]:
    return (JOBS.c.job_id == job.job_id) & (JOBS.c.holder == job.holder)


def _job(row: Any) -> JobRow:
    job_id, task_id, batch_id, state, members, *others = row
    return JobRow(job_id, task_id, batch_id, JobState(state), unpack_seqs(members), *others)
