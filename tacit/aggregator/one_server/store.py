"""The transactions of a server without aggregators: those of every follower of the log, running sums, kept records."""

from __future__ import annotations

from functools import reduce
from typing import ClassVar

from sqlalchemy import Table, delete, func, insert, select, update

from tacit.aggregator.one_server.records import Aggregate, pack, unpack
from tacit.aggregator.records import Batch
from tacit.aggregator.store import CommonTx
from tacit.errors import Fatal

_BUCKET = b"interval"
_OF_DAP = {"checksum": b"", "first_time": 0, "last_time": 0}


class OneServerTx(CommonTx):
    """What takes reports: running sums beside ``CommonTx``, and records in the table ``KEPT``."""

    KEPT: ClassVar[Table]

    async def is_closed(self, task_id: bytes) -> bool:
        """Whether a recipe's sum was released, or the recipe closed for good without a release."""
        table = self.common.releases
        query = select(func.count()).where(table.c.task_id == task_id)
        return bool((await self.connection.execute(query)).scalar_one())

    async def add(self, task_id: bytes, counted: Aggregate) -> None:
        """Add reports to the recipe's running sum. Raises ``Fatal`` if the sum is gone."""
        self.spends = True
        table = self.common.buckets
        key = {"task_id": task_id, "bucket": _BUCKET, "shard": self.shard}
        values = {"count": counted.report_count, "agg_share": pack(counted.numbers), **_OF_DAP}
        fresh = self.dialect.upsert(table).values(**key, **values).on_conflict_do_nothing()
        if (await self.connection.execute(fresh)).rowcount:
            return
        where = (table.c.task_id == task_id) & (table.c.bucket == _BUCKET) & (table.c.shard == self.shard)
        columns = (table.c["count"], table.c.agg_share)
        before = (await self.connection.execute(select(*columns).where(where).with_for_update())).one()
        if not before.agg_share:
            raise Fatal("a recipe's sum is gone, and nothing can be added to it")
        total = Aggregate(before[0], unpack(before.agg_share)).plus(counted)
        changed = {"count": total.report_count, "agg_share": pack(total.numbers)}
        await self.connection.execute(update(table).where(where).values(**changed))

    async def running(self, task_id: bytes) -> Aggregate | None:
        """The running sum, or ``None`` if nothing was counted."""
        table = self.common.buckets
        query = select(table.c["count"], table.c.agg_share).where(table.c.task_id == task_id)
        parts = [Aggregate(row[0], unpack(row[1])) for row in await self.connection.execute(query)]
        return reduce(Aggregate.plus, parts) if parts else None

    async def keep_records(self, task_id: bytes, first: bytes, records: bytes) -> None:
        """Keep the records of a group of reports until the release; ``first`` is the id of one of them."""
        await self.connection.execute(insert(self.KEPT).values(task_id=task_id, first=first, records=records))

    async def kept_records(self, task_id: bytes) -> list[bytes]:
        """The records that were kept, those of a group in one entry; the order of entries says nothing."""
        query = select(self.KEPT.c.records).where(self.KEPT.c.task_id == task_id)
        return list((await self.connection.execute(query)).scalars())

    async def scrub_buckets(self, task_id: bytes, batch: Batch = None) -> None:
        """As in ``CommonTx``, and forget the records that were kept."""
        await super().scrub_buckets(task_id, batch)
        await self.connection.execute(delete(self.KEPT).where(self.KEPT.c.task_id == task_id))
