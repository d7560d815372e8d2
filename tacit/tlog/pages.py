"""What a log answers to readers, in pieces that are the same for everybody: a head, pages, and hashes.

The **head** is the newest checkpoint with the SHA-256 digests of the pages that hold the live entries. A **page** is
content under its digest and never changes. The **hashes** of (size, block) are what a reader whose last tree ends in
that block of 256 leaves needs to compute its consistency proof itself. So no request names the tree that a reader saw
last, and every reader of one tree makes the same requests. Each piece fits the largest size class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Self

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import canonical_bytes, parse_json, validated
from tacit.tlog.checkpoint import MAX_NOTE_SIZE
from tacit.tlog.leaves import Blob, Body, Count, Hash
from tacit.tlog.log import reads_of
from tacit.tlog.merkle import HASH_SIZE, NodeReader, node_hash, prove_consistency
from tacit.tlog.tiles import MAX_ENTRY_SIZE

PAGE_SIZE = 240 << 10
"""Most bytes of a page: with its encapsulation it fits the size class of 256 KiB."""
MAX_PROOF = 64
"""Most hashes of an audit path."""
MAX_PAGES = 96
PAGES_KEPT = 4
"""How many of the pages that were read last a process keeps decoded."""
BLOCK = 256
"""Leaves in a block. A reader that was away for longer than the last one or two blocks names the one in which it
stopped."""
_PAGE_OVERHEAD = 16
_ENTRY_OVERHEAD = 64
_HASH_TEXT = 46
PROOF_RESERVE = 26
"""Number of hashes for which a page reserves room with each entry: enough for a log of 2^26 entries."""


def entry_bytes(leaf_size: int) -> int:
    """Most bytes that an entry with a leaf of ``leaf_size`` bytes takes in a page."""
    return (leaf_size + 2) // 3 * 4 + PROOF_RESERVE * _HASH_TEXT + _ENTRY_OVERHEAD


CAPACITY = MAX_PAGES * (PAGE_SIZE - _PAGE_OVERHEAD - entry_bytes(MAX_ENTRY_SIZE))
"""Largest sum of ``entry_bytes`` over all live entries: however they are distributed, they fill no more than
``MAX_PAGES``."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One entry with its audit path in the bundle's tree."""

    index: int
    leaf: bytes
    inclusion: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The signed checkpoint, and the digests of the pages in the order of the log."""

    checkpoint: bytes
    pages: tuple[bytes, ...]

    def encode(self) -> bytes:
        """The page as the JSON that is served."""
        return canonical_bytes(
            {"checkpoint": self.checkpoint.decode(), "pages": [b64url(digest) for digest in self.pages]}
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validated(HeadBody, _parsed(data, "head"), "head")
        return cls(_note(wire.checkpoint), tuple(unb64url(digest) for digest in wire.pages))


class HeadBody(Body):
    """A head as JSON: the note's text, and the digests of the pages."""

    checkpoint: Annotated[str, Field(max_length=MAX_NOTE_SIZE)]
    pages: Annotated[list[Hash], Field(max_length=MAX_PAGES)]


class EntryBody(Body):
    """An entry as JSON: its number in the log, its bytes, and its audit path from the leaf upwards."""

    index: Count
    leaf: Blob
    inclusion: Annotated[list[Hash], Field(max_length=MAX_PROOF)]


class PageBody(Body):
    """A page of log entries as JSON."""

    entries: Annotated[list[EntryBody], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class KeySets:
    """The gateways' live key sets with their proofs under one checkpoint: a relay serves them to devices that do not
    have a key yet with which to query the log (P3)."""

    checkpoint: bytes
    entries: tuple[BundleEntry, ...]

    def encode(self) -> bytes:
        """The page as the JSON that is served."""
        entries = b",".join(map(_encoded, self.entries))
        return b'{"checkpoint":%s,"entries":[%s]}' % (canonical_bytes(self.checkpoint.decode()), entries)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validated(KeySetsBody, _parsed(data, "key sets"), "key sets")
        return cls(_note(wire.checkpoint), tuple(map(_entry, wire.entries)))


class KeySetsBody(Body):
    """The gateways' key sets as JSON."""

    checkpoint: Annotated[str, Field(max_length=MAX_NOTE_SIZE)]
    entries: list[EntryBody]


def _note(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DecodeError("checkpoint is not Unicode text") from error


def _entry(wire: EntryBody) -> BundleEntry:
    return BundleEntry(wire.index, unb64url(wire.leaf), tuple(unb64url(item) for item in wire.inclusion))


def _encoded(entry: BundleEntry) -> bytes:
    inclusion = [b64url(item) for item in entry.inclusion]
    return canonical_bytes({"index": entry.index, "leaf": b64url(entry.leaf), "inclusion": inclusion})


def encode_pages(entries: Iterable[BundleEntry]) -> list[bytes]:
    """Distribute the entries, in the order of the log, over as few pages as they fill one after another."""
    pages: list[bytes] = []
    held: list[bytes] = []
    size = _PAGE_OVERHEAD
    for encoded in map(_encoded, entries):
        if held and size + len(encoded) + 1 > PAGE_SIZE:
            pages.append(_page(held))
            held, size = [], _PAGE_OVERHEAD
        held.append(encoded)
        size += len(encoded) + 1
    return [*pages, _page(held)] if held else pages


def _page(entries: Sequence[bytes]) -> bytes:
    return b'{"entries":[' + b",".join(entries) + b"]}"


@lru_cache(maxsize=PAGES_KEPT)
def decode_page(data: bytes) -> tuple[BundleEntry, ...]:
    """The entries of a page; cached, since all readers of one tree in a process read the same pages. Raises
    DecodeError."""
    wire = validated(PageBody, _parsed(data, "page"), "page")
    return tuple(map(_entry, wire.entries))


def _parsed(data: bytes, what: str) -> object:
    if len(data) > PAGE_SIZE:
        raise DecodeError(f"{what}: {len(data)} bytes, at most {PAGE_SIZE} are read")
    return parse_json(data, what)


def block_of(known: int, size: int) -> int:
    """The block whose hashes a reader of ``known`` entries needs for a tree of ``size``: the last but one, which all
    readers request, or, for a reader that stopped before it, its own."""
    return min(known // BLOCK, max(0, (size - 1) // BLOCK - 1))


@dataclass(frozen=True, slots=True)
class Hashes:
    """Hashes of the tree of ``size`` leaves: those of the leaves from ``start`` on, for two blocks or to the end, and
    those of further perfect subtrees that a proof from any size in that range needs."""

    size: int
    start: int
    leaves: tuple[bytes, ...]
    nodes: tuple[tuple[int, int, bytes], ...]

    @classmethod
    def wanted(cls, size: int, block: int) -> tuple[int, int, set[tuple[int, int]]]:
        """(start, end, further nodes) of the hashes of ``block``. ``ValueError`` where the tree has no such block."""
        start, end = block * BLOCK, min((block + 2) * BLOCK, size)
        if not 0 <= start < size:
            raise ValueError(f"a tree of {size} has no block {block}")

        def prove(read: NodeReader) -> None:
            for known in range(max(1, start), end + 1):
                prove_consistency(read, known, size)

        def inside(level: int, index: int) -> bool:
            return start <= index << level and (index + 1) << level <= end

        return start, end, {node for node in reads_of(prove) if not inside(*node)}

    @classmethod
    def read(cls, read: NodeReader, size: int, block: int) -> Self:
        """The hashes of ``block``. Raises ``ValueError``."""
        start, end, further = cls.wanted(size, block)
        leaves = tuple(read(0, index) for index in range(start, end))
        return cls(size, start, leaves, tuple((level, index, read(level, index)) for level, index in sorted(further)))

    def encode(self) -> bytes:
        """The page as the JSON that is served."""
        return canonical_bytes(
            {
                "size": self.size,
                "start": self.start,
                "leaves": b64url(b"".join(self.leaves)),
                "nodes": [[level, index, b64url(item)] for level, index, item in self.nodes],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validated(HashesBody, _parsed(data, "hashes"), "hashes")
        leaves = unb64url(wire.leaves)
        if len(leaves) % HASH_SIZE or len(leaves) > 2 * BLOCK * HASH_SIZE:
            raise DecodeError("hashes: not at most two blocks of hashes")
        parts = tuple(leaves[at : at + HASH_SIZE] for at in range(0, len(leaves), HASH_SIZE))
        nodes = tuple((level, index, unb64url(item)) for level, index, item in wire.nodes)
        return cls(wire.size, wire.start, parts, nodes)

    def prove(self, known: int) -> tuple[bytes, ...]:
        """Compute the proof that this tree extends the one of ``known`` entries. Raises DecodeError where a hash for it
        is missing here; the reader must verify the proof itself."""
        further = {(level, index): item for level, index, item in self.nodes}

        def read(level: int, index: int) -> bytes:
            if (level, index) in further:
                return further[level, index]
            if level:
                return node_hash(read(level - 1, 2 * index), read(level - 1, 2 * index + 1))
            if not 0 <= index - self.start < len(self.leaves):
                raise DecodeError("hashes: a hash that the proof needs is missing")
            return self.leaves[index - self.start]

        wanted = reads_of(lambda note: prove_consistency(note, known, self.size))
        if any(level > BLOCK.bit_length() and (level, index) not in further for level, index in wanted):
            raise DecodeError("hashes: a hash that the proof needs is missing")
        return tuple(prove_consistency(read, known, self.size))


class HashesBody(Body):
    """Hashes as JSON: the leaf hashes from ``start`` on, one after another, and further nodes, each level, index and
    hash."""

    size: Count
    start: Count
    leaves: Annotated[str, Field(max_length=2 * BLOCK * _HASH_TEXT)]
    nodes: Annotated[
        list[Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_PROOF)], Count, Hash], Field(strict=False)]],
        Field(max_length=1024),
    ]
