"""The Helper's transactions: those of both aggregators, and the stored responses."""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.helper.records import JOB_STATES, JobState
from services.helper.schema import COMMON, JOBS, METADATA, MIGRATIONS, SHARES
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.store import CommonTx, SqlStore
from tacit.errors import Fatal


class HelperTx(CommonTx):
    """One transaction of the Helper: on the tables of both aggregators, and on its stored responses."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The stored response of an aggregation job; empty while there is none, None for an unknown job."""
        rows = await self.dialect.run(self.connection, _RESPONSE, id=job_id, task=task_id)
        return rows[0][0] if rows else None

    async def begin_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Take an aggregation job; False if another transaction has answered it. Waits for a transaction that has taken
        it and not ended."""
        statement = self.dialect.upsert(JOBS).values(job_id=job_id, task_id=task_id, response=b"")
        return bool((await self.connection.execute(statement.on_conflict_do_nothing())).rowcount)

    async def end_job(self, job_id: bytes, response: bytes) -> None:
        """Store the response (not empty) of a job that this transaction took. Raises ``Fatal`` for a job that it did
        not take, or that has a response."""
        if not await self.dialect.run(self.connection, _ANSWER, id=job_id, answer=response):
            raise Fatal("a job that was not taken cannot be answered")

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Delete a stored response; the decisions about its reports stay. False if there was none."""
        result = await self.connection.execute(
            delete(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id, _may_become(None))
        )
        return bool(result.rowcount)

    async def job_count(self, task_id: bytes) -> int:
        """Number of aggregation jobs whose response is stored."""
        query = select(func.count()).where(JOBS.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The stored answer of an aggregate share, or None."""
        query = select(SHARES.c.response).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Store the answer of an aggregate share."""
        await self.connection.execute(insert(SHARES).values(share_id=share_id, task_id=task_id, response=response))

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        """Delete the stored answer of an aggregate share; its batch stays closed. False if there was none."""
        result = await self.connection.execute(
            delete(SHARES).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        )
        return bool(result.rowcount)

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Number of decided reports: counted and refused."""
        rejections = await self.rejections(task_id)
        return {"aggregated": await self.counted(task_id), "rejected": sum(rejections.values())}


def _may_become(state: JobState | None) -> ColumnElement[bool]:
    """SQL condition: a job may move to ``state`` (``None``: be deleted)."""
    conditions = {JobState.TAKEN: JOBS.c.response == b"", JobState.ANSWERED: JOBS.c.response != b""}
    return or_(*(conditions[before] for before in JOB_STATES.before(state)))


_RESPONSE = select(JOBS.c.response).where(JOBS.c.job_id == bindparam("id"), JOBS.c.task_id == bindparam("task"))
_ANSWER = (
    update(JOBS)
    .where(JOBS.c.job_id == bindparam("id"), _may_become(JobState.ANSWERED))
    .values(response=bindparam("answer"))
    .returning(JOBS.c.job_id)
)


class HelperStore(SqlStore[HelperTx]):
    """The helper's state in an SQL database."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, HelperTx, mark)
