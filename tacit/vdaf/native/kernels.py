"""The kernels of one VDAF instance and one context, on rows of bytes.

A row is one report's value of one kind; rows of one kind are concatenated in one buffer. Everything here is for two
Aggregators. The exact meaning of every flag is in ``tacit_native.h``.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from tacit.vdaf.field import Field64, Field128
from tacit.vdaf.l2_bound_sum import L2BoundSum
from tacit.vdaf.native.library import Shape, Sizes, chosen_level, load
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.shares import SEED_SIZE
from tacit.vdaf.xof import XofTurboShake128

REDO = 1
MALFORMED = 2

BAD_SHARE = 1
BAD_PROOF = 2

FEWEST_LANES = 0
"""The level whose instructions hold the fewest reports."""

_FIELD_BITS = {Field64: 64, Field128: 128}
_NO_MEMORY = 2

_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
"""With None as data, makes a bytes object with unwritten content, to be filled before any other reference exists."""


@dataclass(frozen=True, slots=True)
class VerifiedRows:
    """The output of ``verify_init`` for a batch. Rows of flagged reports are meaningless."""

    verifier_shares: bytes = field(repr=False)
    seeds: bytes = field(repr=False)
    out_shares: bytes = field(repr=False)
    flags: bytes


@dataclass(frozen=True, slots=True)
class ShardedRows:
    """The output of ``shard`` for a batch. The Helper's input share is the beginning of the report's rand."""

    public_shares: bytes = field(repr=False)
    leader_shares: bytes = field(repr=False)
    flags: bytes


class Kernels:
    """Batched operations; ``sizes`` holds the bytes per row of everything but nonces (16) and flags (1)."""

    def __init__(self, vdaf: Prio3[Any], ctx: bytes, level: int) -> None:
        """``level`` indexes ``LEVELS``. Raises ``ValueError`` where ``kernels_for`` would return None."""
        library = load()
        shape = _shape(vdaf)
        if library is None or shape is None:
            raise ValueError("there are no kernels for this VDAF here")
        self.sizes = Sizes()
        self._library = library
        self._plan = library.tacit_plan_new(level, shape, ctx, len(ctx), self.sizes)
        if not self._plan:
            raise ValueError("the kernels refuse this VDAF, context or level")
        # not __del__: the plan is freed exactly once, even if the interpreter ends before its owner is collected
        weakref.finalize(self, library.tacit_plan_free, self._plan)
        self.helper_share_size = SEED_SIZE + self.sizes.seed
        _require_same_sizes(vdaf, self.sizes)

    def verify_init(
        self, agg_id: int, verify_key: bytes, nonces: bytes, public_shares: bytes, input_shares: bytes
    ) -> VerifiedRows:
        """Raises ``ValueError`` for a buffer that does not hold whole rows of as many reports as ``nonces`` does."""
        reports, sizes = len(nonces) // Prio3.NONCE_SIZE, self.sizes
        outputs = self._call(
            self._library.tacit_verify_init,
            (agg_id, verify_key, len(verify_key), reports),
            (nonces, public_shares, input_shares),
            [reports * size for size in (sizes.verifier_share, sizes.seed, sizes.out_share, 1)],
        )
        return VerifiedRows(*outputs)

    def decide(self, leader_shares: bytes, helper_shares: bytes, seeds: bytes) -> tuple[bytes, bytes]:
        """Verifier messages and flags, from both verifier shares and the Helper's own seeds."""
        reports, sizes = len(leader_shares) // self.sizes.verifier_share, self.sizes
        inputs = (leader_shares, helper_shares, seeds)
        messages, flags = self._call(self._library.tacit_decide, (reports,), inputs, [reports * sizes.seed, reports])
        return messages, flags

    def aggregate(self, out_shares: bytes, accepted: bytes) -> bytes:
        """The encoded sum of the out shares whose byte in ``accepted`` is 1, the others' being 0."""
        inputs, output = (out_shares, accepted), self.sizes.out_share
        return self._call(self._library.tacit_aggregate, (len(accepted),), inputs, [output])[0]

    def shard(self, measurements: bytes, nonces: bytes, rands: bytes) -> ShardedRows:
        """``measurements`` as ``pack_measurements`` makes them; a measurement out of range is flagged."""
        reports, sizes = len(nonces) // Prio3.NONCE_SIZE, self.sizes
        lengths = [reports * size for size in (sizes.public_share, sizes.leader_share, 1)]
        return ShardedRows(*self._call(self._library.tacit_shard, (reports,), (measurements, nonces, rands), lengths))

    def _call(
        self, function: Any, head: tuple[object, ...], inputs: Sequence[bytes], lengths: Sequence[int]
    ) -> list[bytes]:
        """Call a kernel with outputs of the given lengths, written in place: megabytes that are neither cleared before
        nor copied afterwards."""
        outputs: list[bytes] = [_new_bytes(None, length) for length in lengths]
        arguments: list[object] = []
        for data in (*inputs, *outputs):
            arguments += (data, len(data))
        status = function(self._plan, *head, *arguments)
        if status == _NO_MEMORY:
            raise MemoryError("no memory for a batch")
        if status:
            raise ValueError("the buffers of a batch do not hold one row per report")
        return outputs


def kernels_for(vdaf: Prio3[Any], ctx: bytes, level: int | None = None, *, alone: bool = False) -> Kernels | None:
    """The kernels of this process for an instance; None where only pure Python can be used: it was chosen, there are no
    kernels, or they do not support this circuit, these sizes or this number of shares. ``alone``: for one report at a
    time, where more lanes cost only time and memory, and for which no library is compiled."""
    if level is None:
        level = chosen_level(build=not alone)
        level = FEWEST_LANES if alone and level is not None else level
    if level is None or _shape(vdaf) is None:
        return None
    try:
        return Kernels(vdaf, ctx, level)
    except ValueError:
        return None


def pack_measurements(vdaf: Prio3[Any], measurements: Sequence[Any]) -> bytes:
    """64-bit integers, row by row. Raises ``ValueError`` for what is not integers in [0, 2^64) in the right number."""
    values: list[int] = []
    circuit, length = vdaf.flp.circuit, 0
    if isinstance(circuit, (SumVec, MultihotCountVec, L2BoundSum)):
        length = circuit.bounds.numbers if isinstance(circuit, L2BoundSum) else circuit.OUTPUT_LEN
    for measurement in measurements:
        if length:
            if not isinstance(measurement, Sequence) or len(measurement) != length:
                raise ValueError(f"a measurement is not a sequence of {length} values")
            values += measurement
        else:
            values.append(measurement)
    try:
        return struct.pack(f"<{len(values)}Q", *values)
    except struct.error as error:
        raise ValueError("a measurement is not an unsigned 64-bit integer") from error


def _shape(vdaf: Prio3[Any]) -> Shape | None:
    """The instance as described to the kernels; None for one that they do not support."""
    circuit = vdaf.flp.circuit
    known = _circuit(circuit)
    if known is None or vdaf.SHARES != 2 or vdaf.field not in _FIELD_BITS or vdaf.XOF is not XofTurboShake128:
        return None
    kind, maximum, chunk, *bounds = known
    if maximum >= 1 << 64:
        return None
    return Shape(kind, _FIELD_BITS[vdaf.field], vdaf.PROOFS, vdaf.ID, circuit.OUTPUT_LEN, maximum, chunk, *bounds)


def _circuit(circuit: Circuit[Any]) -> tuple[int, ...] | None:
    """The kernels' code of a circuit, its maximum and its chunk length; flips, scale, centre and largest square of a
    bounded vector."""
    # the very class: a subclass may encode or check something else, which the kernels do not know
    kind = type(circuit)
    if kind is Count:
        return 1, 1, 1
    if isinstance(circuit, Sum) and kind is Sum:
        return 2, circuit.integers.maximum, 1
    if isinstance(circuit, SumVec) and kind is SumVec:
        return 3, circuit.integers.maximum, circuit.chunk_length
    if isinstance(circuit, Histogram) and kind is Histogram:
        return 4, 1, circuit.chunk_length
    if isinstance(circuit, MultihotCountVec) and kind is MultihotCountVec:
        return 5, circuit.weight.maximum, circuit.chunk_length
    if isinstance(circuit, L2BoundSum) and kind is L2BoundSum:
        own = circuit.bounds
        return 6, own.max_value, circuit.chunk_length, own.flips, own.scale, own.centre, own.max_square
    return None


def _require_same_sizes(vdaf: Prio3[Any], sizes: Sizes) -> None:
    element, flp = vdaf.field.ENCODED_SIZE, vdaf.flp
    seed = SEED_SIZE if flp.JOINT_RAND_LEN else 0
    # computed on both sides: a library that lays out a share in another way is found here, not in a report
    expected = (
        2 * seed,
        element * (flp.MEAS_LEN + vdaf.PROOFS * flp.PROOF_LEN) + seed,
        element * vdaf.PROOFS * flp.VERIFIER_LEN + seed,
        seed,
        element * flp.OUTPUT_LEN,
        vdaf.RAND_SIZE,
    )
    own_sizes = (sizes.public_share, sizes.leader_share, sizes.verifier_share, sizes.seed, sizes.out_share, sizes.rand)
    if own_sizes != expected:
        raise ValueError(f"the kernels compute other sizes: {own_sizes} instead of {expected}")
