"""One SQL database of one service, of either kind: SQLAlchemy 2 Core, async.

``tacit.adapters.databases.sql`` opens one by its URL; ``tacit.adapters.databases.sqlite`` and
``tacit.adapters.databases.postgres`` are the kinds.
Both give the same guarantees: writers run one after another, including those of other processes, unless a transaction
is opened as ``shared``; and what a block did is durable when it ends.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.durability import Durability
from tacit.adapters.databases.migrate import PROBE_TABLE, upgrade_async
from tacit.adapters.databases.watermark import CREATE, Watermark

ROOM_BYTES = 1 << 18
"""A store that was full must accept a write of this many bytes before it counts as having room."""
_PROBE_BYTES = 8

_CREATE_PROBE = f"CREATE TABLE IF NOT EXISTS {PROBE_TABLE} (place INTEGER PRIMARY KEY, bytes {{bytes}} NOT NULL)"
_PROBE = sa.text(
    f"INSERT INTO {PROBE_TABLE} (place, bytes) VALUES (:place, :bytes) "  # noqa: S608 - a name of ours
    "ON CONFLICT (place) DO UPDATE SET bytes = excluded.bytes"
)


class Database(ABC):
    """An open database whose schema is up to date; ``close`` must end it.

    ``dialect``: the statements that differ between the kinds. ``shard``: a small number that tells this process from
    the others on the database; it says where to write, and nothing may depend on its being unique. ``leading``: the
    last result of ``leads``.
    """

    dialect: ClassVar[Dialect]
    shard = 0
    leading = True

    def __init__(self, engine: AsyncEngine, mark: Watermark | None = None) -> None:
        """``mark``: the watermark that detects a database restored from a backup."""
        self._engine = engine
        self._mark = mark
        self._advanced: tuple[int, int] | None = None
        self.durability = Durability()
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[Any] | None = None

    @abstractmethod
    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a write transaction: committed when the block ends, rolled back when it raises. It runs alone;
        ``shared`` lets a database that can do so run it beside other shared ones. Transactions of this process queue
        here.

        Raises ``Unavailable`` where there is no room or the database does not answer, and ``Fatal`` where another
        process has taken it.
        """

    @abstractmethod
    def read(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a read transaction: one consistent snapshot, beside any writer. Raises ``Unavailable``."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Remove bytes that were overwritten in tables from the files too, where this process is responsible for
        that."""

    @abstractmethod
    async def close(self) -> None:
        """Release the database and close every connection."""

    async def call(self, function: str, *values: Any) -> list[Any] | None:
        """Call a stored function that is a shared write transaction by itself and return its rows; ``None``, with
        nothing done, where the database has no such function."""
        return None

    async def leads(self) -> bool:
        """Whether this process coordinates all processes that have the database open; always true where it has the
        database alone."""
        return True

    async def insert_new(
        self, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]], key: str
    ) -> list[Any]:
        """``Dialect.insert_new`` as a transaction of its own, which spends (see ``spend``)."""
        async with self.transaction() as connection:
            found = await self.dialect.insert_new(connection, table, columns, rows, key)
            await self.spend(connection)
        return found

    @property
    def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent, because an operator accepted a restored
        database; 0 where nobody did."""
        return 0 if self._mark is None else self._mark.closed_until

    async def spend(self, connection: AsyncConnection) -> None:
        """Mark a write transaction as one whose effect must not happen twice; call it last. The mark is updated with
        the commit. Raises ``RolledBack`` where the database is older than its mark."""
        if self._mark is not None:
            shard, counts_all = self.shard, self.dialect.counts_all
            count = await self._mark.advance(partial(self.dialect.fetch, connection), shard, counts_all=counts_all)
            self._advanced = shard, count

    @property
    def trouble(self) -> str:
        """The problem that the last writes met, where the database was unreachable, full or restored from the past."""
        return self.durability.trouble

    async def probe(self) -> None:
        """Write a few bytes durably, in one row of this process; ``ROOM_BYTES`` if the last write found no room. Raises
        as ``transaction`` does."""
        full = self.durability.lacks_room
        row = {
            "place": self.shard,
            "bytes": os.urandom(ROOM_BYTES if full else _PROBE_BYTES),
        }  # random, so that the write is never a no-op
        async with self.transaction(shared=True) as connection:
            await connection.execute(_PROBE, row)
        if full:
            self.durability.has_room()

    async def _prepare(self, metadata: sa.MetaData, migrations: str) -> None:
        """Bring the schema up to date, and compare the database with its mark."""
        async with self.transaction() as connection:
            await upgrade_async(connection, migrations, metadata)
            await connection.exec_driver_sql(CREATE)
            await connection.exec_driver_sql(_CREATE_PROBE.format(bytes=self.dialect.bytes_type))
            if self._mark is not None:
                await self._mark.check(connection)
        if self._mark is not None:
            self._mark.settle()

    async def _dispose(self) -> None:
        """Close every connection, and the mark."""
        await self._engine.dispose()
        if self._mark is not None:
            self._mark.close()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the lock of writers. A task that would wait for itself gets an error instead of a deadlock."""
        task = asyncio.current_task()
        if task is not None and self._holder is task:
            raise RuntimeError("this task already has the database's write transaction open")
        async with self._lock:
            self._holder = task
            self._advanced = None
            try:
                yield
                # the transaction within is committed by now, and nobody has an answer yet
                if self._mark is not None and self._advanced is not None:
                    self._mark.note(*self._advanced)
            finally:
                self._holder = None
