"""An agent's store that is read from memory says what is kept, whatever becomes of a write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from client_agent.cached_store import RememberedStore
from client_agent.journal import Entry, Fact, MemoryAgentStore, Prefetch, SeriesDraw, State
from client_agent.store import SqlAgentStore
from tacit.errors import Fatal, Unavailable
from tacit.tokens.slots import Slot

SLOTS = [Slot("issuer.example", epoch, slot) for epoch in (7, 8) for slot in (2, 0, 1)]


class SlowStore(SqlAgentStore):
    """Counts how often it is read, and may hold a write back or fail after it was durable."""

    reads = 0

    async def contents(self) -> MemoryAgentStore:
        self.reads += 1
        return await super().contents()

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        begun, go_on = self.gate
        begun.set()
        await go_on.wait()
        await super().keep(facts)
        if facts.get(Fact.LOG_STATE) == b"lost answer":
            raise Unavailable("the disk did not say")

    gate: tuple[asyncio.Event, asyncio.Event]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[SlowStore]:
    store = await SlowStore.open(tmp_path / "agent.sqlite3")
    assert isinstance(store, SlowStore)
    store.gate = (asyncio.Event(), asyncio.Event())
    store.gate[1].set()
    yield store
    await store.close()


async def same(store: RememberedStore, kept: SqlAgentStore) -> None:
    """Both answer every question alike."""
    assert await store.entries() == await kept.entries()
    assert await store.prefetches() == await kept.prefetches()
    assert [await store.fact(fact) for fact in Fact] == [await kept.fact(fact) for fact in Fact]
    for number in range(3):
        assert await store.draw(bytes([number])) == await kept.draw(bytes([number]))


async def test_after_every_change_memory_says_what_is_kept(kept: SlowStore) -> None:
    store = RememberedStore(kept)
    for slot in SLOTS:
        await store.put_prefetch(Prefetch(slot, 1.0, b"k", b"p", b"", b"t"))
        await same(store, kept)
    for number, (time, state) in enumerate([(5.0, State.SCHEDULED), (3.0, State.REFUSED), (5.0, State.NOT_SAMPLED)]):
        entry = Entry(bytes([number]) * 32, "visits", state, time, slot=SLOTS[number], report=b"r")
        draw = SeriesDraw(bytes([number]), "weekly", time, number)
        assert await store.decide(entry, SLOTS[number], draw)
        assert not await store.decide(entry)
        await same(store, kept)
    with pytest.raises(Fatal):
        await store.decide(Entry(b"9" * 32, "again", State.SCHEDULED, 9.0), SLOTS[0])
    (scheduled,) = [entry for entry in await store.entries() if entry.state is State.SCHEDULED]
    await store.update(Entry(scheduled.recipe_hash, "visits", State.SENT, 5.0))
    with pytest.raises(Fatal):
        await store.update(Entry(scheduled.recipe_hash, "visits", State.SCHEDULED, 5.0))
    await same(store, kept)
    await store.forget(8)
    assert {row.slot.epoch for row in await store.prefetches()} == {8}
    await same(store, kept)
    again = RememberedStore(kept)
    await same(again, kept)


async def test_it_is_read_once_and_forgetting_nothing_writes_nothing(kept: SlowStore) -> None:
    store = RememberedStore(kept)
    await store.put_prefetch(Prefetch(SLOTS[0], 1.0))
    for _ in range(5):
        await asyncio.gather(store.entries(), store.prefetches(), store.fact(Fact.LOG_STATE), store.draw(b"s"))
    assert kept.reads == 1
    kept.forget = None  # type: ignore[assignment,method-assign]
    await store.forget(7)


async def test_a_write_that_nobody_waits_for_any_more_is_done_and_remembered(kept: SlowStore) -> None:
    store, (begun, go_on) = RememberedStore(kept), kept.gate
    go_on.clear()
    writing = asyncio.ensure_future(store.keep({Fact.LOG_STATE: b"new"}))
    await begun.wait()
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    reading = asyncio.ensure_future(store.fact(Fact.LOG_STATE))
    await asyncio.sleep(0)
    assert not reading.done(), "it does not say the old value while the new one may be kept already"
    go_on.set()
    assert await reading == b"new" == await kept.fact(Fact.LOG_STATE)


async def test_after_a_write_that_failed_memory_is_read_anew(kept: SlowStore) -> None:
    store = RememberedStore(kept)
    await store.keep({Fact.LOG_STATE: b"old"})
    with pytest.raises(Unavailable):
        await store.keep({Fact.LOG_STATE: b"lost answer"})
    assert await store.fact(Fact.LOG_STATE) == b"lost answer", "it was durable all the same"
    assert kept.reads == 2
