"""The shuffler's transactions: those of every server without aggregators, and what is left to send."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.shuffler.records import Outgoing
from services.shuffler.schema import COMMON, KEPT, LOOKS, METADATA, MIGRATIONS, OUTGOING
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.one_server.store import OneServerTx
from tacit.aggregator.outcomes import LooksTx
from tacit.aggregator.store import UNRELEASED, SqlStore

_FORWARDED = b"forwarded"
_ROWS = 64
"""Most rows of bundles or requests in memory beside all messages: 64 of 209 kB, as requests usually are, have 13 MB."""
_REPLACED = b"tacit shuffler, in place of a nullifier"


class ShufflerTx(OneServerTx, LooksTx):
    """One transaction of the shuffler: those of ``OneServerTx`` and ``LooksTx``, and the chunks that are left to
    send."""

    LOOKS = LOOKS
    KEPT = KEPT

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def kept_together(self, task_id: bytes) -> bytearray:
        """The bundles that were kept, one after another; their order says nothing. Takes little more memory than
        these bytes."""
        table, bundles, last = self.KEPT, bytearray(), b""
        query = select(table.c.first, table.c.records).where(table.c.task_id == task_id).order_by(table.c.first)
        while rows := (await self.connection.execute(query.where(table.c.first > last).limit(_ROWS))).all():
            for row in rows:
                bundles += row.records
            last = rows[-1].first
        return bundles

    async def fix(self, task_id: bytes, outgoing: Iterable[Outgoing]) -> int:
        """Store what is to be sent in place of the bundles, which are deleted, and close the recipe for good; returns
        how many requests these are. Raises ``IntegrityError`` if that was done before."""
        return await self._close(task_id, _FORWARDED, outgoing)

    async def drop(self, task_id: bytes, outgoing: Iterable[Outgoing]) -> int:
        """Delete the bundles, and close the recipe for good: only ``outgoing`` is sent, which holds none of them."""
        return await self._close(task_id, UNRELEASED, outgoing)

    async def _close(self, task_id: bytes, selector: bytes, outgoing: Iterable[Outgoing]) -> int:
        await self.release(task_id, selector)
        requests, left = 0, iter(outgoing)
        while some := list(islice(left, _ROWS)):
            rows = [{"task_id": task_id, "number": one.index, "body": one.body} for one in some]
            await self.connection.execute(insert(OUTGOING), rows)
            requests += len(rows)
        await self.scrub_buckets(task_id)
        await self._forget_tokens(task_id)
        return requests

    async def _forget_tokens(self, task_id: bytes) -> None:
        """Put another number of 32 bytes in place of the nullifier of each token, for good. Nothing more is counted
        of the recipe, and a leader that keeps the nullifiers of its reports could otherwise be shown, long after, under
        which id and so when each of them came."""
        table = COMMON.outcomes
        spent = (table.c.task_id == task_id) & table.c.nullifier.is_not(None)
        ids = (await self.connection.execute(select(table.c.report_id).where(spent))).scalars().all()
        if ids:
            row = (table.c.task_id == task_id) & (table.c.report_id == bindparam("id"))
            changed = update(table).where(row).values(nullifier=bindparam("number"))
            numbers = [{"id": one, "number": hashlib.sha256(_REPLACED + task_id + one).digest()} for one in ids]
            await self.connection.execute(changed, numbers)

    async def next_outgoing(self, task_id: bytes) -> Outgoing | None:
        """The chunk with the lowest index that is left to send, or ``None``."""
        query = select(OUTGOING.c.number, OUTGOING.c.body).where(OUTGOING.c.task_id == task_id)
        row = (await self.connection.execute(query.order_by(OUTGOING.c.number).limit(1))).one_or_none()
        return None if row is None else Outgoing(row.number, row.body)

    async def left(self, task_id: bytes) -> int:
        """How many requests are left to send."""
        query = select(func.count()).where(OUTGOING.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def is_left(self, task_id: bytes, index: int) -> bool:
        """Whether this request is left to send."""
        own = (OUTGOING.c.task_id == task_id) & (OUTGOING.c.number == index)
        return (await self.connection.execute(select(OUTGOING.c.number).where(own))).first() is not None

    async def sent(self, task_id: bytes, index: int) -> bool:
        """Forget a chunk that the receiver has; returns False where another process has done so."""
        where = (OUTGOING.c.task_id == task_id) & (OUTGOING.c.number == index)
        return bool((await self.connection.execute(delete(OUTGOING).where(where))).rowcount)


class ShufflerStore(SqlStore[ShufflerTx]):
    """The shuffler's database, which all its processes share."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, ShufflerTx, mark)
