"""The analyzer's transactions: those of every server without aggregators, chunks of messages, and released sums."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.analyzer.records import Chunk
from services.analyzer.schema import AGGREGATES, CHUNKS, COMMON, KEPT, LOOKS, METADATA, MIGRATIONS
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.one_server.records import Aggregate, pack, unpack
from tacit.aggregator.one_server.store import OneServerTx
from tacit.aggregator.outcomes import LooksTx
from tacit.aggregator.records import Batch
from tacit.aggregator.store import SqlStore

_RELEASED = b"released"


class AnalyzerTx(OneServerTx, LooksTx):
    """One transaction of the analyzer: those of ``OneServerTx`` and ``LooksTx``, and what it tallies and releases."""

    LOOKS = LOOKS
    KEPT = KEPT

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def released(self, task_id: bytes) -> Aggregate | None:
        """The sum that ``keep_released`` stored; None before the release."""
        query = select(AGGREGATES.c.report_count, AGGREGATES.c.numbers, AGGREGATES.c.search).where(
            AGGREGATES.c.task_id == task_id
        )
        row = (await self.connection.execute(query)).one_or_none()
        return None if row is None else Aggregate(row.report_count, unpack(row.numbers), row.search)

    async def keep_released(self, task_id: bytes, aggregate: Aggregate) -> None:
        """Release a sum: store it for the collector, close the recipe for good, and delete the running sum. Raises
        ``IntegrityError`` for a second release."""
        await self.release(task_id, _RELEASED)
        values = {"report_count": aggregate.report_count, "numbers": pack(aggregate.numbers)}
        values["search"] = aggregate.search
        await self.connection.execute(insert(AGGREGATES).values(task_id=task_id, **values))
        await self.scrub_buckets(task_id)

    async def chunk(self, task_id: bytes, index: int) -> Chunk | None:
        query = select(CHUNKS).where(CHUNKS.c.task_id == task_id, CHUNKS.c.number == index)
        row = (await self.connection.execute(query)).one_or_none()
        return None if row is None else Chunk(row.number, row.total, row.digest)

    async def chunk_total(self, task_id: bytes) -> int | None:
        """How many chunks the recipe's shuffler says there are: a chunk with another ``total`` than those before is
        refused. None before the first; 0 if no messages will come."""
        query = select(func.min(CHUNKS.c.total)).where(CHUNKS.c.task_id == task_id)
        total: int | None = (await self.connection.execute(query)).scalar_one()
        return total

    async def keep_chunk(self, task_id: bytes, chunk: Chunk, tally: bytes) -> bool:
        """Store a chunk with the tally of what it held; False, with nothing changed, if there is one of its index."""
        self.spends = True
        values = {"number": chunk.index, "total": chunk.total, "digest": chunk.digest, "tally": tally}
        fresh = self.dialect.upsert(CHUNKS).values(task_id=task_id, **values).on_conflict_do_nothing()
        return bool((await self.connection.execute(fresh)).rowcount)

    async def chunk_count(self, task_id: bytes) -> int:
        """How many chunks of the recipe are stored."""
        query = select(func.count()).where(CHUNKS.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def tallies(self, task_id: bytes) -> AsyncIterator[bytes]:
        """The tally of each stored chunk, one after another; only before the release."""
        query = select(CHUNKS.c.tally).where(CHUNKS.c.task_id == task_id)
        async for one in await self.connection.stream_scalars(query):
            yield one

    async def scrub_buckets(self, task_id: bytes, batch: Batch = None) -> None:
        """As in ``OneServerTx``, and forget what chunks held."""
        await super().scrub_buckets(task_id, batch)
        await self.connection.execute(update(CHUNKS).where(CHUNKS.c.task_id == task_id).values(tally=b""))


class AnalyzerStore(SqlStore[AnalyzerTx]):
    """The analyzer's database, which all its processes share."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, AnalyzerTx, mark)
