"""What one contribution adds to the aggregate of its task if it counts.

A bit, a category, a vector of bits and the messages of a device behind a shuffler add one to some cells. Only the
numbers of these cells are stored, which saves memory for very many devices. Everything else (noise shares) adds a
separate number to every cell.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.methods.base.method import Measurement
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.prio3 import Prio3

CELL, NUMBER = "I", "Q"
NUMBER_SIZE = 8
Numbers: TypeAlias = "array[int]"
"""Unsigned numbers: one of 64 bits (``NUMBER``) per cell; or the cells (``CELL``) of a device's messages, in order, a
cell as often as it has messages."""
Ones: TypeAlias = tuple[int, ...]
"""Numbers of cells, in order; one is added to each, as often as it is named."""
Addition: TypeAlias = "Ones | Numbers"
CELL_SIZE = 4
_ONES, _NUMBERS = 0, 1
_WHAT = "prepared contribution's addition"


def addition_of(measurement: Measurement | Numbers, cells: int) -> Addition:
    """Return what ``measurement`` adds to an aggregate of ``cells`` numbers; if there are several, an integer is a
    category."""
    if isinstance(measurement, int):
        if cells > 1:
            return (measurement,)
        return (0,) * measurement if measurement in {0, 1} else array(NUMBER, [measurement])
    if isinstance(measurement, array) and measurement.typecode == CELL:
        return tuple(measurement)
    if max(measurement, default=0) <= 1:
        return tuple(cell for cell, bit in enumerate(measurement) if bit)
    return measurement if isinstance(measurement, array) else array(NUMBER, measurement)


def counted(vdaf: Prio3[Any], measurement: Measurement | Numbers) -> Measurement | Numbers:
    """Return the numbers of a measurement that count: of a bounded vector, sent beside its noise, their sum."""
    if not isinstance(vdaf, Prio3L2BoundSum) or isinstance(measurement, int):
        return measurement
    return array(NUMBER, vdaf.bounds.summed(measurement))


def messages_of(counts: Sequence[int]) -> Numbers:
    """Return the cells of so many messages about each cell."""
    return array(CELL, [cell for cell, count in enumerate(counts) if count for _ in range(count)])


def counts_in(messages: Numbers, cells: int) -> list[int]:
    """Inverse of ``messages_of``: how many messages there are about each of ``cells`` cells. Raises ``IndexError`` for
    a cell that there is not."""
    counts = [0] * cells
    for cell in messages:
        counts[cell] += 1
    return counts


def add(sums: Counter[int], addition: Addition) -> None:
    """Add a contribution's ``addition`` to ``sums`` by cell, in place."""
    if isinstance(addition, tuple):
        sums.update(addition)
        return
    for cell, number in enumerate(addition):
        sums[cell] += number


def write_addition(writer: Writer, addition: Addition) -> Writer:
    """Append the encoding: a kind byte and a vector of cells (4 bytes each) or numbers (8 bytes each)."""
    if isinstance(addition, tuple):
        cells = b"".join(cell.to_bytes(CELL_SIZE, "big") for cell in addition)
        return writer.uint(_ONES, 1).opaque(cells, 4)
    return writer.uint(_NUMBERS, 1).opaque(_big_endian(addition).tobytes(), 4)


def read_addition(reader: Reader) -> Addition:
    """Strict inverse of ``write_addition``. Raises ``DecodeError``."""
    kind = reader.uint(1)
    if kind == _ONES:
        ones = tuple(reader.vector(4, lambda inner: inner.uint(CELL_SIZE)))
        if sorted(ones) != list(ones):
            raise DecodeError(f"a {_WHAT} does not name its cells in order")
        return ones
    data = reader.opaque(4)
    if kind != _NUMBERS or len(data) % NUMBER_SIZE:
        raise DecodeError(f"a {_WHAT} is malformed")
    return _big_endian(array(NUMBER, data))


def _big_endian(numbers: Numbers) -> Numbers:
    """Convert numbers from this machine's byte order to the file's, or back."""
    if sys.byteorder == "big":
        return numbers
    swapped = numbers[:]
    swapped.byteswap()
    return swapped
