"""The Helper's transactions: those of both aggregators, and the stored responses."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.helper.records import JOB_STATES, JobState
from services.helper.schema import COMMON, JOBS, METADATA, MIGRATIONS, SHARES
from tacit.adapters.dialect import Dialect
from tacit.adapters.watermark import Watermark
from tacit.aggregator.store import CommonTx, SqlStore
from tacit.errors import Fatal


class SqlHelperTx(CommonTx):
    """``services.helper.ports.HelperTx`` over a database."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        query = select(JOBS.c.response).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def begin_job(self, task_id: bytes, job_id: bytes) -> bool:
        statement = self.dialect.upsert(JOBS).values(job_id=job_id, task_id=task_id, response=b"")
        return bool((await self.connection.execute(statement.on_conflict_do_nothing())).rowcount)

    async def end_job(self, job_id: bytes, response: bytes) -> None:
        answered = update(JOBS).where(JOBS.c.job_id == job_id, _may_become(JobState.ANSWERED))
        if (await self.connection.execute(answered.values(response=response))).rowcount != 1:
            raise Fatal("a job that was not taken cannot be answered")

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        result = await self.connection.execute(
            delete(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id, _may_become(None))
        )
        return bool(result.rowcount)

    async def job_count(self, task_id: bytes) -> int:
        query = select(func.count()).where(JOBS.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        query = select(SHARES.c.response).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        await self.connection.execute(insert(SHARES).values(share_id=share_id, task_id=task_id, response=response))

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        result = await self.connection.execute(
            delete(SHARES).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        )
        return bool(result.rowcount)

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        rejections = await self.rejections(task_id)
        return {"aggregated": await self.counted(task_id), "rejected": sum(rejections.values())}


def _may_become(state: JobState | None) -> ColumnElement[bool]:
    """SQL condition: a job may move to ``state`` (``None``: be deleted)."""
    conditions = {JobState.TAKEN: JOBS.c.response == b"", JobState.ANSWERED: JOBS.c.response != b""}
    return or_(*(conditions[before] for before in JOB_STATES.before(state)))


class HelperStore(SqlStore[SqlHelperTx]):
    """The helper's state in an SQL database."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, SqlHelperTx, mark)
