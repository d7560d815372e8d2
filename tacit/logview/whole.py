"""Reading a whole log: every entry, hashed again, under a signed checkpoint that extends the one seen before.

``WholeLog`` is what a monitor and the admin service read with. ``WholeState`` is what they keep between two readings:
the tree that they saw last, and when they saw trees of which size. A leaf has no time of its own. But a log that was
seen without it at some time must have added it later. This is how late leaves are detected, without trusting any clock
but the reader's. Witnesses read entries with ``read_entries`` and verify them themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, NoReturn, Self

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.logview.log_source import Get, log_at
from tacit.ports import Transport, TransportError
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.checkpoint import Checkpoint, LogPolicy, NoteKey
from tacit.tlog.fields import Body, Count, Hash
from tacit.tlog.leaves import MAX_ENTRY_SIZE
from tacit.tlog.log import MemoryTree, Tree
from tacit.tlog.merkle import EMPTY_ROOT
from tacit.tlog.tiles import TILE_WIDTH, Tile, decode_bundle

Tick = Callable[[int], None]
"""Called with the number of further pieces that are done."""


def nothing(_pieces: int) -> None:
    """A ``Tick`` that does nothing."""


MAX_BUNDLE = TILE_WIDTH * (2 + MAX_ENTRY_SIZE)
"""Bytes of the longest entry bundle: a little more than the 16 MiB limit of most transports."""
MAX_SIGHTINGS = 10_000


async def read_entries(get: Get, start: int, end: int) -> AsyncIterator[list[bytes]]:
    """Yield the log's entries ``[start, end)``, in order, one tile at a time; nothing is verified.

    Raises ``TransportError`` where the log does not deliver them, ``DecodeError`` where a bundle is malformed.
    """
    for index in range(start // TILE_WIDTH, -(-end // TILE_WIDTH) if start < end else 0):
        first = index * TILE_WIDTH
        width = min(TILE_WIDTH, end - first)
        content = await get(f"/{Tile(None, index, width).path()}")
        if content is None and width < TILE_WIDTH:  # a log may drop a partial tile once it is full
            content = await get(f"/{Tile(None, index).path()}")
        if content is None:
            raise _missing()
        entries = decode_bundle(content)
        if len(entries) < width:
            raise DecodeError(f"an entry bundle of the log holds {len(entries)} entries, not {width}")
        yield entries[max(0, start - first) : width]


def _missing() -> TransportError:
    return TransportError("the log answered with status 404")


_Sighting = Annotated[list[Count], Field(min_length=2, max_length=2)]


class _Wire(Body):
    origin: str
    size: Count
    root: Hash
    sightings: Annotated[list[_Sighting], Field(max_length=MAX_SIGHTINGS)]
    evidence: str


@dataclass(frozen=True, slots=True)
class WholeState:
    """``sightings``: (size, POSIX second in which the log was last seen with so many entries), both increasing.
    ``evidence``: a checkpoint that contradicts this tree, kept for ever."""

    origin: str
    size: int = 0
    root: bytes = EMPTY_ROOT
    sightings: tuple[tuple[int, int], ...] = ()
    evidence: bytes = b""

    def seen(self, size: int, root: bytes, at: int) -> WholeState:
        """The state after the log was seen at ``at`` with a tree that extends this one."""
        before = self.sightings[:-1] if self.sightings and self.sightings[-1][0] == size else self.sightings
        kept = (*before, (size, max(at, before[-1][1] if before else at)))[-MAX_SIGHTINGS:]
        return replace(self, size=size, root=root, sightings=kept)

    def shown_after(self, index: int) -> int | None:
        """A time (POSIX seconds) at which the log did not show leaf ``index`` yet; None: none is known."""
        position = bisect_right(self.sightings, index, key=lambda sighting: sighting[0])
        return self.sightings[position - 1][1] if position else None

    def encode(self) -> bytes:
        """Encode the state as canonical JSON, to be kept in a file."""
        return canonical_bytes(
            {
                "origin": self.origin,
                "size": self.size,
                "root": b64url(self.root),
                "sightings": [list(sighting) for sighting in self.sightings],
                "evidence": b64url(self.evidence),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validate(_Wire, parse_canonical(data, "monitor state"), "monitor state")
        sightings = tuple((size, at) for size, at in wire.sightings)
        return cls(wire.origin, wire.size, unb64url(wire.root), sightings, unb64url(wire.evidence))


class WholeLog:
    """One log as far as it was read. ``tree`` holds every entry; ``state`` is what to keep for the next reading."""

    def __init__(
        self,
        transport: Transport,
        url: str,
        key: NoteKey,
        state: WholeState | None = None,
        tree: Tree | None = None,
    ) -> None:
        """``tree``: holds what is read (default: in memory). Raises ``Refusal`` (``log-checkpoint``) for the state of
        another log."""
        self._get = log_at(transport, url)
        self._policy = LogPolicy(key)
        self.state = state or WholeState(key.name)
        if self.state.origin != key.name:
            raise Refusal(
                "log-checkpoint", f"the kept state belongs to {self.state.origin}, but this log is {key.name}"
            )
        self.tree: Tree = MemoryTree() if tree is None else tree
        self.note = b""

    async def checkpoint(self) -> Checkpoint:
        """Fetch the log's current checkpoint. Raises ``Refusal`` (``log-checkpoint``, ``log-rollback``) or
        ``TransportError``."""
        note = await self.fetch("/checkpoint")
        try:
            found = self._policy.open(note)
        except (CryptoError, DecodeError) as error:
            raise Refusal("log-checkpoint", str(error)) from error
        self.note = note
        if found.size < self.state.size:
            raise Refusal("log-rollback", f"the log shows {found.size} entries, but it had {self.state.size} before")
        return found

    async def read(self, checkpoint: Checkpoint, at: float, tick: Tick = nothing) -> None:
        """Read up to ``checkpoint``, which was fetched after ``at`` (POSIX seconds). Raises ``Refusal``
        (``log-inclusion``; ``log-split-view``, of which ``state`` then keeps the checkpoint as evidence),
        ``DecodeError`` or ``TransportError``."""
        if checkpoint.size == self.state.size and checkpoint.root != self.state.root:
            self._split(f"the log signed two different roots for {checkpoint.size} entries")
        anew = self.tree.size == 0
        await self._append(checkpoint.size, tick)
        if self.tree.root(checkpoint.size) != checkpoint.root and not anew:
            self.tree.clear()  # the entries read before may belong to another history than the new ones
            await self._append(checkpoint.size, nothing)
        if self.tree.root(checkpoint.size) != checkpoint.root:
            self.tree.clear()
            raise Refusal("log-inclusion", "the log's entries do not lead to the root that it signed")
        if self.tree.root(self.state.size) != self.state.root:
            self._split(f"the first {self.state.size} entries are not the ones seen before")
        self.state = self.state.seen(checkpoint.size, checkpoint.root, int(at))

    async def _append(self, size: int, tick: Tick) -> None:
        async for entries in read_entries(self._get, self.tree.size, size):
            for entry in entries:
                self.tree.append(entry)
            tick(len(entries))

    def _split(self, detail: str) -> NoReturn:
        """Forget the entries read, which belong to another history, and keep the first checkpoint that proves it."""
        self.tree.clear()
        self.state = replace(self.state, evidence=self.state.evidence or self.note)
        raise Refusal("log-split-view", detail)

    async def fetch(self, path: str) -> bytes:
        """What the log serves under ``path``. Raises ``TransportError`` where it does not."""
        content = await self._get(path)
        if content is None:
            raise _missing()
        return content
