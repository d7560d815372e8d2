"""Measures the Prio3 kernels for each VDAF, role and instruction-set path.

The floor of a stage is what it would cost if it consisted of nothing but its Keccak permutations, field products and
multiply-adds, each at the rate measured in the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from infra.lab.bench.rows import Row, Subject, Timing, measured
from tacit.dp.noisy_length import longest_square
from tacit.vdaf import ping_pong
from tacit.vdaf.chunks import chunk_length_for
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.native import OFF, usable_levels
from tacit.vdaf.native.kernels import Kernels, ShardedRows, VerifiedRows, pack_measurements
from tacit.vdaf.native.library import exercise
from tacit.vdaf.polynomials import next_power_of_2
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec
from tacit.vdaf.vector_bounds import VectorBounds

CTX = bytes(38)
KEY = bytes(32)
RATE = 168
PREFIX = 2 + 8 + len(CTX) + 1
PRIMITIVES = ("keccak permutation", "multiply", "multiply-add")
FLOORED = frozenset({"verify_init", "shard"})
"""Stages whose primitive operations ``work_of`` counts."""
STAGES = ("verify_init", "decide", "aggregate", "shard")
PURE_REPETITIONS = 5
PAIRS_CALLS, PAIRS_CALLS_PER_CHUNK = 64, 8
"""Number of gadget calls up to which the batched prover of range checks works without a transform per wire."""


@dataclass(frozen=True)
class Case:
    """One VDAF with a measurement and the size of a batch."""

    vdaf: Prio3[Any]
    name: str
    parameters: dict[str, int]
    measurement: Any
    reports: int


@dataclass(frozen=True)
class Work:
    """Primitive operations of one report."""

    permutations: int
    products: int
    multiply_adds: int


def cases() -> list[Case]:
    """The VDAFs of the targets, one Multihot, and vectors with and without a proof of their length."""
    sum_vec = {"length": 1000, "max_measurement": 1, "chunk_length": 32}
    multihot = {"length": 100, "max_weight": 10, "chunk_length": 11}
    return [
        Case(Prio3Histogram(2, 256, 16), "histogram", {"length": 256, "chunk_length": 16}, 3, 256),
        Case(Prio3Histogram(2, 1024, 32), "histogram", {"length": 1024, "chunk_length": 32}, 3, 256),
        Case(Prio3SumVec(2, **sum_vec), "sumvec", sum_vec, [1] * 1000, 64),
        Case(Prio3MultihotCountVec(2, **multihot), "multihot", multihot, [1] * 10 + [0] * 90, 256),
        Case(Prio3Count(2), "count", {}, 1, 1024),
        Case(Prio3Sum(2, 255), "sum", {"max_measurement": 255}, 77, 1024),
        *(case for length in (1000, 10_000) for case in _vectors(length)),
    ]


def _vectors(length: int) -> list[Case]:
    """Vectors of 8 bits an entry, alone and with noise of 11 bits in each: without a proof of the length of what is
    added and with one."""
    cases = []
    for flips in (0, 1503):
        most, square = 254 + flips, longest_square(length, 127, flips)
        chunk = chunk_length_for(most.bit_length() * length)
        plain = {"length": length, "max_measurement": most, "chunk_length": chunk}
        cases.append(Case(Prio3SumVec(2, **plain), "vector", plain, [most // 2] * length, 8))
        bounds = VectorBounds(length, max_value=most, centre=most // 2, max_square=square)
        chunk = chunk_length_for(most.bit_length() * length + square.bit_length(), length)
        stated = {"length": length, "max_value": most, "max_square": square, "chunk_length": chunk}
        cases.append(Case(Prio3L2BoundSum(2, bounds, chunk), "bounded vector", stated, [most // 2] * length, 8))
    return cases


def kernel_rows(repetitions: int) -> Iterator[Row]:
    """Measure the primitives of every path, then every VDAF on every path and in pure Python."""
    floors: list[FieldFloor] = []
    for level, path in enumerate(usable_levels()):
        floor = FieldFloor.of(level, repetitions)
        floors.append(floor)
        for name, timing in floor.timings.items():
            yield Subject("").row("primitive", name, path, timing, floor_us=timing.micro)
    for case in cases():
        for level, path in enumerate(usable_levels()):
            yield from _native(case, level, path, floors[level], repetitions)
        yield from _pure(case)


@dataclass(frozen=True)
class FieldFloor:
    """Rates of one instruction-set path: the timings of its primitives by name."""

    timings: dict[str, Timing]

    @classmethod
    def of(cls, level: int, repetitions: int) -> FieldFloor:
        """Measure the path's primitives."""
        found = {PRIMITIVES[0]: _primitive(level, 64, 0, repetitions)}
        for bits in (64, 128):
            for number, name in enumerate(PRIMITIVES[1:], start=1):
                found[f"field{bits} {name}"] = _primitive(level, bits, number, repetitions)
        return cls(found)

    def micro(self, vdaf: Prio3[Any], role: str) -> float:
        """The cost of ``role`` per report if it consisted of primitives only."""
        work, field = work_of(vdaf, role), f"field{8 * vdaf.field.ENCODED_SIZE}"
        counts = (work.permutations, work.products, work.multiply_adds)
        names = (PRIMITIVES[0], *(f"{field} {name}" for name in PRIMITIVES[1:]))
        return sum(count * self.timings[name].micro for count, name in zip(counts, names, strict=True))


def work_of(vdaf: Prio3[Any], role: str) -> Work:
    """The operations of ``role`` (helper, leader or client) per report, counted from the draft.

    A client's additions of field elements, which are most of its work on range checks, are not counted.
    """
    flp, proofs, size = vdaf.flp, vdaf.PROOFS, vdaf.field.ENCODED_SIZE
    calls, arity = flp.circuit.calls, flp.circuit.gadget.ARITY
    points = next_power_of_2(1 + calls)
    meas_bytes = size * flp.MEAS_LEN
    expansion = _permutations(33, meas_bytes) + _permutations(34, size * proofs * flp.PROOF_LEN)
    part = _permutations(32 + 17 + meas_bytes, 32)
    joint = _permutations(96, 32) + _permutations(33, size * proofs * flp.JOINT_RAND_LEN)
    is_joint = flp.JOINT_RAND_LEN > 0
    inputs, checks = calls * arity, flp.JOINT_RAND_LEN
    if role == "client":
        permutations = expansion + _permutations(33, size * proofs * arity) + is_joint * (2 * part + joint)
        transform = points * (points.bit_length() - 1) - points + 2
        if calls == checks <= min(PAIRS_CALLS, PAIRS_CALLS_PER_CHUNK * arity // 2):
            products = inputs // 2 + 2 * calls + transform
            return Work(permutations, proofs * products, proofs * (inputs // 2 + arity // 2 + calls**2 + points))
        wires = 2 * ((arity + 1) // 2)
        return Work(permutations, proofs * (wires * transform + checks * arity // 2), proofs * points * wires // 2)
    query = _permutations(32 + 17, size * proofs * flp.QUERY_RAND_LEN)
    permutations = query + (role == "helper") * expansion + is_joint * (part + joint)
    products = 4 * (points - 1) + checks * (arity // 2 + 2)
    return Work(permutations, proofs * products, proofs * (inputs + arity + 4 * points - 2))


def _permutations(absorbed: int, squeezed: int) -> int:
    return (PREFIX + absorbed) // RATE + max(1, -(-squeezed // RATE))


def _primitive(level: int, bits: int, number: int, repetitions: int) -> Timing:
    rounds = 2000
    operations = exercise(level, bits, number, rounds)
    return measured(lambda: exercise(level, bits, number, rounds), operations, repetitions)


@dataclass(frozen=True)
class _Batch:
    """Reports of one case as the kernels take them, and what both aggregators compute from them."""

    kernels: Kernels
    packed: bytes
    nonces: bytes
    rands: bytes
    made: ShardedRows
    helper_shares: bytes

    @classmethod
    def of(cls, case: Case, level: int) -> _Batch:
        vdaf, kernels = case.vdaf, Kernels(case.vdaf, CTX, level)
        rng = random.Random(case.name)  # noqa: S311  (inputs of a measurement)
        nonces, rands = rng.randbytes(16 * case.reports), rng.randbytes(vdaf.RAND_SIZE * case.reports)
        packed = pack_measurements(vdaf, [case.measurement] * case.reports)
        starts = range(0, len(rands), vdaf.RAND_SIZE)
        helper_shares = b"".join(rands[at : at + kernels.helper_share_size] for at in starts)
        return cls(kernels, packed, nonces, rands, kernels.shard(packed, nonces, rands), helper_shares)

    def verify(self, agg_id: int) -> VerifiedRows:
        shares = self.helper_shares if agg_id else self.made.leader_shares
        return self.kernels.verify_init(agg_id, KEY, self.nonces, self.made.public_shares, shares)

    def stages(self) -> list[tuple[str, str, Callable[[], object]]]:
        first, second = self.verify(0), self.verify(1)
        shares, accepted = (first.verifier_shares, second.verifier_shares), bytes([1]) * (len(self.nonces) // 16)
        return [
            ("verify_init", "helper", lambda: self.verify(1)),
            ("verify_init", "leader", lambda: self.verify(0)),
            ("decide", "helper", lambda: self.kernels.decide(*shares, second.seeds)),
            ("aggregate", "both", lambda: self.kernels.aggregate(second.out_shares, accepted)),
            ("shard", "client", lambda: self.kernels.shard(self.packed, self.nonces, self.rands)),
        ]


def _native(case: Case, level: int, path: str, floor: FieldFloor, repetitions: int) -> Iterator[Row]:
    subject = Subject(case.name, case.parameters)
    for stage, role, call in _Batch.of(case, level).stages():
        least = floor.micro(case.vdaf, role) if stage in FLOORED else None
        yield subject.row(stage, role, path, measured(call, case.reports, repetitions), floor_us=least)


def _pure(case: Case) -> Iterator[Row]:
    vdaf = case.vdaf
    nonce, rand = bytes(16), bytes(range(vdaf.RAND_SIZE))
    public_share, shares = vdaf.shard(CTX, case.measurement, nonce, rand)
    public = vdaf.encode_public_share(public_share)
    leader, helper = (vdaf.encode_input_share(share) for share in shares)
    inbound = ping_pong.leader_initialized(vdaf, KEY, CTX, None, nonce, public, leader).outbound
    stages: list[tuple[str, str, Callable[[], object]]] = [
        (
            "verify_init",
            "helper",
            lambda: ping_pong.helper_initialized(vdaf, KEY, CTX, None, nonce, public, helper, inbound),
        ),
        ("verify_init", "leader", lambda: ping_pong.leader_initialized(vdaf, KEY, CTX, None, nonce, public, leader)),
        ("shard", "client", lambda: vdaf.shard(CTX, case.measurement, nonce, rand)),
    ]
    for stage, role, call in stages:
        timing = measured(call, 1, PURE_REPETITIONS)
        yield Subject(case.name, case.parameters).row(stage, role, OFF, timing)
