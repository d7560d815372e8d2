"""A PostgreSQL database that several processes of one service have open at once: who writes beside whom, who leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa

from infra.backing.postgres import PostgresServer
from services.leader import schema
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.signals import LONGEST_TEXT, Signals, Wakeup
from tacit.adapters.databases.sql import open_database
from tacit.errors import Fatal, Unavailable, UsageError
from tests.contract.sessions import PATIENCE, kill_sessions, until_waiting

LEAVES = schema.COMMON.leaves
SECONDS = 30.0
"""Time limit for what takes a moment on a machine that has nothing else to do."""


async def opened(url: str, signals: Signals | None = None) -> Database:
    return await open_database(url, schema.METADATA, schema.MIGRATIONS, shared=True, signals=signals)


@pytest.fixture
def url(make_postgres_url: Callable[[], str]) -> str:
    return make_postgres_url()


@pytest.fixture
async def processes(url: str) -> AsyncIterator[list[Database]]:
    """Three processes' databases, opened at the same time."""
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(*(opened(url) for _ in range(3)))
        for one in found:
            stack.push_async_callback(one.close)
        yield list(found)


async def add(database: Database, position: int, *, shared: bool = False) -> None:
    async with database.transaction(shared=shared) as connection:
        await connection.execute(sa.insert(LEAVES).values(position=position, leaf=b"leaf"))


async def positions(database: Database) -> list[int]:
    async with database.read() as connection:
        return list((await connection.execute(sa.select(LEAVES.c.position).order_by(LEAVES.c.position))).scalars())


async def test_processes_that_start_at_once_migrate_one_after_another(processes: list[Database]) -> None:
    for number, database in enumerate(processes):
        await add(database, number)
    assert await positions(processes[0]) == [0, 1, 2]


async def test_every_process_has_a_shard_of_its_own_and_leaves_it(processes: list[Database], url: str) -> None:
    assert sorted(database.shard for database in processes) == [0, 1, 2]
    gone = next(database for database in processes if database.shard == 1)
    await gone.close()
    for _ in range(PATIENCE):
        another = await opened(url)
        await another.close()
        if another.shard == 1:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the shard was never free again")


async def test_shared_transactions_run_beside_each_other(processes: list[Database]) -> None:
    async with processes[0].transaction(shared=True) as connection:
        await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
        await add(processes[1], 2, shared=True)
        assert await positions(processes[2]) == [2]
    assert await positions(processes[2]) == [1, 2]


@pytest.mark.parametrize("first_is_shared", [False, True])
async def test_a_transaction_that_runs_alone_waits_for_shared_ones_and_they_for_it(
    processes: list[Database], url: str, *, first_is_shared: bool
) -> None:
    async with processes[0].transaction(shared=first_is_shared) as connection:
        second = asyncio.create_task(add(processes[1], 2, shared=not first_is_shared))
        await until_waiting(url)
        assert not second.done()
        await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
    await second
    assert await positions(processes[2]) == [1, 2]


async def test_who_wants_to_run_alone_is_not_overtaken_for_ever(processes: list[Database], url: str) -> None:
    async with processes[0].transaction(shared=True):
        alone = asyncio.create_task(add(processes[1], 1))
        await until_waiting(url)
        late = asyncio.create_task(add(processes[2], 2, shared=True))
        await until_waiting(url, 2)
        assert not late.done()
    await asyncio.gather(alone, late)
    assert await positions(processes[0]) == [1, 2]


async def test_processes_never_both_pass_a_check_then_write_alone(processes: list[Database]) -> None:
    async def increment(database: Database) -> None:
        async with database.transaction() as connection:
            last = (await connection.execute(sa.select(sa.func.max(LEAVES.c.position)))).scalar_one()
            await asyncio.sleep(0)
            await connection.execute(sa.insert(LEAVES).values(position=(last or 0) + 1, leaf=b""))

    await asyncio.gather(*(increment(processes[number % 3]) for number in range(18)))
    assert await positions(processes[0]) == list(range(1, 19))


async def test_one_process_leads_until_it_ends_and_then_another(processes: list[Database]) -> None:
    assert [await database.leads() for database in processes] == [True, False, False]
    assert [await database.leads() for database in processes] == [True, False, False]
    await processes[0].close()
    for _ in range(PATIENCE):
        if await processes[2].leads():
            break
        await asyncio.sleep(0.01)
    assert [await database.leads() for database in processes[1:]] == [False, True]


async def test_whoever_loses_its_sessions_may_lose_the_lead_but_two_never_have_it(
    processes: list[Database], url: str
) -> None:
    assert await processes[0].leads()
    await kill_sessions(url)
    assert await processes[1].leads()
    assert not await processes[0].leads()
    assert len({database.shard for database in processes[:2]}) == 2
    await add(processes[0], 1, shared=True)
    assert await positions(processes[1]) == [1]


@pytest.mark.parametrize("shared", [False, True])
async def test_transaction_whose_connection_breaks_fails_typed_and_leaves_nothing(
    processes: list[Database], url: str, *, shared: bool
) -> None:
    async def broken() -> None:
        async with processes[0].transaction(shared=shared) as connection:
            await connection.execute(sa.insert(LEAVES).values(position=1, leaf=b""))
            await kill_sessions(url)
            await connection.execute(sa.insert(LEAVES).values(position=2, leaf=b""))

    with pytest.raises(Fatal, match="database"):
        await broken()
    await add(processes[0], 3, shared=shared)
    assert await positions(processes[1]) == [3]


async def test_two_transactions_that_wait_for_each_other_end_typed_and_one_of_them_commits(
    processes: list[Database],
) -> None:
    both_began = asyncio.Barrier(2)

    async def write(database: Database, first: int, second: int) -> None:
        async with database.transaction(shared=True) as connection:
            await connection.execute(sa.insert(LEAVES).values(position=first, leaf=b""))
            await both_began.wait()
            await connection.execute(sa.insert(LEAVES).values(position=second, leaf=b""))

    ends = await asyncio.gather(write(processes[0], 1, 2), write(processes[1], 2, 1), return_exceptions=True)
    assert [type(end) for end in ends if end is not None] == [Unavailable]
    assert await positions(processes[2]) == [1, 2]


async def test_restarted_server_is_found_again(processes: list[Database], postgres: PostgresServer) -> None:
    await add(processes[0], 1)
    assert await processes[0].leads()
    await asyncio.to_thread(postgres.crash)
    try:
        with pytest.raises(Fatal, match="database"):
            await add(processes[0], 2)
        with pytest.raises(Fatal, match="database"):
            await processes[1].leads()
    finally:
        await asyncio.to_thread(postgres.start)
    await add(processes[1], 3, shared=True)
    assert await processes[1].leads()
    assert not await processes[0].leads()
    assert await positions(processes[2]) == [1, 3]


async def test_opening_says_on_one_line_what_is_wrong(url: str) -> None:
    for broken in (url + "_absent", "postgresql+asyncpg://a:secret@127.0.0.1:1/x"):
        with pytest.raises(UsageError) as refused:
            await opened(broken)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)


class Listener:
    """One process that hears the signals of "news"."""

    def __init__(self) -> None:
        self.signals = Signals()
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.signals.on("news", self.heard.put_nowait)

    async def next(self) -> str:
        async with asyncio.timeout(SECONDS):
            return await self.heard.get()


@pytest.fixture
async def listeners(url: str) -> AsyncIterator[list[tuple[Database, Listener]]]:
    """Two processes that listen."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            listener = Listener()
            database = await opened(url, listener.signals)
            stack.push_async_callback(database.close)
            found.append((database, listener))
        yield found


async def test_signal_reaches_the_other_processes_and_not_its_sender(
    listeners: list[tuple[Database, Listener]],
) -> None:
    (_, first), (_, second) = listeners
    longest = "'; -- \u00e4" + "x" * (LONGEST_TEXT - 8)
    for text in ("", "one two", longest):
        first.signals.send("news", text)
        assert await second.next() == text
    second.signals.send("news", "back")
    assert await first.next() == "back"
    second.signals.send("other", "to nobody")
    second.signals.send("news", "last")
    assert await first.next() == "last"
    assert first.heard.empty()
    assert second.heard.empty()
    with pytest.raises(ValueError, match="at most"):
        first.signals.send("news", "x" * (LONGEST_TEXT + 1))


async def test_bell_rings_in_every_process(listeners: list[tuple[Database, Listener]]) -> None:
    (_, first), (_, second) = listeners
    notified = [asyncio.Event(), asyncio.Event()]
    wakeups = [Wakeup(listener.signals, "work") for listener in (first, second)]
    for wakeup, event in zip(wakeups, notified, strict=True):
        wakeup.handler = event.set
    wakeups[0].notify()
    assert notified[0].is_set()
    async with asyncio.timeout(SECONDS):
        await notified[1].wait()


async def test_process_whose_connection_broke_looks_since_it_may_have_missed_something(
    listeners: list[tuple[Database, Listener]], url: str
) -> None:
    (_, first), (database, second) = listeners
    await kill_sessions(url)
    await database.leads()
    assert await second.next() == ""
    first.signals.send("news", "its sender lost its connection too")
    assert await second.next() == "its sender lost its connection too"
