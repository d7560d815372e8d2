"""One SQL database of one service: SQLAlchemy 2 Core, async, over SQLite or PostgreSQL.

``Database.open`` chooses by the URL. Both keep one promise: writers run one after another, also those of other
processes, unless a transaction says that it may run beside others (``shared``), and what a block did is durable when
it ends. This module is SQLite, where every writer runs alone; ``tacit.adapters.postgres`` is the other.

A commit here is durable (WAL with synchronous=FULL: one fsync per write transaction), deleted rows are
overwritten (secure_delete; gone from the files once ``close`` has truncated the log), and writers take their
lock at BEGIN, so that a transaction that read something can write it without a conflict in between.

Throughput follows the rows per transaction, not the number of statements: with 3 kB rows about 15 µs per row
at 256 rows in a transaction, and about ten times that at one row (the fsync alone is 0.1 to 1 ms on a common
disk).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, StaticPool

from tacit.adapters.durability import Durability
from tacit.adapters.migrate import PROBE_TABLE, upgrade_async
from tacit.adapters.watermark import CREATE, Watermark
from tacit.errors import Fatal, NoRoom, Unavailable, UsageError

PAGE_SIZE = 8192
BUSY_TIMEOUT_MS = 10_000
READERS = 4
ROOM_BYTES = 1 << 18
"""What a store that was full must take before it counts as having room."""
_PROBE_BYTES = 8
_WRITE = "tacit_write"
_PASSING = {
    sqlite3.SQLITE_BUSY: "the database is busy",
    sqlite3.SQLITE_LOCKED: "the database is busy",
    sqlite3.SQLITE_NOMEM: "there is no memory for the database",
    sqlite3.SQLITE_READONLY: "the database cannot be written",
    sqlite3.SQLITE_IOERR: "the database cannot be written",
    sqlite3.SQLITE_FULL: "there is no room for the database",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened",
}
"""Primary result codes of SQLite that are about its surroundings, not about a statement or the file's content."""

_CREATE_PROBE = f"CREATE TABLE IF NOT EXISTS {PROBE_TABLE} (place INTEGER PRIMARY KEY, bytes {{bytes}} NOT NULL)"
_PROBE = sa.text(
    f"INSERT INTO {PROBE_TABLE} (place, bytes) VALUES (:place, :bytes) "  # noqa: S608 - a name of ours
    "ON CONFLICT (place) DO UPDATE SET bytes = excluded.bytes"
)


class Database:
    """An open database whose schema is up to date. ``open`` makes it, ``close`` must end it.

    ``shard``: a small number that tells this process from the others on the database; it says where to write, and
    nothing may depend on its being unique. ``leading``: what ``leads`` said last.
    """

    shard = 0
    leading = True

    def __init__(self, engine: AsyncEngine, mark: Watermark | None = None, *, in_memory: bool) -> None:
        self._engine = engine
        self._mark = mark
        self._advanced: tuple[int, int] | None = None
        self._in_memory = in_memory
        self.durability = Durability()
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[Any] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        metadata: sa.MetaData,
        migrations: str,
        *,
        shared: bool = False,
        mark: Watermark | None = None,
    ) -> Database:
        """Open ``url`` (``sqlite+aiosqlite:///FILE`` or ``:memory:``, or ``postgresql+asyncpg://...``) and run the
        package ``migrations`` on it. ``shared``: several processes may have it open, if it is PostgreSQL. ``mark``:
        what tells that the database is from the past.

        A new file is made with mode 0600, its folder with 0700. Raises ``UsageError`` for another kind of URL, a server
        that cannot be used or a database that does not fit its mark, and ``Fatal`` when the file is not a database of
        this service.
        """
        parsed = _parsed(url)
        if parsed.drivername == "postgresql+asyncpg":
            from tacit.adapters.postgres import PostgresDatabase
            from tacit.adapters.postgres_shared import SharedPostgresDatabase

            kind = SharedPostgresDatabase if shared else PostgresDatabase
            return await kind.open_url(parsed, metadata, migrations, mark)
        if parsed.drivername != "sqlite+aiosqlite":
            known = "sqlite+aiosqlite or postgresql+asyncpg"
            raise UsageError(f"storage {parsed.drivername} is not supported; use {known}")
        in_memory = parsed.database in (None, "", ":memory:")
        if not in_memory:
            _create_private(Path(str(parsed.database)))
        database = cls(_engine(parsed, in_memory=in_memory), None if in_memory else mark, in_memory=in_memory)
        try:
            await database._prepare(metadata, migrations)
        except BaseException as error:
            await database._dispose()
            if isinstance(error, sa.exc.DatabaseError):
                raise Fatal(f"the database cannot be opened: {type(error.orig).__name__}") from error
            raise
        return database

    async def _prepare(self, metadata: sa.MetaData, migrations: str) -> None:
        """Bring the schema up to date, and compare the database with its mark."""
        async with self.transaction() as connection:
            await upgrade_async(connection, migrations, metadata)
            await connection.exec_driver_sql(CREATE)
            kind = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
            await connection.exec_driver_sql(_CREATE_PROBE.format(bytes=kind))
            if self._mark is not None:
                await self._mark.check(connection)
        if self._mark is not None:
            self._mark.settle()

    @property
    def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent: an operator has accepted a database from the
        past; 0 where nobody did."""
        return 0 if self._mark is None else self._mark.closed_until

    async def spend(self, connection: AsyncConnection) -> None:
        """Say, as the last thing in a write transaction, that something in it must not happen a second time: it goes
        into the mark with the commit. Raises ``RolledBack`` where the database is older than its mark."""
        if self._mark is not None:
            shard = self.shard
            self._advanced = shard, await self._mark.advance(connection, shard)

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[AsyncConnection]:
        """A write transaction (BEGIN IMMEDIATE): committed when the block ends, rolled back when it raises.

        Writers of this process queue here; writers of other processes wait on the file up to
        ``BUSY_TIMEOUT_MS``. ``shared`` allows a database to run it beside other shared ones; a file cannot. Raises
        ``Unavailable`` where there is no room, or another process does not let go of the file.
        """
        with self.durability.noting():
            async with self._alone():
                with typed():
                    async with self._engine.connect() as connection:
                        await connection.execution_options(**{_WRITE: True})
                        async with connection.begin():
                            yield connection

    @property
    def trouble(self) -> str:
        """What the last writes met with, where the database was away, full or from the past."""
        return self.durability.trouble

    async def probe(self) -> None:
        """Write a few bytes durably, in one row of this process; ``ROOM_BYTES`` where the last write found no room.
        Raises as ``transaction`` does."""
        if self._in_memory:
            return
        full = self.durability.lacks_room
        row = {"place": self.shard, "bytes": os.urandom(ROOM_BYTES if full else _PROBE_BYTES)}  # never what was there
        async with self.transaction(shared=True) as connection:
            await connection.execute(_PROBE, row)
        if full:
            self.durability.has_room()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A read transaction: one consistent snapshot, beside any writer (in memory: after it)."""
        with typed():
            if self._in_memory:
                async with self._alone(), self._engine.connect() as connection:
                    yield connection
            else:
                async with self._engine.connect() as connection:
                    yield connection

    async def at_once(self, statement: str, *values: Any) -> list[Any] | None:
        """The rows of one statement that is a write transaction by itself, in PostgreSQL's words; ``None`` where the
        database has no such short way, and nothing was done."""
        return None

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the file and empty it, so that deleted bytes are gone from both.

        Readers that are at work keep it from being emptied; then the next call does it.
        """
        if not self._in_memory:
            async with self._alone(), self._engine.connect() as connection:
                raw = await connection.get_raw_connection()
                await _execute(raw, "PRAGMA wal_checkpoint(TRUNCATE)")

    async def leads(self) -> bool:
        """Whether this process coordinates all that have the database open: a file has one process."""
        return True

    async def close(self) -> None:
        """``checkpoint``, then close every connection."""
        await self.checkpoint()
        await self._dispose()

    async def _dispose(self) -> None:
        """Close every connection, and the mark."""
        await self._engine.dispose()
        if self._mark is not None:
            self._mark.close()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """The lock of writers. A task that waits for itself is a programming error, not a hang."""
        task = asyncio.current_task()
        if task is not None and self._holder is task:
            raise RuntimeError("this task already has the database's write transaction open")
        async with self._lock:
            self._holder = task
            self._advanced = None
            try:
                yield
                if self._mark is not None and self._advanced is not None:
                    self._mark.note(*self._advanced)
            finally:
                self._holder = None


class Glance(Database):
    """A look at the database file of another process, as it is: nothing is made, migrated, written or waited for.
    ``close`` ends it."""

    def __init__(self, url: str) -> None:
        super().__init__(create_async_engine(_parsed(url), hide_parameters=True), in_memory=False)
        event.listen(self._engine.sync_engine, "connect", _only_read)

    async def checkpoint(self) -> None:
        """Nothing: that is for its own process."""


@contextmanager
def typed() -> Iterator[None]:
    """Errors of the file's surroundings become ``Unavailable``; all others stay what they are."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code not in _PASSING:
            raise
        raise _unavailable(code) from error
    except sqlite3.Error as error:  # of a connection that is used directly
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _PASSING:
            raise
        raise _unavailable(code) from error
    except sa.exc.TimeoutError as error:
        raise Unavailable("every connection to the database is busy") from error


def _unavailable(code: int) -> Unavailable:
    return (NoRoom if code == sqlite3.SQLITE_FULL else Unavailable)(_PASSING[code])


def engine_of(url: str) -> AsyncEngine:
    """Connections for a look at a database whose tables another opened, protected as its own are. Raises
    ``UsageError``."""
    parsed = _parsed(url)
    if parsed.drivername == "postgresql+asyncpg":
        from tacit.adapters.postgres import make_engine

        return make_engine(parsed)
    return create_async_engine(parsed, hide_parameters=True)


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise UsageError("the database URL is malformed; it must look like postgresql+asyncpg://USER@HOST/NAME") from (
            error
        )


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
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)
    if in_memory:
        event.listen(engine.sync_engine, "handle_error", _keep_connection)
    return engine


def _configure(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # the driver opens no transactions of its own; ``_begin`` does
    cursor = dbapi_connection.cursor()
    for pragma in (
        f"page_size = {PAGE_SIZE}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        "temp_store = MEMORY",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _only_read(dbapi_connection: Any, _record: object) -> None:
    cursor = dbapi_connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _keep_connection(context: sa.engine.ExceptionContext) -> None:
    """A cancelled statement must not cost the one connection that is the database; its rollback follows anyway."""
    context.is_disconnect = False


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
