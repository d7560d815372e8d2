"""A PostgreSQL database that any number of processes of one service have open at once.

Each write transaction (READ COMMITTED) begins with one advisory lock; every later statement of it sees what those
before it committed. If the lock is taken exclusively, the transaction runs alone, so what it has read cannot change
before it writes. If it is taken *shared*, the transaction runs beside other shared ones, also of other processes, and
is safe against them by unique constraints and row locks alone. The lock's queue is fair, so an exclusive transaction
gets its turn.

One process at a time ``leads``: it holds a session lock, which the server releases when that process dies. Two
processes that both believe for a moment that they lead do no harm as long as each transaction reads again what it
decides on. A second session lock gives each process the smallest free number, its ``shard``. The session that holds
these locks also carries ``signals`` (LISTEN and NOTIFY).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tacit.adapters.databases.postgres import BEGIN_WRITE, MARKER, OWNER_LOCK, PostgresReader, for_a_person, make_engine
from tacit.adapters.databases.postgres_connect import is_left
from tacit.adapters.databases.postgres_driver import cannot_write, driver_of, fetch_alone, reason, translate_errors
from tacit.adapters.databases.postgres_sessions import discard
from tacit.adapters.databases.signals import Signals
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal, TacitError

WRITE_LOCK = OWNER_LOCK + 1
LEADER_LOCK = OWNER_LOCK + 2
SHARD_LOCK = 0x7461
"""The first half of an advisory lock key whose second half is the shard."""
SHARDS = 1024
CHANNEL = "tacit_signals"
SEND_SECONDS = 5.0

_ALONE = f"{BEGIN_WRITE}; SELECT pg_advisory_xact_lock({WRITE_LOCK})"
_SHARED = f"{BEGIN_WRITE}; SELECT pg_advisory_xact_lock_shared({WRITE_LOCK})"
_LEAD = sa.text(f"SELECT pg_try_advisory_lock({LEADER_LOCK})")
_SHARD = sa.text(f"SELECT pg_try_advisory_lock({SHARD_LOCK}, :shard)")
_SERVICE = sa.text("SELECT service FROM tacit_database")
_NOTIFY = sa.text("SELECT pg_notify(:channel, line) FROM unnest(CAST(:lines AS text[])) AS line")
_FIRST = sa.text("INSERT INTO tacit_database (service, holder) VALUES (:service, '') ON CONFLICT DO NOTHING")


class SharedPostgresDatabase(PostgresReader):
    """An open PostgreSQL database with an up-to-date schema, shared with other processes of the same service."""

    def __init__(
        self, engine: AsyncEngine, service: str, mark: Watermark | None = None, signals: Signals | None = None
    ) -> None:
        super().__init__(engine, mark)
        self._service = service
        self._signals = signals or Signals()
        self._unsent: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listened = False
        self._session: AsyncConnection | None = None
        self._session_driver: Any = None
        self._session_lock = asyncio.Lock()
        self._direct: AsyncConnection | None = None
        self._direct_lock = asyncio.Lock()
        self.leading = False

    @classmethod
    async def open_url(
        cls,
        url: URL,
        metadata: sa.MetaData,
        migrations: str,
        mark: Watermark | None = None,
        signals: Signals | None = None,
    ) -> SharedPostgresDatabase:
        """Connect and migrate, one process after another. ``signals``: what this process hears and sends.

        Raises ``UsageError`` with one line if asyncpg is absent, the server cannot be reached or refuses us, or the
        database belongs to another service.
        """
        database = cls(make_engine(url), migrations, mark, signals)
        try:
            with for_a_person(url):
                # alone: of processes that start together one makes the table, and the others find it
                async with database.transaction() as connection:
                    await database._sign(connection)
                await database._attach()
            await database._prepare(metadata, migrations)
        except BaseException as error:
            await database.close()
            if isinstance(error, sa.exc.DBAPIError):
                raise Fatal(f"the database cannot be opened: {reason(error.orig)}") from error
            raise
        return database

    async def _sign(self, connection: AsyncConnection) -> None:
        await connection.execute(sa.text(MARKER))
        await connection.execute(_FIRST, {"service": self._service})
        found = (await connection.execute(_SERVICE)).scalar_one()
        if found != self._service:
            raise Fatal(f"this database belongs to {found}, not to {self._service}")

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction, alone or beside other shared ones: committed when the block ends, rolled back when
        it raises. Transactions of this process queue here.

        Raises ``Fatal`` when the database does not answer, or aborts the transaction in favour of another.
        """
        with self.durability.noting():
            async with self._alone():
                with translate_errors():
                    async with self._sessions.begun(_SHARED if shared else _ALONE) as connection:
                        yield connection

    async def call(self, function: str, *values: Any) -> list[Any]:
        """Call a stored function and return its rows, on a connection reserved for such calls: one round trip, beside
        this process's other transactions. The function's first argument is the lock that it takes shared by itself.
        Raises ``IntegrityError`` and ``Fatal``."""
        places = ", ".join(f"${place}" for place in range(1, len(values) + 2))
        statement = f"SELECT {function}({places})"
        with self.durability.noting(), translate_errors():
            async with self._direct_lock:
                try:
                    return await fetch_alone(await self._direct_driver(), statement, WRITE_LOCK, *values)
                except sa.exc.IntegrityError:
                    raise  # the call is rolled back, and the connection as good as before
                except BaseException as error:
                    # of a call that failed or was cancelled nobody knows how far it got: its connection is given up
                    if cannot_write(error) and self._direct is not None:
                        (await driver_of(self._direct)).server.leave()
                    await self._drop_direct()
                    raise

    async def _direct_driver(self) -> Any:
        if self._direct is not None:
            driver = await driver_of(self._direct)
            if not is_left(driver):
                return driver
            await self._drop_direct()
        self._direct = await self._engine.connect()
        return await driver_of(self._direct)

    async def _drop_direct(self) -> None:
        direct, self._direct = self._direct, None
        if direct is not None:
            await discard(direct)

    async def leads(self) -> bool:
        """Whether this process holds the coordinator's lock, or could take it now. Raises ``Fatal`` when the database
        does not answer."""
        # without asking: if another process leads by now, no harm is done (see above)
        if self.leading and not is_left(self._session_driver, for_long=True):
            return True
        with translate_errors():
            async with self._session_lock:
                try:
                    session = await self._attached()
                    if not self.leading:
                        self.leading = bool((await session.execute(_LEAD)).scalar_one())
                except BaseException:
                    await self._detach()
                    raise
                return self.leading

    async def _attached(self) -> AsyncConnection:
        """The connection that holds this process's session locks; a new one, with new locks, if it has gone."""
        if self._session is not None and not is_left(self._session_driver, for_long=True):
            return self._session
        return await self._attach()

    async def _attach(self) -> AsyncConnection:
        await self._detach()
        session = await self._engine.connect()
        try:
            await session.execution_options(isolation_level="AUTOCOMMIT")
            # where all are taken it stays the one before, mostly 0: a shard need not be unique
            for shard in range(SHARDS):
                if (await session.execute(_SHARD, {"shard": shard})).scalar_one():
                    self.shard = shard
                    break
            driver = await driver_of(session)
            await driver.add_listener(CHANNEL, self._heard)
        except BaseException:
            await discard(session)
            raise
        self._session, self._session_driver = session, driver
        self._signals.carry(self._send)
        # only now that all signals are heard: who looked earlier could miss what was sent between look and listening
        if self._listened:
            self._signals.missed()
        self._listened = True
        return session

    def _heard(self, driver: Any, sender: int, _channel: str, line: object) -> None:
        """A signal arrived. PostgreSQL also returns our own."""
        if sender != driver.get_server_pid():
            self._signals.arrived(str(line))

    def _send(self, line: str) -> None:
        self._unsent[line] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        """Send what waits, equal signals once. Without a connection it is lost, as signals may be."""
        with suppress(TacitError, sa.exc.SQLAlchemyError, OSError), translate_errors():  # a TimeoutError is an OSError
            while self._unsent:
                async with self._session_lock:
                    # not before the lock is there, so that what came while waiting for it goes along
                    lines, self._unsent = list(self._unsent), {}
                    try:
                        async with asyncio.timeout(SEND_SECONDS):  # others wait for the lock to ask who leads
                            session = await self._attached()
                            await session.execute(_NOTIFY, {"channel": CHANNEL, "lines": lines})
                    except BaseException:
                        await self._detach()
                        raise

    async def _detach(self) -> None:
        # the coordinator's lock ends with the session that holds it
        session, self._session, self._session_driver, self.leading = self._session, None, None, False
        if session is not None:
            await discard(session)

    async def close(self) -> None:
        """Release the locks and close every connection."""
        # before the task that sends is ended: a signal would start another
        self._signals.carry(None)
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._detach()
        await self._drop_direct()
        await self._dispose()
