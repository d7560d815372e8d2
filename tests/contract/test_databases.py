"""What a PostgreSQL database of one process promises beyond the stores' contract: one writer, restarts, drift."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Callable

import pytest
import sqlalchemy as sa

from infra.backing.postgres import PostgresServer
from services.leader import schema
from tacit.adapters.databases import postgres as adapter
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.postgres import PostgresDatabase
from tacit.adapters.databases.sql import open_database
from tacit.errors import Fatal, UsageError
from tests.contract.sessions import kill_sessions

SCHEMAS = (
    "attester.schema",
    "recipe_server.schema",
    "services.admin.storage.schema",
    "services.collector.schema",
    "services.gateway.store",
    "services.helper.schema",
    "services.issuer.schema",
    "services.leader.schema",
)
LATE = 2**40
LEAVES = schema.COMMON.leaves


@pytest.fixture
def url(make_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(adapter, "OWNER_WAIT_SECONDS", 0.5)
    return make_postgres_url()


async def opened(url: str) -> Database:
    return await open_database(url, schema.METADATA, schema.MIGRATIONS)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    found = await opened(url)
    yield found
    await found.close()


async def add(database: Database, position: int) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.insert(LEAVES).values(position=position, leaf=b"leaf"))


async def positions(database: Database) -> list[int]:
    async with database.read() as connection:
        return list((await connection.execute(sa.select(LEAVES.c.position).order_by(LEAVES.c.position))).scalars())


async def test_bodies_are_never_compressed_and_integers_have_64_bits(database: Database) -> None:
    storage = "select attstorage::text from pg_attribute where attrelid = 'reports'::regclass and attname = 'body'"
    async with database.read() as connection:
        assert (await connection.execute(sa.text(storage))).scalar_one() == "e"
    await add(database, LATE)
    assert await positions(database) == [LATE]


async def test_second_process_is_refused_with_one_line_and_the_first_goes_on(database: Database, url: str) -> None:
    with pytest.raises(UsageError, match="another process of this service") as refused:
        await opened(url)
    assert "\n" not in str(refused.value)
    await add(database, 1)
    assert await positions(database) == [1]


async def test_database_is_free_again_after_close(url: str) -> None:
    first = await opened(url)
    await add(first, 1)
    await first.close()
    second = await opened(url)
    assert await positions(second) == [1]
    await second.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_database_of_another_service_is_refused(url: str, *, shared: bool) -> None:
    first = await opened(url)
    await first.close()
    other = importlib.import_module("services.helper.schema")
    with pytest.raises(UsageError, match=r"this database belongs to services\.leader\.migrations"):
        await open_database(url, other.METADATA, other.MIGRATIONS, shared=shared)


async def test_writers_never_both_pass_a_check_then_write(database: Database) -> None:
    async def increment() -> None:
        async with database.transaction() as connection:
            last = (await connection.execute(sa.select(sa.func.max(LEAVES.c.position)))).scalar_one()
            await asyncio.sleep(0)
            await connection.execute(sa.insert(LEAVES).values(position=(last or 0) + 1, leaf=b""))

    await asyncio.gather(*(increment() for _ in range(20)))
    assert await positions(database) == list(range(1, 21))


async def test_reader_has_one_snapshot_and_cannot_write(database: Database) -> None:
    async with database.read() as connection:
        count = sa.select(sa.func.count()).select_from(LEAVES)
        assert (await connection.execute(count)).scalar_one() == 0
        await add(database, 1)
        assert (await connection.execute(count)).scalar_one() == 0
        with pytest.raises(sa.exc.DBAPIError, match="read-only"):
            await connection.execute(sa.insert(LEAVES).values(position=9, leaf=b""))
    assert await positions(database) == [1]


async def test_transaction_whose_statement_failed_unnoticed_is_not_taken_for_a_success(database: Database) -> None:
    async def unnoticed() -> None:
        async with database.transaction() as connection:
            await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
            with contextlib.suppress(sa.exc.IntegrityError):
                await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))

    with pytest.raises(Fatal, match="rolled the transaction back"):
        await unnoticed()
    await add(database, 2)
    assert await positions(database) == [2]


@pytest.mark.parametrize("driven", [False, True])
async def test_cancelled_transaction_stays_cancelled_and_leaves_nothing(database: Database, *, driven: bool) -> None:
    begun = asyncio.Event()

    async def slow() -> None:
        async with database.transaction() as connection:
            await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
            begun.set()
            if driven:
                await database.dialect.fetch(connection, "SELECT pg_sleep(600)")
            await connection.execute(sa.text("SELECT pg_sleep(600)"))

    task = asyncio.create_task(slow())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await add(database, 3)
    assert await positions(database) == [3]


async def test_transaction_whose_connection_breaks_fails_typed_and_leaves_nothing(database: Database, url: str) -> None:
    async def broken() -> None:
        async with database.transaction() as connection:
            await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
            await kill_sessions(url)
            await connection.execute(sa.insert(LEAVES).values(position=2, leaf=b""))

    with pytest.raises(Fatal, match="database"):
        await broken()
    await add(database, 3)
    assert await positions(database) == [3]


async def test_process_that_was_overtaken_writes_nothing_more(database: Database, url: str) -> None:
    await add(database, 1)
    await kill_sessions(url)
    second = await opened(url)
    with pytest.raises(Fatal, match="another process"):
        await add(database, 2)
    await second.close()
    with pytest.raises(Fatal, match="restart this process"):
        await add(database, 3)
    with pytest.raises(Fatal, match="restart this process"):
        await add(database, 4)
    third = await opened(url)
    assert await positions(third) == [1]
    await third.close()


async def test_holder_tells_what_the_connections_do_not_know(database: Database) -> None:
    assert isinstance(database, PostgresDatabase)
    async with database.transaction() as connection:
        await connection.execute(sa.text("update tacit_database set holder = 'another'"))
    with pytest.raises(Fatal, match="restart this process"):
        await add(database, 1)


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_restarted_server_keeps_what_was_committed(
    database: Database, postgres: PostgresServer, end: str
) -> None:
    await add(database, 1)
    await asyncio.to_thread(getattr(postgres, end))
    try:
        with pytest.raises(Fatal, match="database"):
            await add(database, 2)
        with pytest.raises(Fatal, match="database"):
            await positions(database)
    finally:
        await asyncio.to_thread(postgres.start)
    await add(database, 3)
    assert await positions(database) == [1, 3]


async def test_opening_says_on_one_line_what_is_wrong(url: str, postgres: PostgresServer) -> None:
    wrong = {
        postgres.url_of("nobody", "wrong", "postgres"): "InvalidPassword",
        url + "_absent": "InvalidCatalogName",
        "postgresql+asyncpg://a:secret@127.0.0.1:1/x": "cannot be reached",
    }
    for broken, message in wrong.items():
        with pytest.raises(UsageError, match=message) as refused:
            await opened(broken)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)
    with pytest.raises(UsageError, match="malformed"):
        await opened("postgresql+asyncpg//")
