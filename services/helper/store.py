"""The Helper's transactions: those of both aggregators, and the stored responses."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.helper.schema import COMMON, JOBS, METADATA, MIGRATIONS, SHARES
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.store import CommonTx, SqlStore


class HelperTx(CommonTx):
    """One transaction of the Helper: on the tables of both aggregators, and on its stored responses."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The encoded AggregationJobResp of a job of the task, byte for byte as it was given; None if there is none or
        no longer."""
        rows = await self.dialect.run(self.connection, _RESPONSE, id=job_id, task=task_id)
        return rows[0][0] if rows else None

    async def add_job(self, task_id: bytes, job_id: bytes, response: bytes) -> bool:
        """Store the response of an aggregation job; False if another transaction has answered it. Waits for one that is
        about to."""
        columns = ("job_id", "task_id", "response")
        row = (job_id, task_id, response)
        return bool(await self.dialect.insert_new(self.connection, JOBS, columns, [row], "job_id"))

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Delete a stored response; the decisions about its reports stay. False if there was none."""
        result = await self.connection.execute(delete(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id))
        return bool(result.rowcount)

    async def job_count(self, task_id: bytes) -> int:
        """Number of aggregation jobs whose response is stored."""
        query = select(func.count()).where(JOBS.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The encoded AggregateShare, byte for byte as it was given; None if there is none or no longer."""
        query = select(SHARES.c.response).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Store an encoded AggregateShare in the transaction that releases its batch. Raises ``IntegrityError`` for an
        id that is taken, whatever task has it."""
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


_RESPONSE = select(JOBS.c.response).where(JOBS.c.job_id == bindparam("id"), JOBS.c.task_id == bindparam("task"))


class HelperStore(SqlStore[HelperTx]):
    """The Helper's database, which all its processes share."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, HelperTx, mark)
