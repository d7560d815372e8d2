"""Services leave a server that cannot write, wherever their address leads: they neither go on reading from the past nor
need a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import create_async_engine

from infra.backing.postgres import PostgresServer
from infra.backing.redis import RedisServer
from services.leader import schema
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.postgres import PostgresReader, administer
from tacit.adapters.databases.postgres_connect import AGE_SECONDS
from tacit.adapters.databases.postgres_driver import driver_of, fetch, reason
from tacit.adapters.databases.sql import open_database
from tacit.adapters.messaging.redis_replay import RedisSeen
from tacit.errors import Fatal, Unavailable
from tests.conftest import REDIS_USER, skip_or_fail
from tests.contract.sessions import PATIENCE, count
from tests.kit.switchover import Address, Node, bouncer, is_installed, pair

LEAVES = schema.COMMON.leaves
OLD, NEW, NEWER = 1, 2, 3
NAMES = ("shared", "alone")


async def add(database: Database, position: int) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.insert(LEAVES).values(position=position, leaf=b"leaf"))


async def positions(database: Database) -> list[int]:
    async with database.read() as connection:
        return [row[0] for row in await fetch(connection, "SELECT position FROM leaves ORDER BY position")]


def url_at(node: PostgresServer, port: int, name: str) -> str:
    return node.url.replace(f":{node.port}/postgres", f":{port}/{name}")


@asynccontextmanager
async def opened(node: Node, address: Address) -> AsyncIterator[list[Database]]:
    """Databases of a service with many processes, and of one with a single process, behind ``address``."""
    await administer(sa.engine.make_url(node.url), [f"CREATE DATABASE {name}" for name in NAMES])
    async with AsyncExitStack() as stack:
        found = []
        for name in NAMES:
            url = url_at(node, address.port, name)
            found.append(await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=name == "shared"))
            stack.push_async_callback(found[-1].close)
        yield found


async def until_it_works(write: Callable[[], object]) -> None:
    """Try again, as every sender does, while the server is unavailable."""
    for _ in range(PATIENCE):
        try:
            await write()  # type: ignore[misc]
        except Unavailable:
            await asyncio.sleep(0.01)
        else:
            return
    raise AssertionError("it never works again")


@pytest.mark.slow
async def test_no_service_reads_from_a_primary_that_became_a_standby_and_all_find_the_new_one() -> None:
    with pair() as (first, second):
        async with Address(first.port) as address, opened(first, address) as databases:
            for database in databases:
                await add(database, OLD)
                assert await positions(database) == [OLD]
                assert await database.leads()
            await asyncio.to_thread(first.stop)
            await asyncio.to_thread(second.promote)
            await asyncio.to_thread(first.follow, second)
            for _ in range(2):  # the address leads to the old node, which is a standby by now
                for database in databases:
                    with pytest.raises(Unavailable, match="takes no writes"):
                        await positions(database)
                    with pytest.raises(Unavailable, match="takes no writes"):
                        await add(database, NEW)
                    with pytest.raises(Unavailable, match="takes no writes"):
                        await database.probe()
                    assert "takes no writes" in database.trouble
            address.target = second.port
            for database in databases:
                await add(database, NEW)
                assert await positions(database) == [OLD, NEW]
                assert await database.leads()
                assert not database.trouble
            assert (
                await count(url_at(first, first.port, "shared")) == await count(url_at(first, first.port, "alone")) == 0
            )


@pytest.mark.slow
async def test_connections_to_a_node_that_lives_on_are_left_once_others_lead_elsewhere() -> None:
    """The address moves, but nothing fails at the old node, which nobody has stopped. The first connection that is too
    old is made anew, to another server, and all others follow it, those with locks, too."""
    with pair() as (first, second):
        async with Address(first.port) as address, opened(first, address) as databases:
            for database in databases:
                await add(database, OLD)
                assert await positions(database) == [OLD]
                assert await database.leads()
            for name in NAMES:
                await administer(sa.engine.make_url(url_at(first, first.port, name)), ["SELECT pg_current_wal_lsn()"])
            await until_replayed(first, second)
            await asyncio.to_thread(second.promote)
            address.target = second.port
            for database in databases:
                assert isinstance(database, PostgresReader)
                for _, driver in database._sessions._kept:
                    driver.made_at -= AGE_SECONDS + 1
                await until_it_works(lambda one=database: add(one, NEW))  # type: ignore[misc]
                await add(database, NEWER)  # takes the database at the new server, whose holder it is, before it writes
                assert await positions(database) == [OLD, NEW, NEWER]
                assert await database.leads()
            for name in NAMES:
                for _ in range(PATIENCE):
                    if not await count(url_at(first, first.port, name)):
                        break
                    await asyncio.sleep(0.01)
                assert await count(url_at(first, first.port, name)) == 0


async def until_replayed(first: Node, second: Node) -> None:
    """Return once the standby has all that the primary has."""
    for _ in range(PATIENCE):
        ends = []
        for node, function in ((first, "pg_current_wal_lsn"), (second, "pg_last_wal_replay_lsn")):
            engine = create_async_engine(node.url, poolclass=sa.pool.NullPool)
            async with engine.connect() as connection:
                ends.append((await connection.execute(sa.text(f"SELECT {function}()::text"))).scalar_one())
            await engine.dispose()
        if ends[0] == ends[1]:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the standby never catches up")


@pytest.fixture
async def database(make_postgres_url: Callable[[], str]) -> AsyncIterator[Database]:
    found = await open_database(make_postgres_url(), schema.METADATA, schema.MIGRATIONS, shared=True)
    yield found
    await found.close()


async def run(database: Database, *statements: str) -> None:
    async with database.transaction(shared=True) as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def raised(database: Database, code: str) -> BaseException:
    """What a transaction ends with in which the server raises ``code``."""
    with pytest.raises((Unavailable, Fatal, sa.exc.DBAPIError)) as caught:
        await run(database, f"DO $$ BEGIN RAISE 'a secret word' USING ERRCODE = '{code}'; END $$")
    return caught.value


@pytest.mark.parametrize(
    "code",
    [
        "25006",
        "0A000",
        "25P03",
        "57014",
        "57P01",
        "57P02",
        "57P03",
        "57P05",
        "08006",
        "08P01",
        "40001",
        "40P01",
        "53300",
        "55P03",
        "58030",
    ],
)
async def test_a_server_in_trouble_is_unavailable_and_the_next_transaction_works(database: Database, code: str) -> None:
    error = await raised(database, code)
    assert isinstance(error, Unavailable)
    assert "secret" not in str(error)
    assert "RAISE" not in str(error)
    await add(database, OLD)
    assert await positions(database) == [OLD]


@pytest.mark.parametrize("code", ["42P01", "42601", "22003", "P0001", "XX000"])
async def test_no_error_with_a_statement_in_it_leaves_the_adapter(database: Database, code: str) -> None:
    error = await raised(database, code)
    assert type(error) is Fatal
    assert "secret" not in str(error)
    assert "RAISE" not in str(error)


async def test_a_violated_constraint_is_the_callers(database: Database) -> None:
    await add(database, OLD)
    with pytest.raises(sa.exc.IntegrityError):
        await add(database, OLD)


@pytest.mark.parametrize("code", ["25006", "0A000"])
async def test_after_a_server_refused_a_write_no_connection_to_it_is_used_again(database: Database, code: str) -> None:
    await add(database, OLD)
    assert await database.leads()
    before = await pids(database)
    await raised(database, code)
    assert not await pids(database) & before
    assert await database.leads(), "also the session that holds the locks"


async def pids(database: Database) -> set[int]:
    found = set()
    for _ in range(3):
        async with database.read() as connection:
            found.add((await fetch(connection, "SELECT pg_backend_pid()"))[0][0])
        async with database.transaction(shared=True) as connection:
            found.add((await fetch(connection, "SELECT pg_backend_pid()"))[0][0])
    return found


async def test_a_statement_that_takes_too_long_and_a_transaction_that_waits_too_long(database: Database) -> None:
    with pytest.raises(Unavailable, match="took too long"):
        await run(database, "SET LOCAL statement_timeout = '20ms'", "SELECT pg_sleep(5)")
    with pytest.raises(Unavailable):
        await wait_too_long(database)
    await add(database, OLD)
    assert await positions(database) == [OLD]


async def wait_too_long(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
        driver = await driver_of(connection)
        for _ in range(PATIENCE):
            if driver.is_closed():
                break
            await asyncio.sleep(0.01)
        await connection.exec_driver_sql("SELECT 1")


async def test_behind_pgbouncer_in_session_mode_all_works_as_it_comes(postgres: PostgresServer) -> None:
    """No ``ignore_startup_parameters`` is needed: what PgBouncer does not know is set after the start."""
    if not is_installed():
        skip_or_fail("pgbouncer", "no PgBouncer here")
    names = [f"bounced_{name}" for name in NAMES]
    await administer(sa.engine.make_url(postgres.url), [f"CREATE DATABASE {name}" for name in names])
    with bouncer(postgres) as port:
        for name in names:
            url = url_at(postgres, port, name)
            found = await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=name.endswith("shared"))
            try:
                await add(found, OLD)
                assert await positions(found) == [OLD]
                assert await found.leads()
                async with found.read() as connection:
                    rows = await fetch(connection, "SELECT name, setting FROM pg_settings WHERE source = 'session'")
                assert {"synchronous_commit", "lock_timeout", "jit"} <= {row[0] for row in rows}
            finally:
                await found.close()


def test_a_start_that_violates_the_protocol_says_what_a_pgbouncer_needs() -> None:
    exceptions = pytest.importorskip("asyncpg").exceptions
    words = reason(exceptions.ProtocolViolationError("unsupported startup parameter: jit"))
    assert "ignore_startup_parameters" in words
    assert "pool_mode = session" in words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("the database system is starting up", "starting up; after a crash it replays its log"),
        ("the database system is not yet accepting connections", "has not reached a consistent state yet"),
        ("the database system is in recovery mode", "recovers from the crash of one of its processes"),
        ("the database system is shutting down", "the server is shutting down"),
        ("das Datenbanksystem startet", "takes no connections now: it is starting up, recovers or is shutting down"),
    ],
)
def test_a_server_that_takes_no_connections_now_says_what_it_is_doing(said: str, words: str) -> None:
    exceptions = pytest.importorskip("asyncpg").exceptions
    assert words in reason(exceptions.CannotConnectNowError(said))


async def test_a_replay_window_leaves_a_redis_that_became_a_replica(make_redis: Callable[[], RedisServer]) -> None:
    first, second = make_redis(), make_redis()
    for server in (first, second):
        server.stop()
        rules = server.folder / "users.acl"
        rules.write_text(rules.read_text() + "user admin on nopass ~* &* +@all\n")
        config = server.folder / "redis.conf"
        config.write_text(config.read_text() + "masteruser admin\nmasterauth none\n")
        server.start()
    async with AsyncExitStack() as stack:
        admins = []
        for server in (first, second):
            admins.append(Redis(port=server.port, username="admin", password="none", protocol=2))
            stack.push_async_callback(admins[-1].aclose)
        await admins[1].replicaof("127.0.0.1", first.port)
        address = await stack.enter_async_context(Address(first.port))
        seen = RedisSeen(first.url_of(REDIS_USER).replace(f":{first.port}/", f":{address.port}/"), "switched")
        await seen.open()
        stack.push_async_callback(seen.close)
        assert await seen.add([(b"old", 600)]) == [True]
        assert await admins[0].wait(1, 20_000) == 1
        await admins[1].replicaof("NO", "ONE")
        await admins[0].replicaof("127.0.0.1", second.port)
        for _ in range(2):
            with pytest.raises(Unavailable, match="ReadOnlyError"):
                await seen.add([(b"new", 600)])
            assert seen.trouble
        address.target = second.port
        assert await seen.add([(b"old", 600), (b"new", 600)]) == [False, True], "what passed before passes never again"
        assert not seen.trouble
