"""The Leader's tables and transactions: uploads, aggregation jobs, leader-selected batches, collection jobs.

A report moves ``pending`` -> ``in_job`` -> ``aggregated`` or ``rejected``; its bytes are overwritten when it
reaches one of the last two, so that no share outlives its use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.leader.records import (
    BatchState,
    CollectionRow,
    CollectionState,
    JobRow,
    JobState,
    ReportState,
    StoredReport,
)
from services.leader.schema import BATCHES, COLLECTIONS, COMMON, JOBS, METADATA, MIGRATIONS, REPORTS
from tacit.aggregator.store import CommonTx, SqlStore

MAX_PARAMETERS = 10_000
"""Values in one IN list; SQLite takes 32,766."""


class LeaderTx(CommonTx):
    """One transaction of the Leader."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection, COMMON)

    async def digests(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """SHA-256 of the stored reports among ``report_ids``."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(report_ids), MAX_PARAMETERS):
            rows = await self.connection.execute(
                select(REPORTS.c.report_id, REPORTS.c.digest).where(
                    REPORTS.c.task_id == task_id,
                    REPORTS.c.report_id.in_(report_ids[start : start + MAX_PARAMETERS]),
                )
            )
            found.update({row.report_id: row.digest for row in rows})
        return found

    async def add_reports(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Store new reports: mappings of task_id, report_id, digest and body."""
        if reports:
            await self.connection.execute(
                insert(REPORTS), [{**report, "state": ReportState.PENDING.value} for report in reports]
            )

    async def pending_ids(self, task_id: bytes, limit: int) -> list[int]:
        """Sequence numbers of up to ``limit`` pending reports, the oldest first."""
        query = (
            select(REPORTS.c.seq)
            .where(REPORTS.c.task_id == task_id, REPORTS.c.state == ReportState.PENDING.value)
            .order_by(REPORTS.c.seq)
            .limit(limit)
        )
        return list((await self.connection.execute(query)).scalars())

    async def reports(self, seqs: Sequence[int]) -> list[StoredReport]:
        """The pending reports among ``seqs``, in the order of ``seqs``."""
        rows = await self.connection.execute(
            select(REPORTS.c.seq, REPORTS.c.report_id, REPORTS.c.body).where(
                REPORTS.c.seq.in_(seqs), REPORTS.c.state == ReportState.PENDING.value
            )
        )
        found = {row.seq: StoredReport(*row) for row in rows}
        return [found[seq] for seq in seqs if seq in found]

    async def job_reports(self, job_id: bytes) -> list[StoredReport]:
        """The reports of a job in the order of its request."""
        rows = await self.connection.execute(
            select(REPORTS.c.seq, REPORTS.c.report_id, REPORTS.c.body)
            .where(REPORTS.c.job_id == job_id)
            .order_by(REPORTS.c.place)
        )
        return [StoredReport(*row) for row in rows]

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Stored reports by state."""
        rows = await self.connection.execute(
            select(REPORTS.c.state, func.count()).where(REPORTS.c.task_id == task_id).group_by(REPORTS.c.state)
        )
        return {row[0]: row[1] for row in rows}

    async def put_in_job(self, job: JobRow, seqs: Sequence[int]) -> None:
        """Store a job with its request, and bind its reports to it in this order."""
        await self.connection.execute(
            insert(JOBS).values(
                job_id=job.job_id,
                task_id=job.task_id,
                batch_id=job.batch_id,
                state=JobState.SENT.value,
                attempts=job.attempts,
                next_attempt=job.next_attempt,
                location=job.location,
                request=job.request,
            )
        )
        moved = update(REPORTS).where(REPORTS.c.seq == bindparam("at"))
        await self.connection.execute(
            moved.values(state=ReportState.IN_JOB.value, job_id=job.job_id, place=bindparam("nth")),
            [{"at": seq, "nth": place} for place, seq in enumerate(seqs)],
        )

    async def finish_reports(self, task_id: bytes, report_ids: Sequence[bytes]) -> None:
        """Mark reports as aggregated and overwrite their bytes."""
        if report_ids:
            await self.connection.execute(
                update(REPORTS)
                .where(REPORTS.c.task_id == task_id, REPORTS.c.report_id.in_(report_ids))
                .values(state=ReportState.AGGREGATED.value, body=b"")
            )

    async def reject_report(self, task_id: bytes, report_id: bytes, code: int, cause: str) -> None:
        """Mark one report as rejected, and overwrite its bytes."""
        await self.connection.execute(
            update(REPORTS)
            .where(REPORTS.c.task_id == task_id, REPORTS.c.report_id == report_id)
            .values(state=ReportState.REJECTED.value, code=code, cause=cause, body=b"")
        )

    async def return_report(self, task_id: bytes, report_id: bytes) -> None:
        """Put a report back for a later job."""
        await self.connection.execute(
            update(REPORTS)
            .where(REPORTS.c.task_id == task_id, REPORTS.c.report_id == report_id)
            .values(state=ReportState.PENDING.value, job_id=None, place=None)
        )

    async def sent_jobs(self, due: float) -> list[JobRow]:
        """Unanswered jobs whose next attempt is due."""
        query = select(
            JOBS.c.job_id,
            JOBS.c.task_id,
            JOBS.c.batch_id,
            JOBS.c.attempts,
            JOBS.c.next_attempt,
            JOBS.c.location,
            JOBS.c.request,
        ).where(JOBS.c.state == JobState.SENT.value, JOBS.c.next_attempt <= due)
        return [JobRow(*row) for row in await self.connection.execute(query.order_by(JOBS.c.next_attempt))]

    async def sent_job_count(self, task_id: bytes) -> int:
        """How many jobs of a task are unanswered."""
        query = select(func.count()).where(JOBS.c.task_id == task_id, JOBS.c.state == JobState.SENT.value)
        return int((await self.connection.execute(query)).scalar_one())

    async def retry_job(self, job_id: bytes, attempts: int, next_attempt: float, location: str) -> None:
        """Note a failed attempt, and where a Helper that works asynchronously is to be asked."""
        await self.connection.execute(
            update(JOBS)
            .where(JOBS.c.job_id == job_id)
            .values(attempts=attempts, next_attempt=next_attempt, location=location)
        )

    async def end_job(self, job_id: bytes, state: JobState) -> bool:
        """End an unanswered job and overwrite its request; False if it had ended before."""
        result = await self.connection.execute(
            update(JOBS)
            .where(JOBS.c.job_id == job_id, JOBS.c.state == JobState.SENT.value)
            .values(state=state.value, request=b"")
        )
        return bool(result.rowcount)

    async def job_counts(self, task_id: bytes) -> dict[str, int]:
        """Aggregation jobs by state."""
        rows = await self.connection.execute(
            select(JOBS.c.state, func.count()).where(JOBS.c.task_id == task_id).group_by(JOBS.c.state)
        )
        return {row[0]: row[1] for row in rows}

    async def open_batch(self, task_id: bytes) -> bytes | None:
        """The leader-selected batch that fills up."""
        query = select(BATCHES.c.batch_id).where(BATCHES.c.task_id == task_id, BATCHES.c.state == BatchState.OPEN.value)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def add_batch(self, task_id: bytes, batch_id: bytes) -> None:
        """Begin a leader-selected batch."""
        await self.connection.execute(
            insert(BATCHES).values(task_id=task_id, batch_id=batch_id, state=BatchState.OPEN.value)
        )

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch on."""
        await self.connection.execute(update(BATCHES).where(BATCHES.c.batch_id == batch_id).values(state=state.value))

    async def full_batch(self, task_id: bytes) -> bytes | None:
        """The oldest full batch that no collection job has."""
        query = (
            select(BATCHES.c.batch_id)
            .where(BATCHES.c.task_id == task_id, BATCHES.c.state == BatchState.FULL.value)
            .order_by(BATCHES.c.seq)
            .limit(1)
        )
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def batch_counts(self, task_id: bytes) -> dict[str, int]:
        """Leader-selected batches by state."""
        rows = await self.connection.execute(
            select(BATCHES.c.state, func.count()).where(BATCHES.c.task_id == task_id).group_by(BATCHES.c.state)
        )
        return {row[0]: row[1] for row in rows}

    async def in_flight(self, batch_id: bytes) -> int:
        """Reports of unanswered jobs of a batch."""
        query = (
            select(func.count())
            .select_from(REPORTS.join(JOBS, REPORTS.c.job_id == JOBS.c.job_id))
            .where(JOBS.c.batch_id == batch_id, REPORTS.c.state == ReportState.IN_JOB.value)
        )
        return int((await self.connection.execute(query)).scalar_one())

    async def collection(self, job_id: bytes) -> CollectionRow | None:
        """One collection job."""
        found = await self._collections(COLLECTIONS.c.job_id == job_id)
        return found[0] if found else None

    async def unfinished_collections(self, due: float) -> list[CollectionRow]:
        """Collection jobs that have something to do by now."""
        states = (CollectionState.WAITING.value, CollectionState.ASKING.value)
        return await self._collections(COLLECTIONS.c.state.in_(states) & (COLLECTIONS.c.next_attempt <= due))

    async def _collections(self, where: Any) -> list[CollectionRow]:
        columns = COLLECTIONS.c
        rows = await self.connection.execute(
            select(
                columns.job_id,
                columns.task_id,
                columns.state,
                columns.request,
                columns.batch_id,
                columns.share_request,
                columns.response,
                columns.problem,
                columns.attempts,
                columns.next_attempt,
            ).where(where)
        )
        return [CollectionRow(**{**row._mapping, "state": CollectionState(row.state)}) for row in rows]

    async def add_collection(self, row: CollectionRow) -> None:
        """Create a collection job."""
        await self.connection.execute(insert(COLLECTIONS).values(**_columns(row)))

    async def put_collection(self, row: CollectionRow) -> None:
        """Replace a collection job's row."""
        await self.connection.execute(
            update(COLLECTIONS).where(COLLECTIONS.c.job_id == row.job_id).values(**_columns(row))
        )

    async def postpone_collection(self, job_id: bytes, attempts: int, next_attempt: float) -> None:
        """Note a failed attempt, whatever became of the job meanwhile."""
        await self.connection.execute(
            update(COLLECTIONS)
            .where(COLLECTIONS.c.job_id == job_id)
            .values(attempts=attempts, next_attempt=next_attempt)
        )

    async def same_requests(self, task_id: bytes, request: bytes) -> list[CollectionRow]:
        """Every collection job of the task that was created with these bytes."""
        return await self._collections((COLLECTIONS.c.task_id == task_id) & (COLLECTIONS.c.request == request))

    async def live_collection(self, task_id: bytes) -> bool:
        """Whether a collection job of the task is under way."""
        states = (CollectionState.WAITING.value, CollectionState.ASKING.value)
        return bool(await self._collections((COLLECTIONS.c.task_id == task_id) & COLLECTIONS.c.state.in_(states)))


def _columns(row: CollectionRow) -> dict[str, Any]:
    return {**vars(row), "state": row.state.value}


class LeaderStore(SqlStore[LeaderTx]):
    """The Leader's database."""

    def __init__(self, url: str) -> None:
        super().__init__(url, METADATA, MIGRATIONS, LeaderTx)
