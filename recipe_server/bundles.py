"""The answers to readers of the log: the head, the pages that it names, and hashes. They are the same for every reader.

Pages are built once per tree, and again when entries become live or cease to be live. They are kept for a few more
trees, so that a reader finds the pages of the head that it has. A large set is shown for a while even if the log grows
meanwhile: readers then see a slightly older tree.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from recipe_server.live import live_entries, live_key_sets
from recipe_server.store import RecipeStore, RecipeTx
from tacit.ports import Clock
from tacit.recipe.policy import Policy
from tacit.tlog.hashes import Hashes
from tacit.tlog.key_sets import KeySets
from tacit.tlog.merkle import NodeReader
from tacit.tlog.pages import Head, encode_pages

SETS_KEPT = 4
"""Number of page sets that are kept, including the newest."""
HASHES_KEPT = 64
SMALL = 512
REST_SECONDS = 0.005
"""Seconds for which a set is shown at least, for each entry beyond ``SMALL``: some ten times the time to build it."""

Shown = Callable[[RecipeTx], Awaitable[tuple[int, bytes]]]
"""Returns (size, note) of the checkpoint that readers are to see."""


@dataclass(slots=True)
class _PageSet:
    """The pages of the tree of ``size``, valid from ``since`` until ``until`` and shown at least until ``rests`` (POSIX
    seconds)."""

    size: int
    note: bytes
    since: float
    until: float
    rests: float
    pages: dict[bytes, bytes] = field(repr=False)

    def holds(self, size: int, now: float) -> bool:
        """Whether this set still answers for a tree of ``size`` at ``now``."""
        if not self.since <= now:
            return False
        return now < self.rests or (self.size == size and now < self.until)


class Answers:
    """The answers to readers, from one store. Sets of pages are made when a head is asked for, one at a time, and the
    last ``SETS_KEPT`` of them are kept."""

    def __init__(self, store: RecipeStore, shown: Shown, clock: Clock, ended: int, policy: Policy) -> None:
        """``ended``: seconds for which an ended recipe stays live; ``policy``: the operator's."""
        self._store = store
        self._shown = shown
        self._clock = clock
        self._ended_seconds = ended
        self._policy = policy
        self._sets: list[_PageSet] = []
        self._hashes: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._making = asyncio.Lock()

    async def head(self) -> bytes:
        """Return the encoded ``Head`` of the log."""
        async with self._making:
            async with self._store.read() as tx:
                size, note = await self._shown(tx)
            now = self._clock.now()
            if not self._sets or not self._sets[-1].holds(size, now):
                self._sets = [*self._sets, await self._make()][-SETS_KEPT:]
            newest = self._sets[-1]
            if newest.size == size:
                newest.note = note
            return Head(newest.note, tuple(newest.pages)).encode()

    async def _make(self) -> _PageSet:
        now = self._clock.now()
        async with self._store.read() as tx:
            size, note = await self._shown(tx)
            live = await live_entries(tx, size, now, self._ended_seconds, self._policy)
        pages = await asyncio.to_thread(encode_pages, live.entries)
        rests = now + REST_SECONDS * max(0, len(live.entries) - SMALL)
        digests = {hashlib.sha256(page).digest(): page for page in pages}
        return _PageSet(size, note, live.since, live.until, rests, digests)

    def page(self, digest: bytes) -> bytes | None:
        """The encoded page with this SHA-256; None if it never was in a set, or in none of the last ``SETS_KEPT``."""
        return next((kept.pages[digest] for kept in reversed(self._sets) if digest in kept.pages), None)

    async def key_sets(self) -> bytes:
        """Return the encoded ``KeySets`` of the gateways."""
        async with self._store.read() as tx:
            size, note = await self._shown(tx)
            return KeySets(note, await live_key_sets(tx, size, self._clock.now())).encode()

    async def hashes(self, size: int, block: int) -> bytes | None:
        """The encoded ``Hashes`` of a tree that the log has had; None if it never had that tree or that block."""
        if (size, block) in self._hashes:
            return self._hashes[size, block]
        async with self._store.read() as tx:
            stored = await tx.checkpoint()
            if stored is None or not 0 < size <= stored[0]:
                return None
            try:
                start, end, further = await asyncio.to_thread(Hashes.wanted, size, block)
            except ValueError:
                return None

            def read_all(read: NodeReader) -> Hashes:
                leaves = tuple(read(0, index) for index in range(start, end))
                nodes = tuple((level, index, read(level, index)) for level, index in sorted(further))
                return Hashes(size, start, leaves, nodes)

            encoded = (await tx.with_nodes(read_all)).encode()
        self._hashes[size, block] = encoded
        if len(self._hashes) > HASHES_KEPT:
            self._hashes.popitem(last=False)
        return encoded
