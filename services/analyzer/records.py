"""The record of a chunk of shuffled messages, and of what it held.

A tally is 8 bytes for each cell, for fillers and for malformed messages; or, where that is shorter, a byte of 1, 8
bytes each for fillers and malformed messages, and for each cell that has messages 4 bytes of its number and 8 of
theirs. Their lengths tell them apart: one is a multiple of 8, the other odd.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from tacit.aggregator.one_server.records import pack, unpack
from tacit.roles.shuffled import Tally

_HEAD = struct.Struct(">BQQ")
_CELL = struct.Struct(">IQ")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of all messages of a recipe: its ``index`` below ``total``, and the SHA-256 of its bytes. A ``total`` of 0
    says that no messages will come."""

    index: int
    total: int
    digest: bytes = field(repr=False)


def tally_bytes(tally: Tally) -> bytes:
    """Encode a tally in its shorter form."""
    if _HEAD.size + _CELL.size * len(tally.held) >= 8 * (tally.cells + 2):
        return pack((*tally.numbers, tally.fillers, tally.malformed))
    return _HEAD.pack(1, tally.fillers, tally.malformed) + b"".join(_CELL.pack(*one) for one in tally.held.items())


def read_tally(data: bytes, cells: int) -> Tally:
    """Decode a tally of a recipe with so many cells."""
    if len(data) % 8 == 0:
        *numbers, fillers, malformed = unpack(data)
        return Tally(cells, {cell: count for cell, count in enumerate(numbers) if count}, fillers, malformed)
    _, fillers, malformed = _HEAD.unpack_from(data)
    return Tally(cells, dict(_CELL.iter_unpack(data[_HEAD.size :])), fillers, malformed)
