"""One PostgreSQL database of one service, behind the same ``Database`` interface as SQLite.

The guarantee is SQLite's: writers run one after another, so a transaction that has read something can write it without
a conflict in between. Each write transaction (READ COMMITTED) begins with a row lock on the one row of
``tacit_database``; every later statement sees what earlier writers committed, and there are no serialisation failures
or deadlocks. Readers (REPEATABLE READ, READ ONLY) have one snapshot and wait for nobody.

One process has the database at a time: it holds a session advisory lock, under which it also migrates, and a second
process is refused. A process that loses that lock (the server was restarted, the network broke) takes it again before
its next write. If another process had the database in the meantime, the ``holder`` in ``tacit_database`` shows it,
whatever the process's own connections suggest; the process then writes nothing more. Databases that several processes
have open are handled by ``tacit.adapters.databases.postgres_shared``.

A connection that breaks ends the transaction with ``Fatal``. Whether it was committed is then unknown, as after a power
cut: callers do the same again, which is safe because what they write is idempotent. Deleted rows are not overwritten
here (they go with VACUUM or with their table, and from the WAL when it is recycled): ``checkpoint`` does nothing.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.migrate import MARKER_TABLE
from tacit.adapters.databases.postgres_connect import Server, connector, is_left
from tacit.adapters.databases.postgres_dialect import PostgresDialect
from tacit.adapters.databases.postgres_driver import fetch, reason, translate_errors
from tacit.adapters.databases.postgres_sessions import Sessions, discard
from tacit.adapters.databases.postgres_tls import protection_of
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal, UsageError
from tacit.extras import require_extra

CONNECTIONS = 5
CONNECT_SECONDS = 10
COMMAND_SECONDS = 60
OWNER_WAIT_SECONDS = 3.0
OWNER_PAUSE_SECONDS = 0.1
OWNER_LOCK = 0x7461636974  # advisory lock keys are private to each database

MARKER = f"""
CREATE TABLE IF NOT EXISTS {MARKER_TABLE} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    service text NOT NULL,
    holder text NOT NULL
)
"""
_FIRST_MARKER = "INSERT INTO tacit_database (service, holder) VALUES (:service, :holder) ON CONFLICT DO NOTHING"
BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_HOLDER = "SELECT holder FROM tacit_database FOR UPDATE"


class PostgresReader(Database):
    """Reads that are alike in every PostgreSQL database, whoever may write to it."""

    dialect: ClassVar[Dialect] = PostgresDialect()

    def __init__(self, engine: AsyncEngine, mark: Watermark | None = None) -> None:
        super().__init__(engine, mark)
        self._sessions = Sessions(engine)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a read transaction: one consistent snapshot, beside any writer."""
        with translate_errors():
            async with self._sessions.begun(_BEGIN_READ, "ROLLBACK") as connection:
                yield connection

    async def checkpoint(self) -> None:
        """Do nothing: deleted rows are not overwritten, and the server decides when its log is recycled."""

    async def _dispose(self) -> None:
        """Close every connection, and the mark."""
        await self._sessions.close()
        await super()._dispose()


class PostgresDatabase(PostgresReader):
    """An open PostgreSQL database with an up-to-date schema, reserved for this process."""

    def __init__(self, engine: AsyncEngine, service: str, mark: Watermark | None = None) -> None:
        super().__init__(engine, mark)
        self._service = service
        self._owner: AsyncConnection | None = None
        self._holder_id = uuid.uuid4().hex
        self._taken = False
        self._lost = False

    @classmethod
    async def open_url(
        cls, url: URL, metadata: sa.MetaData, migrations: str, mark: Watermark | None = None
    ) -> PostgresDatabase:
        """Connect, take the database for this process and migrate it.

        Raises ``UsageError`` with one line if asyncpg is absent, the server cannot be reached or refuses us, another
        process has the database, or it belongs to another service.
        """
        database = cls(make_engine(url), migrations, mark)
        try:
            with for_a_person(url):
                await database._acquire()
            await database._prepare(metadata, migrations)
        except BaseException as error:
            await database._release()
            if isinstance(error, sa.exc.DBAPIError):
                raise Fatal(f"the database cannot be opened: {reason(error.orig)}") from error
            raise
        return database

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction: committed when the block ends, rolled back when it raises. It always runs alone: no
        other process may write here.

        Raises ``Fatal`` when the database does not answer, or was taken by another process.
        """
        with self.durability.noting():
            async with self._alone():
                with translate_errors():
                    await self._take_ownership()
                    async with self._sessions.begun(BEGIN_WRITE) as connection:
                        # the row and not the lock: that the session with the lock is gone may be noticed later
                        rows = await fetch(connection, _HOLDER)
                        self._check([row[0] for row in rows] == [self._holder_id])
                        yield connection

    async def close(self) -> None:
        """Release the database and close every connection."""
        await self._release()

    async def _take_ownership(self) -> None:
        """Take the database again if the connection that holds its lock is known to be lost."""
        self._check(not self._lost)
        if self._owner is not None and not self._owner.invalidated:
            raw = await self._owner.get_raw_connection()
            if not is_left(raw.driver_connection, for_long=True):
                return
        await self._acquire()

    def _check(self, alone: bool) -> None:
        """Raise where another process had the database: in-memory state matches the database only while nobody else
        writes to it."""
        if not alone:
            self._lost = True
            self.durability.ended("another process used the database in the meantime; restart this process")
            raise Fatal(self.durability.trouble)

    async def _acquire(self) -> None:
        """Take the advisory lock, waiting a little for a process that has just died, and record this process as the
        holder."""
        await self._drop_owner()
        # after the old session: as long as the server knows it, the lock that it holds is in our own way
        owner = await self._engine.connect()
        try:
            await owner.execution_options(isolation_level="AUTOCOMMIT")
            await self._lock_database(owner)
            await self._sign(owner)
        except BaseException:
            await discard(owner)
            raise
        self._owner = owner

    async def _lock_database(self, owner: AsyncConnection) -> None:
        statement = sa.select(sa.func.pg_try_advisory_lock(sa.literal(OWNER_LOCK, sa.BigInteger)))
        for _ in range(round(OWNER_WAIT_SECONDS / OWNER_PAUSE_SECONDS)):
            if (await owner.execute(statement)).scalar_one():
                return
            await asyncio.sleep(OWNER_PAUSE_SECONDS)
        raise Fatal("another process of this service uses the database; only one process per database is allowed")

    async def _sign(self, owner: AsyncConnection) -> None:
        await owner.execute(sa.text(MARKER))
        await owner.execute(sa.text(_FIRST_MARKER), {"service": self._service, "holder": self._holder_id})
        found = (await owner.execute(sa.text("SELECT service, holder FROM tacit_database"))).one()
        if found.service != self._service:
            raise Fatal(f"this database belongs to {found.service}, not to {self._service}")
        # before it is overwritten: another process may have had the database, and be gone already
        self._check(not self._taken or found.holder == self._holder_id)
        await owner.execute(sa.text("UPDATE tacit_database SET holder = :holder"), {"holder": self._holder_id})
        self._taken = True

    async def _drop_owner(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            await discard(owner)

    async def _release(self) -> None:
        await self._drop_owner()
        await self._dispose()


@contextmanager
def for_a_person(url: URL) -> Iterator[None]:
    """Turn a ``Fatal`` at start, which is a matter of configuration, into one line that names the server without the
    password."""
    try:
        with translate_errors():
            yield
    except (Fatal, sa.exc.DBAPIError) as error:
        where = f"{url.host or url.query.get('host')}:{url.port or 5432}/{url.database or ''}"
        why = error if isinstance(error, Fatal) else f"it refuses: {reason(error.orig)}"
        raise UsageError(f"PostgreSQL at {where}: {why}") from error


async def administer(url: URL, statements: Sequence[str]) -> None:
    """Run ``statements``, each by itself, as the role of ``url``. Raises ``UsageError`` with one line."""
    engine = make_engine(url)
    try:
        with for_a_person(url):
            async with engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                for statement in statements:
                    await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()


def require_driver() -> None:
    """Raise ``UsageError`` with one line where asyncpg is not installed."""
    require_extra("PostgreSQL", "postgres", "asyncpg")


def make_engine(url: URL) -> AsyncEngine:
    """An engine whose connections are durable, protected as in ``tacit.adapters.databases.postgres_tls``, time out, and
    are replaced when the server is gone. Raises ``UsageError`` for a URL that is not safe."""
    require_driver()
    bare, protection = protection_of(url)
    arguments: dict[str, Any] = {
        "timeout": CONNECT_SECONDS,
        "command_timeout": COMMAND_SECONDS,
        "async_creator_fn": connector(Server(), protection.arguments),
    }
    engine = create_async_engine(
        bare, hide_parameters=True, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, connect_args=arguments
    )

    event.listen(engine.sync_engine, "checkout", _refuse_left)
    return engine


def _refuse_left(dbapi_connection: Any, _record: object, _proxy: object) -> None:
    """Replace a connection before it is used whose server is gone or cannot write."""
    if is_left(dbapi_connection.driver_connection):
        raise sa.exc.DisconnectionError
