"""A ``NumberedTable`` of PostgreSQL: partitions by sequence number, each dropped as a whole.

The bytes of deleted rows stay in a table's file until VACUUM, and are never overwritten; so a partition whose rows have
all been processed is dropped, and one with few rows left may be rewritten. Write-ahead logs and backups keep their
content until they are recycled.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.dialect import SLICE, NumberedTable, Scrubbed
from tacit.adapters.databases.postgres_driver import fetch

AHEAD = 2
"""Number of partitions created before they are needed."""

_LIST = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '{table}'::regclass
"""
_NEXT = "SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM {sequence}"
_USED = "SELECT is_called FROM {sequence}"
_TAKE = "SELECT nextval('{sequence}') FROM generate_series(1, $1::int)"


class PostgresSlices(NumberedTable):
    """The partitions of ``table``, named after it with ``_slice_`` and a number."""

    def __init__(self, connection: AsyncConnection, table: sa.Table, sequence: str) -> None:
        self._connection = connection
        self._table = table.name
        self._sequence = sequence
        self._prefix = f"{table.name}_slice_"

    async def take(self, count: int) -> list[int]:
        """Take the numbers from the sequence, which gives no number twice even where a transaction is rolled back."""
        return [row[0] for row in await fetch(self._connection, _TAKE.format(sequence=self._sequence), count)]

    async def slices(self) -> set[int]:
        """Read the partitions from the system catalogue."""
        rows = await self._connection.exec_driver_sql(_LIST.format(table=self._table))
        return {int(name.removeprefix(self._prefix)) for name in rows.scalars()}

    async def lacks_room(self) -> bool:
        """Whether fewer than ``AHEAD`` partitions exist for the rows to come."""
        return await self._next_slice() + AHEAD - 1 not in await self.slices()

    async def make_room(self) -> None:
        """Create ``AHEAD`` partitions; their rows are dropped with them and need no VACUUM."""
        known = await self.slices()
        first = await self._next_slice()
        for number in range(first, first + AHEAD):
            if number not in known:
                # 8160: reports lie in their rows, not beside them (TOAST). One of 3,000 bytes then takes 3.0 µs to read
                # instead of 5.9, and 1.8 to delete instead of 3.5
                await self._connection.exec_driver_sql(
                    f"CREATE TABLE {self._prefix}{number} PARTITION OF {self._table} "
                    f"FOR VALUES FROM ({number * SLICE}) TO ({(number + 1) * SLICE}) "
                    "WITH (toast_tuple_target = 8160, autovacuum_enabled = false)"
                )

    async def close_slice(self) -> None:
        """Move the sequence on to the next partition, unless it gave no number since the last time."""
        # else there would be a further empty partition each time, however few reports come
        if (await self._connection.exec_driver_sql(_USED.format(sequence=self._sequence))).scalar_one():
            beginning = (await self._next_slice() + 1) * SLICE
            await self._connection.exec_driver_sql(f"SELECT setval('{self._sequence}', {beginning}, false)")
            await self.make_room()

    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Scrub the partitions before the present one."""
        in_use = {number // SLICE for number in needed}
        dropped = rewritten = 0
        current = await self._next_slice()
        # the present partition still takes rows
        for number in sorted(number for number in await self.slices() if number < current):
            name = f"{self._prefix}{number}"
            if number not in in_use and await self._is_empty(name):
                await self._connection.exec_driver_sql(f"DROP TABLE {name}")
                dropped += 1
            elif rewrite:
                rewritten += await self._rewrite(name)
        return Scrubbed(dropped, rewritten)

    async def _is_empty(self, name: str) -> bool:
        rows = await self._connection.exec_driver_sql(f"SELECT 1 FROM {name} LIMIT 1")  # noqa: S608 - own name
        return rows.first() is None

    async def _rewrite(self, name: str) -> int:
        """Move the rows left in a partition into a new file, if they are few: no byte of a deleted row is copied. They
        are kept meanwhile in a table that recovery empties after a crash. A temporary one would leave its session up to
        8 MB larger (``temp_buffers``)."""
        left = (await self._connection.exec_driver_sql(f"SELECT count(*) FROM {name}")).scalar_one()  # noqa: S608
        if left > SLICE // 8:
            return 0
        for statement in (
            f"CREATE UNLOGGED TABLE {name}_kept AS SELECT * FROM {name}",  # noqa: S608
            f"TRUNCATE {name}",
            f"INSERT INTO {name} SELECT * FROM {name}_kept",  # noqa: S608
            f"DROP TABLE {name}_kept",
        ):
            await self._connection.exec_driver_sql(statement)
        return 1

    async def _next_slice(self) -> int:
        """The partition of the next sequence number."""
        statement = _NEXT.format(sequence=self._sequence)
        return int((await self._connection.exec_driver_sql(statement)).scalar_one()) // SLICE
