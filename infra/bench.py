"""What the Prio3 kernels cost on this machine, beside the floor that its own primitives set.

Every figure is CPU time of one thread, the median over repetitions. The floor of a stage is what it would cost if it
consisted of nothing but its Keccak permutations, field products and multiply-adds, each at the rate measured in the
same run.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.vdaf import ping_pong
from tacit.vdaf.native import OFF, usable_levels
from tacit.vdaf.native.kernels import Kernels, ShardedRows, VerifiedRows, pack_measurements
from tacit.vdaf.native.library import exercise
from tacit.vdaf.polynomials import next_power_of_2
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec

CTX = bytes(38)
KEY = bytes(32)
RATE = 168
PREFIX = 2 + 8 + len(CTX) + 1
PRIMITIVES = ("keccak permutation", "multiply", "multiply-add")
FEATURES = ("avx2", "bmi2", "avx512f", "avx512dq", "avx512ifma", "asimd", "sha3")
PURE_REPETITIONS = 5
PAIRS_CALLS, PAIRS_CALLS_PER_CHUNK = 64, 8
"""Up to so many gadget calls, the batched prover of range checks works without a transform per wire."""


@dataclass(frozen=True)
class Case:
    """One VDAF with a measurement and the size of a batch."""

    vdaf: Prio3[Any]
    name: str
    parameters: dict[str, int]
    measurement: Any
    reports: int


@dataclass(frozen=True)
class Row:
    """One line of the table. ``spread`` is the interquartile range over the median."""

    stage: str
    vdaf: str
    parameters: dict[str, int]
    role: str
    path: str
    us_per_report: float
    floor_us: float | None
    ratio: float | None
    offered_rate: float | None
    repetitions: int
    spread: float


@dataclass(frozen=True)
class Work:
    """Primitive operations of one report."""

    permutations: int
    products: int
    multiply_adds: int


def cases() -> list[Case]:
    """The VDAFs that the targets name, and one Multihot."""
    sum_vec = {"length": 1000, "max_measurement": 1, "chunk_length": 32}
    multihot = {"length": 100, "max_weight": 10, "chunk_length": 11}
    return [
        Case(Prio3Histogram(2, 256, 16), "histogram", {"length": 256, "chunk_length": 16}, 3, 256),
        Case(Prio3SumVec(2, **sum_vec), "sumvec", sum_vec, [1] * 1000, 64),
        Case(Prio3MultihotCountVec(2, **multihot), "multihot", multihot, [1] * 10 + [0] * 90, 256),
        Case(Prio3Count(2), "count", {}, 1, 1024),
        Case(Prio3Sum(2, 255), "sum", {"max_measurement": 255}, 77, 1024),
    ]


def machine() -> dict[str, Any]:
    """Processor, the features that kernels use, and cores."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    facts = _facts(text)
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    return {
        "cpu": facts.get("model name") or platform.processor() or platform.machine(),
        "features": [feature for feature in FEATURES if feature in flags],
        "cores": os.cpu_count() or 1,
    }


def kernel_rows(repetitions: int) -> Iterator[Row]:
    """Primitives of every path, then every VDAF on every path and in pure Python."""
    rates: dict[tuple[int, int], list[float]] = {}
    for level, path in enumerate(usable_levels()):
        for bits in (64, 128):
            measured = [_primitive(level, bits, number, repetitions) for number in range(len(PRIMITIVES))]
            rates[level, bits] = [seconds for seconds, _ in measured]
            for name, (seconds, spread) in zip(PRIMITIVES, measured, strict=True):
                if name != PRIMITIVES[0] or bits == 64:
                    label = name if name == PRIMITIVES[0] else f"field{bits} {name}"
                    micro = seconds * 1e6
                    yield Row("primitive", "", {}, label, path, micro, micro, 1.0, None, repetitions, spread)
    for case in cases():
        bits = 8 * case.vdaf.field.ENCODED_SIZE
        for level, path in enumerate(usable_levels()):
            yield from _native(case, level, path, rates[level, bits], repetitions)
        yield from _pure(case)


def work_of(vdaf: Prio3[Any], role: str) -> Work:
    """What ``role`` has to compute per report, counted from the draft: helper, leader or client.

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
    inputs = calls * arity
    if role == "client":
        permutations = expansion + _permutations(33, size * proofs * arity) + is_joint * (2 * part + joint)
        transform = points * (points.bit_length() - 1) - points + 2
        if is_joint and calls <= min(PAIRS_CALLS, PAIRS_CALLS_PER_CHUNK * arity // 2):
            products = inputs // 2 + 2 * calls + transform
            return Work(permutations, proofs * products, proofs * (inputs // 2 + arity // 2 + calls**2 + points))
        wires = 2 * ((arity + 1) // 2)
        return Work(permutations, proofs * (wires * transform + is_joint * inputs // 2), proofs * points * wires // 2)
    query = _permutations(32 + 17, size * proofs * flp.QUERY_RAND_LEN)
    permutations = query + (role == "helper") * expansion + is_joint * (part + joint)
    products = 4 * (points - 1) + is_joint * (inputs // 2 + 2 * calls)
    return Work(permutations, proofs * products, proofs * (inputs + arity + 4 * points - 2))


def _facts(text: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _permutations(absorbed: int, squeezed: int) -> int:
    return (PREFIX + absorbed) // RATE + max(1, -(-squeezed // RATE))


def _primitive(level: int, bits: int, number: int, repetitions: int) -> tuple[float, float]:
    rounds = 2000
    operations = exercise(level, bits, number, rounds)
    return _median(lambda: exercise(level, bits, number, rounds), operations, repetitions)


def _median(call: Callable[[], object], units: int, repetitions: int) -> tuple[float, float]:
    """Seconds of CPU time per unit, and the spread."""
    call()
    times = []
    for _ in range(repetitions):
        start = time.thread_time_ns()
        call()
        times.append((time.thread_time_ns() - start) / units / 1e9)
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, (high - low) / middle if middle else 0.0


def _native(case: Case, level: int, path: str, rates: list[float], repetitions: int) -> Iterator[Row]:
    vdaf, reports = case.vdaf, case.reports
    rng = random.Random(case.name)  # noqa: S311  (inputs of a measurement)
    kernels = Kernels(vdaf, CTX, level)
    nonces, rands = rng.randbytes(16 * reports), rng.randbytes(vdaf.RAND_SIZE * reports)
    packed = pack_measurements(vdaf, [case.measurement] * reports)
    starts = range(0, len(rands), vdaf.RAND_SIZE)
    helper_shares = b"".join(rands[at : at + kernels.helper_share_size] for at in starts)

    def shard() -> ShardedRows:
        return kernels.shard(packed, nonces, rands)

    made = shard()

    def verify(agg_id: int, shares: bytes) -> VerifiedRows:
        return kernels.verify_init(agg_id, KEY, nonces, made.public_shares, shares)

    first, second = verify(0, made.leader_shares), verify(1, helper_shares)
    accepted = bytes([1]) * reports
    stages: list[tuple[str, str, Callable[[], object], bool]] = [
        ("verify_init", "helper", lambda: verify(1, helper_shares), True),
        ("verify_init", "leader", lambda: verify(0, made.leader_shares), True),
        (
            "decide",
            "helper",
            lambda: kernels.decide(first.verifier_shares, second.verifier_shares, second.seeds),
            False,
        ),
        ("aggregate", "both", lambda: kernels.aggregate(second.out_shares, accepted), False),
        ("shard", "client", shard, True),
    ]
    for stage, role, call, has_floor in stages:
        seconds, spread = _median(call, reports, repetitions)
        micro, floor = seconds * 1e6, None
        if has_floor:
            floor = 1e6 * sum(n * rate for n, rate in zip(_counts(vdaf, role), rates, strict=True))
        ratio = None if floor is None else micro / floor
        yield Row(stage, case.name, case.parameters, role, path, micro, floor, ratio, None, repetitions, spread)


def _counts(vdaf: Prio3[Any], role: str) -> tuple[int, ...]:
    work = work_of(vdaf, role)
    return work.permutations, work.products, work.multiply_adds


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
        seconds, spread = _median(call, 1, PURE_REPETITIONS)
        micro = seconds * 1e6
        yield Row(stage, case.name, case.parameters, role, OFF, micro, None, None, None, PURE_REPETITIONS, spread)


def document(rows: list[Row]) -> dict[str, Any]:
    """The JSON document of a run."""
    return {"machine": machine(), "rows": [asdict(row) for row in rows]}
