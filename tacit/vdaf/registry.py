"""From DAP's ``vdaf_type`` and ``vdaf_configuration`` (DAP-18) to an instance, and back.

DAP has two Aggregators, so every instance here has two shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.vdaf.count_vec import ALGORITHM_ID as COUNT_VEC
from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.l1_bound_sum import ALGORITHM_ID as L1_BOUND_SUM
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.l2_bound_sum import ALGORITHM_ID as L2_BOUND_SUM
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
)
from tacit.vdaf.sum_vec_field64 import ALGORITHM_ID as SUM_VEC_FIELD64
from tacit.vdaf.sum_vec_field64 import Prio3SumVecField64Multiproof
from tacit.vdaf.vector_bounds import VectorBounds

SHARES = 2

COUNT = 0x00000001
SUM = 0x00000002
SUM_VEC = 0x00000003
HISTOGRAM = 0x00000004
MULTIHOT_COUNT_VEC = 0x00000005

MAX_ELEMENTS = 1 << 20
"""Largest measurement and chunk, in field elements, that an external configuration may request: 16 MiB."""


def vdaf_from_configuration(vdaf_type: int, configuration: bytes) -> Prio3[Any]:
    """The instance that a task names. Raises ``DecodeError`` for an unknown type, wrong bytes, parameters
    that the VDAF does not allow and sizes above ``MAX_ELEMENTS``.
    """
    reader = Reader(configuration, "VDAF configuration")
    try:
        vdaf = _read(vdaf_type, reader)
    except DecodeError:
        raise
    except ValueError as error:
        raise DecodeError(f"VDAF configuration: {error}") from error
    reader.end()
    # Nothing of that size exists yet: an instance makes its tables when it is first used. A chunk may be longer than
    # the measurement, and has two wires for each of its elements; hence the second bound.
    if vdaf.flp.MEAS_LEN > MAX_ELEMENTS or vdaf.flp.PROVE_RAND_LEN > 2 * MAX_ELEMENTS:
        raise DecodeError(f"VDAF configuration: more than {MAX_ELEMENTS} elements")
    return vdaf


def _read(vdaf_type: int, reader: Reader) -> Prio3[Any]:
    """Read the parameters of the VDAF, in the order of its configuration."""
    read = _READERS.get(vdaf_type)
    if read is None:
        raise DecodeError(f"VDAF type {vdaf_type:#010x} is not known")
    return read(reader)


def _read_multihot(reader: Reader) -> Prio3[Any]:
    # the configuration has the weight last, the constructor before the chunk length
    length, chunk_length, max_weight = reader.uint(4), reader.uint(4), reader.uint(8)
    return Prio3MultihotCountVec(SHARES, length, max_weight, chunk_length)


def _read_l2_bound_sum(reader: Reader) -> Prio3[Any]:
    bounds = VectorBounds(reader.uint(4), *(reader.uint(8) for _ in range(5)))
    return Prio3L2BoundSum(SHARES, bounds, reader.uint(4))


_READERS: dict[int, Callable[[Reader], Prio3[Any]]] = {
    COUNT: lambda _: Prio3Count(SHARES),
    SUM: lambda reader: Prio3Sum(SHARES, reader.uint(8)),
    SUM_VEC: lambda reader: Prio3SumVec(SHARES, reader.uint(4), reader.uint(8), reader.uint(4)),
    SUM_VEC_FIELD64: lambda reader: Prio3SumVecField64Multiproof(
        SHARES, reader.uint(4), reader.uint(8), reader.uint(4), reader.uint(1)
    ),
    HISTOGRAM: lambda reader: Prio3Histogram(SHARES, reader.uint(4), reader.uint(4)),
    MULTIHOT_COUNT_VEC: _read_multihot,
    L1_BOUND_SUM: lambda reader: Prio3L1BoundSum(SHARES, reader.uint(4), reader.uint(8), reader.uint(4)),
    L2_BOUND_SUM: _read_l2_bound_sum,
    COUNT_VEC: lambda reader: Prio3CountVec(SHARES, reader.uint(4)),
}


def vdaf_configuration(vdaf: Prio3[Any]) -> bytes:
    """The ``vdaf_configuration`` of an instance; its ``vdaf_type`` is ``vdaf.ID``.

    Raises ``ValueError`` for an instance that DAP has no encoding for, or whose parameters exceed its
    integers.
    """
    if vdaf.SHARES != SHARES:
        raise ValueError(f"DAP has {SHARES} aggregators, not {vdaf.SHARES}")
    writer = Writer()
    match vdaf:
        case Prio3Count():
            pass
        case Prio3Sum():
            writer.uint(vdaf.max_measurement, 8)
        case Prio3SumVec():
            writer.uint(vdaf.length, 4).uint(vdaf.max_measurement, 8).uint(vdaf.chunk_length, 4)
        case Prio3SumVecField64Multiproof():
            writer.uint(vdaf.length, 4).uint(vdaf.max_measurement, 8).uint(vdaf.chunk_length, 4).uint(vdaf.PROOFS, 1)
        case Prio3Histogram():
            writer.uint(vdaf.length, 4).uint(vdaf.chunk_length, 4)
        case Prio3MultihotCountVec():
            writer.uint(vdaf.length, 4).uint(vdaf.chunk_length, 4).uint(vdaf.max_weight, 8)
        case Prio3L1BoundSum():
            writer.uint(vdaf.length, 4).uint(vdaf.max_value, 8).uint(vdaf.chunk_length, 4)
        case Prio3L2BoundSum(bounds=own):
            writer.uint(own.length, 4)
            for number in (own.max_value, own.centre, own.max_square, own.scale, own.flips):
                writer.uint(number, 8)
            writer.uint(vdaf.chunk_length, 4)
        case Prio3CountVec():
            writer.uint(vdaf.length, 4)
        case _:
            raise ValueError(f"{type(vdaf).__name__} has no DAP configuration")
    return writer.bytes()


def prio3_named(
    name: str,
    length: int,
    chunk_length: int,
    max_weight: int | None = None,
    max_measurement: int | None = None,
    vector: Mapping[str, int] | None = None,
) -> Prio3[Any]:
    """The instance for two aggregators that a recipe names by ``name``; ``vector``: the members of ``VectorBounds``
    but the length. ``ValueError`` for parameters that the VDAF does not allow, and for an unknown name."""
    match name:
        case "Prio3Count":
            return Prio3Count(SHARES)
        case "Prio3Sum":
            return Prio3Sum(SHARES, max_measurement or 0)
        case "Prio3Histogram":
            return Prio3Histogram(SHARES, length, chunk_length)
        case "Prio3SumVec":
            return Prio3SumVec(SHARES, length, max_measurement or 0, chunk_length)
        case "Prio3MultihotCountVec":
            return Prio3MultihotCountVec(SHARES, length, max_weight or 0, chunk_length)
        case "Prio3CountVec":
            return Prio3CountVec(SHARES, length)
        case "Prio3L2BoundSum":
            if vector is None:
                raise ValueError("the member vector is missing")
            return Prio3L2BoundSum(SHARES, VectorBounds(length, **vector), chunk_length)
        case _:
            raise ValueError(f"VDAF {name} is not known")
