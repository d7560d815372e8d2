"""A cache in front of an agent's store: a device reads its journal many times between two changes.

One process at a time has an agent's folder (``client_agent.runner``), so that nobody else changes what is kept. A write
goes to the kept store first, alone, and into memory when it is durable. Nobody who stops waiting stops a write: what
memory says is what is kept, or what was until a write that is still under way. After a write that failed, memory is
read anew, since a failed commit may have been one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Protocol, TypeVar

from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, Prefetch, SeriesDraw
from client_agent.store import SqlAgentStore
from tacit.tokens.slots import Slot

T = TypeVar("T")


class KeptStore(AgentStore, Protocol):
    """A store whose whole contents can be read at once."""

    async def contents(self) -> MemoryAgentStore:
        """The whole contents of the store at one moment, as a copy."""
        ...

    async def close(self) -> None:
        """Wait for the last write, and close the store."""
        ...


class RememberedStore:
    """``kept`` with its contents cached in memory; ``close`` closes it, once its writes have ended."""

    errors: ClassVar[tuple[type[Exception], ...]] = SqlAgentStore.errors

    def __init__(self, kept: KeptStore) -> None:
        self._kept = kept
        self._memory: MemoryAgentStore | None = None
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Wait for all writes, then close the store beneath."""
        while self._writes:
            await asyncio.wait(set(self._writes))
        await self._kept.close()

    async def fact(self, fact: Fact) -> bytes:
        """The value stored last under this name, or empty bytes."""
        return await (await self._read()).fact(fact)

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        """Replace these values in one transaction, in the store and then in memory."""
        await self._write(lambda store: store.keep(facts))

    async def prefetches(self) -> list[Prefetch]:
        """Every slot that this device knows of, by issuer, epoch and slot."""
        rows = await (await self._read()).prefetches()
        return sorted(rows, key=lambda row: (row.slot.issuer, row.slot.epoch, row.slot.slot))

    async def put_prefetch(self, *prefetches: Prefetch) -> None:
        """Insert or update the rows of these slots in one transaction."""
        await self._write(lambda store: store.put_prefetch(*prefetches))

    async def forget(self, before: int) -> None:
        """Delete the rows of epochs below ``before``, and empty those of spent tokens; nothing is written if there are
        none."""
        rows = await (await self._read()).prefetches()
        if any(row.slot.epoch < before or (row.spent and row != row.emptied()) for row in rows):
            await self._write(lambda store: store.forget(before))

    async def entries(self) -> list[Entry]:
        """The whole journal, oldest first."""
        return sorted(await (await self._read()).entries(), key=lambda entry: entry.decided_at)

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """Write a recipe's first entry, its draw and the mark on its token in one transaction; False if the recipe
        already has an entry. Raises ``Fatal`` as ``AgentStore.decide``."""
        return await self._write(lambda store: store.decide(entry, spend, draw))

    async def draw(self, series_hash: bytes) -> SeriesDraw | None:
        """The stored draw for a series; None if this device has not drawn for it."""
        return await (await self._read()).draw(series_hash)

    async def update(self, entry: Entry) -> None:
        """Move an entry along ``ENTRY_STATES``. Raises ``Fatal`` for any other move."""
        await self._write(lambda store: store.update(entry))

    async def _read(self) -> MemoryAgentStore:
        if self._memory is None:
            async with self._turn:
                return await self._recall()
        return self._memory

    async def _recall(self) -> MemoryAgentStore:
        if self._memory is None:
            self._memory = await self._kept.contents()
        return self._memory

    async def _write(self, change: Callable[[AgentStore], Awaitable[T]]) -> T:
        task = asyncio.ensure_future(self._written(change))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)

    async def _written(self, change: Callable[[AgentStore], Awaitable[T]]) -> T:
        async with self._turn:
            memory = await self._recall()
            self._memory = None
            outcome = await change(self._kept)
            await change(memory)
            self._memory = memory
            return outcome
