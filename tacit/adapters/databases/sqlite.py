"""One SQLite database of one service, in a file or in memory.

A commit here is durable (WAL with synchronous=FULL: one fsync per write transaction), deleted rows are overwritten
(secure_delete; gone from the files once ``close`` has truncated the log), and writers take their lock at BEGIN, so a
transaction that has read something can write it without a conflict in between. Every writer runs alone.

Throughput follows the rows per transaction, not the number of statements: with 3 kB rows about 15 µs per row at 256
rows in a transaction, and about ten times that at one row (the fsync alone is 0.1 to 1 ms on a common disk).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
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
from tacit.adapters.databases.sqlite_writer import BUSY_TIMEOUT_MS, FileWriter
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal, Unavailable, UsageError

PAGE_SIZE = 8192
READERS = 4
IN_MEMORY = (None, "", ":memory:")
_WRITE = "tacit_write"
_PRAGMAS = "; ".join(
    f"PRAGMA {pragma}"
    for pragma in (
        f"page_size = {PAGE_SIZE}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        "temp_store = MEMORY",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
    )
)


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

        A new file is made with mode 0600, its folder with 0700. Raises ``UsageError`` where it cannot be made or does
        not fit its mark, and ``Fatal`` when the file is not a database of this service.
        """
        path = None if url.database in IN_MEMORY else Path(str(url.database))
        if path is not None:
            _create_private(path)
        database = cls(cls._engine_of(url), path, mark)
        try:
            with _still_there(path):
                await database._prepare(metadata, migrations)
        except BaseException as error:
            await database._dispose()
            if isinstance(error, sa.exc.DatabaseError):
                raise Fatal(f"the database cannot be opened: {type(error.orig).__name__}") from error
            raise
        return database

    @classmethod
    def _engine_of(cls, url: URL) -> AsyncEngine:
        """The engine for connections to ``url``."""
        return _engine(url, in_memory=url.database in IN_MEMORY)

    def _connected(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Yield a connection to the database for the duration of a block."""
        return self._engine.connect()

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction (BEGIN IMMEDIATE), which always runs alone. Writers of this process queue here;
        writers of other processes wait on the file for up to ``BUSY_TIMEOUT_MS``."""
        with self.durability.noting():
            async with self._alone():
                with self.dialect.typed():
                    async with self._connected() as connection:
                        await connection.execution_options(**{_WRITE: True})
                        async with connection.begin():
                            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a read transaction: one consistent snapshot, beside any writer (in memory: after it)."""
        with self.dialect.typed():
            if self._path is None:
                async with self._alone(), self._connected() as connection:
                    yield connection
            else:
                async with self._connected() as connection:
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
            async with self._alone(), self._connected() as connection:
                raw = await connection.get_raw_connection()
                await _execute(raw, "PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """``checkpoint``, then close every connection."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()
        await self.checkpoint()
        await self._dispose()


class Glance(SqliteDatabase):
    """Read access to the database file of another process, as it is: nothing is created, migrated, written or waited
    for. ``close`` ends it."""

    def __init__(self, url: URL) -> None:
        super().__init__(create_async_engine(url, hide_parameters=True), Path(str(url.database)))
        event.listen(self._engine.sync_engine, "connect", _only_read)

    async def checkpoint(self) -> None:
        """Do nothing: that is left to the process that owns the file."""


async def _execute(raw: Any, statement: str) -> None:
    cursor = await raw.driver_connection.execute(statement)
    await cursor.close()


def _engine(url: URL, *, in_memory: bool) -> AsyncEngine:
    engine = (
        create_async_engine(url, hide_parameters=True, poolclass=StaticPool)
        if in_memory
        else create_async_engine(
            url, hide_parameters=True, poolclass=AsyncAdaptedQueuePool, pool_size=READERS, max_overflow=READERS
        )
    )
    configure(engine)
    if in_memory:
        event.listen(engine.sync_engine, "handle_error", _keep_connection)
    return engine


def configure(engine: AsyncEngine) -> None:
    """Configure every connection of ``engine`` as described in this module, and begin its transactions accordingly."""
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)


def _configure(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # the driver opens no transactions of its own; ``_begin`` does
    dbapi_connection.run_async(lambda connection: connection.executescript(_PRAGMAS))


def _only_read(dbapi_connection: Any, _record: object) -> None:
    cursor = dbapi_connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _keep_connection(context: sa.engine.ExceptionContext) -> None:
    """Keep the connection when a statement is cancelled: in memory it is the only one that holds the database. A
    rollback follows in any case."""
    context.is_disconnect = False


def _place_of(path: Path | None) -> tuple[int, int] | None:
    """The identity (device and inode) of the file at a path."""
    if path is None:
        return None
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def _still_there(path: Path | None) -> Iterator[None]:
    """Raise ``UsageError`` where ``path`` is another file when the block ends: a restore replaced it while this process
    waited for its lock, so that the open file no longer has that name."""
    before, trouble = _place_of(path), None
    try:
        yield
    except Unavailable as error:  # SQLite's own error, where it notices
        trouble = error
    if _place_of(path) != before:
        raise UsageError(f"{path}: it was replaced while it was being opened; start again") from trouble
    if trouble is not None:
        raise trouble


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
