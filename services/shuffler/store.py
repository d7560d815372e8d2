"""The shuffler's transactions: those of every server without aggregators, and what is left to send."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.shuffler.records import Outgoing
from services.shuffler.schema import COMMON, KEPT, METADATA, MIGRATIONS, OUTGOING
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.one_server.store import OneServerTx
from tacit.aggregator.store import UNRELEASED, SqlStore

_FORWARDED = b"forwarded"


class ShufflerTx(OneServerTx):
    """One transaction of the shuffler: those of ``OneServerTx``, and the chunks that are left to send."""

    KEPT = KEPT

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def fix(self, task_id: bytes, outgoing: Sequence[Outgoing]) -> None:
        """Store what is to be sent in place of the bundles, which are deleted, and close the recipe for good. Raises
        ``IntegrityError`` if that was done before."""
        await self.release(task_id, _FORWARDED)
        rows = [{"task_id": task_id, "number": one.index, "body": one.body} for one in outgoing]
        await self.connection.execute(insert(OUTGOING), rows)
        await self.scrub_buckets(task_id)

    async def drop(self, task_id: bytes, outgoing: Outgoing) -> None:
        """Delete the bundles, and close the recipe for good: only ``outgoing`` is sent."""
        await self.release(task_id, UNRELEASED)
        values = {"task_id": task_id, "number": outgoing.index, "body": outgoing.body}
        await self.connection.execute(insert(OUTGOING).values(**values))
        await self.scrub_buckets(task_id)

    async def next_outgoing(self, task_id: bytes) -> Outgoing | None:
        """The chunk with the lowest index that is left to send, or ``None``."""
        query = select(OUTGOING.c.number, OUTGOING.c.body).where(OUTGOING.c.task_id == task_id)
        row = (await self.connection.execute(query.order_by(OUTGOING.c.number).limit(1))).one_or_none()
        return None if row is None else Outgoing(row.number, row.body)

    async def sent(self, task_id: bytes, index: int) -> None:
        """Forget a chunk that the analyzer has."""
        where = (OUTGOING.c.task_id == task_id) & (OUTGOING.c.number == index)
        await self.connection.execute(delete(OUTGOING).where(where))


class ShufflerStore(SqlStore[ShufflerTx]):
    """The shuffler's state in an SQL database."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, ShufflerTx, mark)
