"""A log's request to a witness (C2SP tlog-witness, ``add-checkpoint``), and the right edge of a tree.

The request is ``old SIZE``, the hashes of a consistency proof, one per line, a blank line, and the checkpoint as a
signed note. ``Frontier`` is what a reader of all entries keeps of them: enough to continue, and to compute the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tacit.errors import DecodeError
from tacit.tlog.checkpoint import MAX_SIZE, base64_text, unbase64
from tacit.tlog.entries import MAX_NOTE_SIZE
from tacit.tlog.merkle import EMPTY_ROOT, HASH_SIZE, leaf_hash, node_hash

MAX_PROOF_LINES = 63
MAX_ADD_CHECKPOINT = MAX_NOTE_SIZE + (MAX_PROOF_LINES + 1) * 64
"""Bytes of the longest request."""
SIZE_MEDIA_TYPE = "text/x.tlog.size"
"""Media type of the body of a 409: the size that the witness knows."""

_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A checkpoint (a note's bytes) to cosign, and the proof that it extends the tree of ``old`` entries."""

    old: int
    proof: tuple[bytes, ...]
    note: bytes

    def encode(self) -> bytes:
        """Encode the request's body: old size, proof and note."""
        lines = [f"old {self.old}", *(base64_text(item) for item in self.proof)]
        return ("\n".join(lines) + "\n\n").encode() + self.note

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Strict inverse of ``encode``. Raises DecodeError."""
        if len(data) > MAX_ADD_CHECKPOINT:
            raise DecodeError("the request is too large")
        head, blank, note = data.partition(b"\n\n")
        try:
            first, *lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise DecodeError("the request's head is not ASCII") from error
        match = _OLD.fullmatch(first)
        if not blank or match is None or int(match[1]) > MAX_SIZE:
            raise DecodeError("the request does not begin with the old size")
        if len(lines) > MAX_PROOF_LINES:
            raise DecodeError("the request's proof is too long")
        proof = tuple(unbase64(line, "proof") for line in lines)
        if any(len(item) != HASH_SIZE for item in proof):
            raise DecodeError("a line of the proof is not a SHA-256 hash")
        return cls(int(match[1]), proof, note)


class Frontier:
    """The perfect subtrees into which a tree of ``size`` entries is divided, largest first."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Raises DecodeError where the hashes do not fit the size."""
        self.size = size
        self._hashes = list(hashes)
        if len(self._hashes) != size.bit_count() or any(len(item) != HASH_SIZE for item in self._hashes):
            raise DecodeError("the hashes of a frontier do not fit its size")

    def append(self, entry: bytes) -> None:
        """Add an entry to the right edge of the tree."""
        current, position = leaf_hash(entry), self.size
        while position & 1:
            current = node_hash(self._hashes.pop(), current)
            position >>= 1
        self._hashes.append(current)
        self.size += 1

    def root(self) -> bytes:
        """The root hash (32 bytes) of all entries added so far."""
        if not self._hashes:
            return EMPTY_ROOT
        *rest, result = self._hashes
        for item in reversed(rest):
            result = node_hash(item, result)
        return result

    def encode(self) -> bytes:
        """The hashes, one after another; the size is stored separately."""
        return b"".join(self._hashes)

    @classmethod
    def decode(cls, size: int, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        return cls(size, [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)])
