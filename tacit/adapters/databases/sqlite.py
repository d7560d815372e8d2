"""One SQLite database of one service, in a file or in memory.

A commit here is durable (WAL with synchronous=FULL: one fsync per write transaction), deleted rows are overwritten
(secure_delete; gone from the files once ``close`` has truncated the log), and writers take their lock at BEGIN, so a
transaction that has read something can write it without a conflict in between. Every writer runs alone.

Throughput follows the rows per transaction, not the number of statements: with 3 kB rows about 15 µs per row at 256
rows in a transaction, and about ten times that at one row (the fsync alone is 0.1 to 1 ms on a common disk).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, StaticPool

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.sqlite_dialect import SqliteDialect
from tacit.adapters.databases.sqlite_file import PRAGMAS, create_private, still_there
from tacit.adapters.databases.sqlite_writer import FileWriter
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal

READERS = 4
IN_MEMORY = (None, "", ":memory:")
_WRITE = "tacit_write"


class SqliteDatabase(Database):
    """An open SQLite database with an up-to-date schema. ``path``: its file; ``None`` in memory."""

    dialect: ClassVar[Dialect] = SqliteDialect()

    def __init__(self, engine: AsyncEngine, path: Path | None, mark: Watermark | None = None) -> None:
        super().__init__(engine, None if path is None else mark)
        self._path = path
        self._writer: FileWriter | None = None

    @classmethod
    async def open_url(
        cls, url: URL, metadata: sa.MetaData, migrations: str, mark: Watermark | None = None
    ) -> SqliteDatabase:
        """Open ``sqlite+aiosqlite:///FILE`` or ``:memory:`` and migrate it.

        The file gets mode 0600, a new folder 0700. Raises ``UsageError`` where it cannot be made or does
        not fit its mark, and ``Fatal`` when the file is not a database of this service.
        """
        path = None if url.database in IN_MEMORY else Path(str(url.database))
        if path is not None:
            create_private(path)
        database = cls(_engine(url, in_memory=path is None), path, mark)
        try:
            with still_there(path):
                await database._prepare(metadata, migrations)
        except BaseException as error:
            await database._dispose()
            if isinstance(error, sa.exc.DatabaseError):
                raise Fatal(f"the database cannot be opened: {type(error.orig).__name__}") from error
            raise
        return database

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction (BEGIN IMMEDIATE), which always runs alone. Writers of this process queue here;
        writers of other processes wait on the file for up to ``BUSY_TIMEOUT_MS``."""
        with self.durability.noting():
            async with self._alone():
                with self.dialect.typed():
                    async with self._engine.connect() as connection:
                        await connection.execution_options(**{_WRITE: True})
                        async with connection.begin():
                            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a read transaction: one consistent snapshot, beside any writer (in memory: after it)."""
        with self.dialect.typed():
            if self._path is None:
                async with self._alone(), self._engine.connect() as connection:
                    yield connection
            else:
                async with self._engine.connect() as connection:
                    yield connection

    async def insert_new(
        self, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]], key: str
    ) -> list[Any]:
        """On a file, runs beside the other transactions of this process, on a connection reserved for it."""
        if self._path is None:
            return await super().insert_new(table, columns, rows, key)
        if self._writer is None:
            self._writer = FileWriter(self._path, self._mark)
        with self.durability.noting(), self.dialect.typed():
            return await self._writer.insert_new(table, columns, rows, key)

    async def probe(self) -> None:
        """Test whether the file can be written; does nothing in memory."""
        if self._path is not None:
            await super().probe()

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the file and empty it, so that deleted bytes are gone from both.

        Active readers prevent it from being emptied; then a later call does it.
        """
        if self._path is not None:
            async with self._alone(), self._engine.connect() as connection:
                raw: Any = await connection.get_raw_connection()
                cursor = await raw.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                await cursor.close()

    async def close(self) -> None:
        """``checkpoint``, then close every connection."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()
        await self.checkpoint()
        await self._dispose()


def _engine(url: URL, *, in_memory: bool) -> AsyncEngine:
    engine = (
        create_async_engine(url, hide_parameters=True, poolclass=StaticPool)
        if in_memory
        else create_async_engine(
            url, hide_parameters=True, poolclass=AsyncAdaptedQueuePool, pool_size=READERS, max_overflow=READERS
        )
    )
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)
    if in_memory:
        event.listen(engine.sync_engine, "handle_error", _keep_connection)
    return engine


def _configure(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # the driver opens no transactions of its own; ``_begin`` does
    dbapi_connection.run_async(lambda connection: connection.executescript(PRAGMAS))


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _keep_connection(context: sa.engine.ExceptionContext) -> None:
    """Keep the connection when a statement is cancelled: in memory it is the only one that holds the database. A
    rollback follows in any case."""
    context.is_disconnect = False
