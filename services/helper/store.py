"""The Helper's transactions: what was decided about each report, and the responses that were given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.helper.schema import COMMON, JOBS, METADATA, MIGRATIONS, REPORTS, SHARES
from tacit.aggregator.store import CommonTx, SqlStore

ACCEPTED = 0
"""The ``code`` of a report that was counted; any other is the DAP report error that it got."""


class HelperTx(CommonTx):
    """One transaction of the Helper."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection, COMMON)

    async def decided(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, int]:
        """The codes of those reports that were decided before."""
        rows = await self.connection.execute(
            select(REPORTS.c.report_id, REPORTS.c.code).where(
                REPORTS.c.task_id == task_id, REPORTS.c.report_id.in_(report_ids)
            )
        )
        return {row.report_id: row.code for row in rows}

    async def decide(self, task_id: bytes, decisions: Mapping[bytes, tuple[int, str]]) -> None:
        """Keep (code, cause) per report id, for ever."""
        if decisions:
            await self.connection.execute(
                insert(REPORTS),
                [
                    {"task_id": task_id, "report_id": report_id, "code": code, "cause": cause}
                    for report_id, (code, cause) in decisions.items()
                ],
            )

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The response of an aggregation job, as it was given."""
        query = select(JOBS.c.response).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def put_job(self, task_id: bytes, job_id: bytes, response: bytes) -> None:
        """Keep the response of an aggregation job."""
        await self.connection.execute(insert(JOBS).values(job_id=job_id, task_id=task_id, response=response))

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Forget a response; what was decided about its reports stays. False if there was none."""
        result = await self.connection.execute(delete(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.task_id == task_id))
        return bool(result.rowcount)

    async def job_count(self, task_id: bytes) -> int:
        """Aggregation jobs whose response is kept."""
        query = select(func.count()).where(JOBS.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The aggregate share as it was given."""
        query = select(SHARES.c.response).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Keep an aggregate share's answer."""
        await self.connection.execute(insert(SHARES).values(share_id=share_id, task_id=task_id, response=response))

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        """Forget an aggregate share's answer; its batch stays closed. False if there was none."""
        result = await self.connection.execute(
            delete(SHARES).where(SHARES.c.share_id == share_id, SHARES.c.task_id == task_id)
        )
        return bool(result.rowcount)

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Decided reports: how many were counted and how many refused."""
        rows = await self.connection.execute(
            select(REPORTS.c.code, func.count()).where(REPORTS.c.task_id == task_id).group_by(REPORTS.c.code)
        )
        counts: Counter[str] = Counter()
        for code, count in rows:
            counts["aggregated" if code == ACCEPTED else "rejected"] += count
        return dict(counts)


class HelperStore(SqlStore[HelperTx]):
    """The Helper's database."""

    def __init__(self, url: str) -> None:
        super().__init__(url, METADATA, MIGRATIONS, HelperTx)
