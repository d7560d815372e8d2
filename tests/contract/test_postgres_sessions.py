"""Kept connections: what happens beside or after a transaction changes nothing of what it did, and leaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.leader import schema
from tacit.adapters.databases import postgres_sessions
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.postgres import administer, make_engine
from tacit.adapters.databases.postgres_driver import fetch
from tacit.adapters.databases.postgres_sessions import KEPT, Sessions
from tacit.adapters.databases.sql import open_database
from tacit.errors import Unavailable
from tests.contract.sessions import kill_sessions, until_waiting

LEAVES = schema.COMMON.leaves
BEGIN, FIND = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "SELECT position FROM leaves ORDER BY position"


@pytest.fixture
def url(make_postgres_url: Callable[[], str]) -> str:
    return make_postgres_url()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    found = await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=True)
    yield found
    await found.close()


@pytest.fixture
async def engine(url: str, database: Database) -> AsyncIterator[AsyncEngine]:
    found = make_engine(sa.engine.make_url(url))
    yield found
    await found.dispose()


@pytest.fixture
async def sessions(engine: AsyncEngine) -> AsyncIterator[Sessions]:
    found = Sessions(engine)
    yield found
    await found.close()


def borrowed(engine: AsyncEngine) -> int:
    pool: Any = engine.pool
    return int(pool.checkedout())


async def add(sessions: Sessions, position: int) -> None:
    async with sessions.begun(BEGIN) as connection:
        await connection.execute(sa.insert(LEAVES).values(position=position, leaf=b"leaf"))


async def positions(database: Database) -> list[int]:
    async with database.read() as connection:
        return [row[0] for row in await fetch(connection, FIND)]


async def test_trouble_after_a_commit_is_not_the_transactions(
    sessions: Sessions, engine: AsyncEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: AsyncConnection) -> None:
        raise sa.exc.OperationalError("rollback", None, OSError())

    with monkeypatch.context() as patch:
        patch.setattr(AsyncConnection, "rollback", broken)
        await add(sessions, 1)
    assert await positions(database) == [1]
    assert borrowed(engine) == 0, "the connection is not kept, and not lost either"
    await add(sessions, 2)
    assert await positions(database) == [1, 2]


async def test_trouble_after_a_rollback_does_not_hide_the_blocks_own(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: AsyncConnection) -> None:
        raise sa.exc.OperationalError("rollback", None, OSError())

    async def fails() -> None:
        async with sessions.begun(BEGIN) as connection:
            await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
            raise ValueError("its own")

    monkeypatch.setattr(AsyncConnection, "rollback", broken)
    with pytest.raises(ValueError, match="its own"):
        await fails()


async def test_a_connection_that_cannot_be_used_goes_back(
    sessions: Sessions, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_connection: AsyncConnection) -> None:
        raise sa.exc.OperationalError("connect", None, OSError())

    with monkeypatch.context() as patch:
        patch.setattr(postgres_sessions, "driver_of", none)
        for _ in range(3):
            with pytest.raises(sa.exc.OperationalError):
                await add(sessions, 1)
    assert borrowed(engine) == 0


async def test_of_many_transactions_at_once_only_a_few_connections_are_kept(
    sessions: Sessions, engine: AsyncEngine, database: Database
) -> None:
    await asyncio.gather(*(add(sessions, number) for number in range(30)))
    assert borrowed(engine) == KEPT
    assert await positions(database) == list(range(30))


async def test_kept_connections_that_were_killed_are_replaced(sessions: Sessions, url: str, database: Database) -> None:
    await add(sessions, 1)
    await kill_sessions(url)
    await add(sessions, 2)
    assert await positions(database) == [1, 2]


async def test_a_commit_that_is_cancelled_leaves_a_sound_connection(
    sessions: Sessions, engine: AsyncEngine, url: str, database: Database
) -> None:
    """A deferred constraint makes COMMIT wait for another transaction, so that it can be cancelled while it runs."""
    async with sessions.begun(BEGIN) as connection:
        await fetch(connection, "CREATE TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    async def put() -> None:
        async with sessions.begun(BEGIN) as connection:
            await fetch(connection, "INSERT INTO once VALUES (1)")

    async with engine.connect() as other:
        await other.execute(sa.text("INSERT INTO once VALUES (1)"))
        task = asyncio.create_task(put())
        await until_waiting(url)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await other.rollback()
    await put()
    assert borrowed(engine) <= KEPT


@pytest.mark.parametrize("by_driver", [True, False])
async def test_a_statement_from_before_a_migration_is_to_be_tried_again(url: str, by_driver: bool) -> None:
    """The server refuses a plan whose result has another type now; the driver then forgets it."""
    database = await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=True)

    async def look() -> list[Any]:
        async with database.read() as connection:
            if by_driver:
                return await fetch(connection, "SELECT * FROM leaves")
            return list(await connection.execute(sa.text("SELECT * FROM leaves")))

    await look()
    await administer(sa.engine.make_url(url), ["ALTER TABLE leaves ADD COLUMN more int"])
    with pytest.raises(Unavailable, match="InvalidCachedStatementError"):
        await look()
    assert await look() == []
    await database.close()


@pytest.mark.parametrize("shared", [True, False])
async def test_a_session_that_the_server_ends_within_a_transaction_costs_that_one_alone(
    url: str, *, shared: bool
) -> None:
    database = await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=shared)

    async def put(position: int, *, ended: bool = False) -> None:
        async with database.transaction() as connection:
            await connection.execute(sa.insert(LEAVES).values(position=position, leaf=b"leaf"))
            if ended:
                await kill_sessions(url)

    for position in range(3):
        with pytest.raises(Unavailable):
            await put(position, ended=True)
        await put(10 + position)
    assert await positions(database) == [10, 11, 12]
    assert borrowed(database._engine) <= KEPT + 1, "with the session that holds the locks"
    await database.close()
