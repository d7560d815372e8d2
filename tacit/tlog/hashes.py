"""The hashes by which a reader of the log computes itself that a tree extends the one that it knows.

The hashes of (size, block) are what a reader whose last tree ends in that block of 256 leaves needs. So no request
names the tree that a reader saw last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import canonical_bytes, validate
from tacit.tlog.entries import HASH_TEXT, MAX_PROOF, parsed_piece
from tacit.tlog.fields import Body, Count, Hash
from tacit.tlog.merkle import HASH_SIZE, NodeReader, node_hash, prove_consistency, reads_of

BLOCK = 256
"""Leaves in a block. A reader that was away for longer than the last one or two blocks names the one in which it
stopped."""


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
        """The hashes of ``block`` in a tree of ``size`` leaves. ``ValueError`` where the tree has no such block."""
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
        wire = validate(HashesBody, parsed_piece(data, "hashes"), "hashes")
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
    leaves: Annotated[str, Field(max_length=2 * BLOCK * HASH_TEXT)]
    nodes: Annotated[
        list[Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_PROOF)], Count, Hash], Field(strict=False)]],
        Field(max_length=1024),
    ]
