"""The agent's store: one suite for memory and SQLite."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from client_agent.cached_store import RememberedStore
from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, Prefetch, SeriesDraw, State, Trouble
from client_agent.store import SqlAgentStore
from tacit.backoff import NEVER
from tacit.errors import Fatal, UsageError
from tacit.tokens.slots import Slot

SLOT = Slot("issuer.example", 7, 3)
HELD = Prefetch(SLOT, due_at=10.0, key_id=b"k" * 32, preimages=b"p" * 64, token=b"t" * 354)
ENTRY = Entry(
    b"h" * 32,
    "visits",
    State.SCHEDULED,
    5.0,
    charged_epsilon="0.5",
    slot=SLOT,
    send_at=20.0,
    deadline=90.0,
    url="http://127.0.0.1/x",
    report=b"report",
)


@pytest.fixture(params=["memory", "sqlite", "remembered"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentStore]:
    if request.param == "memory":
        yield MemoryAgentStore()
        return
    kept = await SqlAgentStore.open(tmp_path / "agent.sqlite3")
    opened = kept if request.param == "sqlite" else RememberedStore(kept)
    yield opened
    await opened.close()


async def test_a_fact_is_what_was_kept_last(store: AgentStore) -> None:
    assert await store.fact(Fact.LOG_STATE) == b""
    await store.keep({Fact.LOG_STATE: b"one", Fact.GATEWAY_KEYS: b"keys"})
    await store.keep({Fact.LOG_STATE: b"two"})
    assert await store.fact(Fact.LOG_STATE) == b"two"
    assert await store.fact(Fact.GATEWAY_KEYS) == b"keys"


def test_a_trouble_survives_the_store_and_nothing_is_no_trouble() -> None:
    trouble = Trouble(3.5, "log-rollback: the log shows 3 entries, but it had 5 before")
    assert Trouble.decode(trouble.encode()) == trouble
    assert Trouble.decode(b"") is None


async def test_a_slot_has_one_row_that_is_replaced(store: AgentStore) -> None:
    await store.put_prefetch(Prefetch(SLOT, due_at=NEVER))
    await store.put_prefetch(HELD)
    assert await store.prefetches() == [HELD]


async def test_old_epochs_are_forgotten_and_of_spent_tokens_everything_but_that(store: AgentStore) -> None:
    spent, held = Slot("issuer.example", 8, 0), Slot("issuer.example", 8, 1)
    for slot in (SLOT, spent, held):
        await store.put_prefetch(replace(HELD, slot=slot))
    await store.decide(ENTRY, spend=spent)
    await store.forget(8)
    rows = {row.slot: row for row in await store.prefetches()}
    assert rows == {held: replace(HELD, slot=held), spent: replace(HELD, slot=spent).emptied()}
    assert rows[spent].spent
    assert rows[spent].settled
    assert not rows[spent].usable


async def test_a_recipe_is_decided_once_and_its_token_spent_with_it(store: AgentStore) -> None:
    await store.put_prefetch(HELD)
    assert await store.decide(ENTRY, spend=SLOT)
    assert not await store.decide(replace(ENTRY, state=State.REFUSED))
    assert await store.entries() == [ENTRY]
    assert [prefetch.spent for prefetch in await store.prefetches()] == [True]


async def test_a_series_is_drawn_for_once_and_together_with_its_first_entry(store: AgentStore) -> None:
    draw = SeriesDraw(b"s" * 32, "training", 5.0, 1, 2)
    first = replace(ENTRY, series_hash=draw.series_hash, series_index=1)
    assert await store.draw(draw.series_hash) is None
    with pytest.raises(Fatal):
        await store.decide(first, SLOT, draw)
    assert await store.draw(draw.series_hash) is None, "without its token the entry is not written, nor the draw"
    await store.put_prefetch(HELD)
    assert await store.decide(first, SLOT, draw)
    assert await store.draw(draw.series_hash) == draw
    assert await store.entries() == [first]
    second = replace(first, recipe_hash=b"j" * 32, series_index=2)
    with pytest.raises(Fatal, match="drawn for once"):
        await store.decide(second, None, replace(draw, chosen_round=None))
    assert await store.draw(draw.series_hash) == draw
    other = replace(draw, series_hash=b"o" * 32, chosen_round=None)
    assert await store.decide(second, None, other)
    assert await store.draw(other.series_hash) == other


@pytest.mark.parametrize("state", [State.SCHEDULED, State.NOT_SAMPLED])
async def test_a_round_is_answered_under_the_draw_of_its_series_alone(store: AgentStore, state: State) -> None:
    draw = SeriesDraw(b"s" * 32, "training", 5.0, 0)
    later = replace(ENTRY, state=state, charged_epsilon="", series_hash=draw.series_hash, series_index=1)
    with pytest.raises(Fatal, match="the charge of its series only"):
        await store.decide(later)
    assert await store.entries() == []
    refused = replace(later, recipe_hash=b"r" * 32, state=State.REFUSED)
    assert await store.decide(refused)
    first = replace(ENTRY, recipe_hash=b"f" * 32, series_hash=draw.series_hash, series_index=0)
    assert await store.decide(first, draw=draw)
    assert await store.decide(later)


async def test_a_token_is_never_spent_twice_and_nothing_is_written_then(store: AgentStore) -> None:
    await store.put_prefetch(HELD)
    await store.decide(ENTRY, spend=SLOT)
    with pytest.raises(Fatal):
        await store.decide(replace(ENTRY, recipe_hash=b"i" * 32), spend=SLOT)
    with pytest.raises(Fatal):
        await store.decide(replace(ENTRY, recipe_hash=b"j" * 32), spend=Slot("issuer.example", 7, 4))
    assert [entry.recipe_hash for entry in await store.entries()] == [ENTRY.recipe_hash]


async def test_the_journal_moves_only_along_its_table(store: AgentStore) -> None:
    await store.decide(ENTRY)
    await store.update(replace(ENTRY, attempts=1))
    sent = replace(ENTRY, state=State.SENT, report=b"", attempts=2)
    await store.update(sent)
    assert await store.entries() == [sent]
    with pytest.raises(Fatal):
        await store.update(replace(sent, state=State.SCHEDULED))
    with pytest.raises(Fatal):
        await store.update(replace(sent, recipe_hash=b"k" * 32))


async def test_the_file_is_private_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "agent.sqlite3"
    store = await SqlAgentStore.open(path)
    await store.put_prefetch(HELD)
    await store.decide(ENTRY, spend=SLOT)
    await store.close()
    assert stat.S_IMODE((tmp_path / "agent.sqlite3").stat().st_mode) == 0o600
    again = await SqlAgentStore.open(path)
    assert await again.entries() == [ENTRY]
    assert await again.prefetches() == [replace(HELD, spent=True)]
    await again.close()


def contents_of(path: Path) -> dict[str, list[object]]:
    """The rows of every table, with their numbers."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT rowid, * FROM {name}").fetchall() for name in tables}  # noqa: S608


async def test_a_file_holds_what_is_the_case_and_not_how_often_it_was_written(tmp_path: Path) -> None:
    files = [tmp_path / "1.sqlite3", tmp_path / "5.sqlite3"]
    for path, writes in zip(files, (1, 5), strict=True):
        store = await SqlAgentStore.open(path)
        for attempts in range(writes, 0, -1):
            await store.put_prefetch(replace(HELD, attempts=attempts), replace(HELD, slot=Slot("issuer.example", 8, 0)))
            await store.keep({Fact.LOG_STATE: b"state", Fact.GATEWAY_KEYS: b"SECRET" * attempts})
        await store.close()
        assert path.read_bytes().count(b"SECRET") == 1, "what was replaced is overwritten"
    assert contents_of(files[0]) == contents_of(files[1])
    assert sorted(os.listdir(tmp_path)) == [path.name for path in files], "no log is left beside them"


async def test_a_file_of_another_version_or_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.sqlite3"
    await (await SqlAgentStore.open(path)).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(UsageError, match=r"newer version of Tacit .*9999.*; start that version"):
            await SqlAgentStore.open(path)
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
        with pytest.raises(UsageError, match=r"older version of Tacit .*0001.*; start one in between first"):
            await SqlAgentStore.open(path)
        for change in ("UPDATE alembic_version SET version_num = 'draft'", "DELETE FROM alembic_version"):
            connection.execute(change)
            with pytest.raises(Fatal, match="not a device's journal"):
                await SqlAgentStore.open(path)
        connection.execute("DROP TABLE alembic_version")
        before = connection.execute("SELECT * FROM sqlite_master").fetchall()
        with pytest.raises(Fatal, match="not a device's journal"):
            await SqlAgentStore.open(path)
        assert connection.execute("SELECT * FROM sqlite_master").fetchall() == before
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Fatal, match="cannot be opened: DatabaseError"):
        await SqlAgentStore.open(path)


async def test_a_journal_of_before_analysts_were_recorded_is_brought_up_and_keeps_its_entries(tmp_path: Path) -> None:
    path = tmp_path / "agent.sqlite3"
    store = await SqlAgentStore.open(path)
    entry = Entry(b"h" * 32, "first", State.NOT_SAMPLED, 1.0, charged_epsilon="1", charged_delta="0")
    await store.decide(entry)
    await store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ALTER TABLE entries DROP COLUMN analyst")
        connection.execute("UPDATE alembic_version SET version_num = '0006'")
    for _ in range(2):
        store = await SqlAgentStore.open(path)
        assert await store.entries() == [entry]
        await store.close()
