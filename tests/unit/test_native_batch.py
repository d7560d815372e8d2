"""Batches through the kernels, level by level, against pure Python: honest, adversarial and malformed reports."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf import ping_pong
from tacit.vdaf.circuits import SumVec
from tacit.vdaf.field import Field64, Field128
from tacit.vdaf.l2_bound_sum import L2BoundSum, Prio3L2BoundSum
from tacit.vdaf.native import LEVELS, batch, usable_levels
from tacit.vdaf.native.batch import BatchProver, BatchVerifier
from tacit.vdaf.native.kernels import Kernels, kernels_for
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
    VerifyError,
    VerifyState,
)
from tacit.vdaf.vector_bounds import VectorBounds

CTX = b"dap-18" + bytes(range(32))
KEY = bytes(range(32, 64))
SIZES = (1, 7, 8, 9)
NATIVE = usable_levels()
PATHS = [pytest.param(LEVELS.index(name), id=name) for name in NATIVE]

Draw = Callable[[random.Random], Any]


def _bounded(length: int, bounds: VectorBounds, r: random.Random) -> list[int]:
    """Values within one unit of the centre, and any noise."""
    near = range(max(0, bounds.centre - 1), min(bounds.max_value, bounds.centre + 1) + 1)
    values = [r.choice(near) for _ in range(length)]
    return values + [r.randint(0, bounds.flips) for _ in range(bounds.numbers - length)]


NOISY, QUIET, HALF, WIDE = (
    VectorBounds(7, 14, 7, 60, scale=3, flips=9),
    VectorBounds(21, 1, 0, 21),
    VectorBounds(1, 2, 1, 1, flips=1),
    VectorBounds(70, (1 << 27) + 5, 1 << 26, (1 << 58) + 9, flips=1000),
)
INSTANCES: dict[str, tuple[Prio3[Any], Draw]] = {
    "count": (Prio3Count(2), lambda r: r.randrange(2)),
    "sum of bits": (Prio3Sum(2, 1), lambda r: r.randrange(2)),
    "sum": (Prio3Sum(2, 200), lambda r: r.randrange(201)),
    "wide sum": (Prio3Sum(2, (1 << 62) + 7), lambda r: r.randrange((1 << 62) + 8)),
    "sumvec of bits": (Prio3SumVec(2, 21, 1, 5), lambda r: [r.randrange(2) for _ in range(21)]),
    "sumvec": (Prio3SumVec(2, 6, 9, 7), lambda r: [r.randrange(10) for _ in range(6)]),
    "histogram": (Prio3Histogram(2, 20, 3), lambda r: r.randrange(20)),
    "many calls": (Prio3Histogram(2, 70, 1), lambda r: r.randrange(70)),
    "one bucket": (Prio3Histogram(2, 1, 1), lambda r: 0),
    "one call": (Prio3Histogram(2, 4, 9), lambda r: r.randrange(4)),
    "multihot": (Prio3MultihotCountVec(2, 9, 3, 4), lambda r: r.sample([1, 1, 1, 0, 0, 0, 0, 0, 0], 9)),
    "noisy vector": (Prio3L2BoundSum(2, NOISY, 5), lambda r: _bounded(7, NOISY, r)),
    "bounded bits": (Prio3L2BoundSum(2, QUIET, 4), lambda r: _bounded(21, QUIET, r)),
    "bounded number": (Prio3L2BoundSum(2, HALF, 9), lambda r: _bounded(1, HALF, r)),
    "wide vector": (Prio3L2BoundSum(2, WIDE, 40), lambda r: _bounded(70, WIDE, r)),
    "three proofs": (
        Prio3(SumVec(Field64, 5, 6, 4), 0xFFFFFFFF, 2, proofs=3),
        lambda r: [r.randrange(7) for _ in range(5)],
    ),
}
NAMES = sorted(INSTANCES)


class Batch:
    """Encoded reports, as columns."""

    def __init__(self, name: str, reports: int) -> None:
        rng = random.Random(f"{name} {reports}")
        self.vdaf, draw = INSTANCES[name]
        self.measurements = [draw(rng) for _ in range(reports)]
        self.nonces = [rng.randbytes(16) for _ in range(reports)]
        self.rands = [rng.randbytes(self.vdaf.RAND_SIZE) for _ in range(reports)]
        made = [
            self.vdaf.shard(CTX, *report) for report in zip(self.measurements, self.nonces, self.rands, strict=True)
        ]
        self.public_shares = [self.vdaf.encode_public_share(public) for public, _ in made]
        self.leader = [self.vdaf.encode_input_share(shares[0]) for _, shares in made]
        self.helper = [self.vdaf.encode_input_share(shares[1]) for _, shares in made]
        self.inbounds = [result.outbound for result in self.pure_leader() if isinstance(result, ping_pong.Continued)]

    def pure_leader(self, leader: Sequence[bytes] | None = None) -> list[Any]:
        reports = zip(self.nonces, self.public_shares, leader or self.leader, strict=True)
        return [_attempt(ping_pong.leader_initialized, self.vdaf, KEY, CTX, None, *report) for report in reports]

    def pure_helper(self, helper: Sequence[bytes] | None = None, inbounds: Sequence[bytes] | None = None) -> list[Any]:
        reports = zip(self.nonces, self.public_shares, helper or self.helper, inbounds or self.inbounds, strict=True)
        return [_attempt(ping_pong.helper_initialized, self.vdaf, KEY, CTX, None, *report) for report in reports]


@functools.cache
def batch_of(name: str, reports: int) -> Batch:
    """Made once: pure Python is slow."""
    return Batch(name, reports)


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (VerifyError, DecodeError) as error:
        return error


def led(verifier: BatchVerifier, vdaf: Prio3[Any], *columns: Sequence[bytes]) -> list[Any]:
    """What ``ping_pong.leader_initialized`` would give or raise for each report, from the rows of a batch."""
    found = verifier.leader(*columns)
    seeds = cut(found.seeds, len(found.outbounds)) if vdaf.flp.JOINT_RAND_LEN else [None] * len(found.outbounds)
    rows = zip(found.outbounds, cut(found.out_shares, len(found.outbounds)), seeds, strict=True)
    good = [ping_pong.Continued(VerifyState(vdaf.field.decode_vec(out), seed), sent) for sent, out, seed in rows]
    return in_order(found.errors, good)


def helped(verifier: BatchVerifier, vdaf: Prio3[Any], *columns: Sequence[bytes]) -> list[Any]:
    """What ``ping_pong.helper_initialized`` would give or raise for each report, from the rows of a batch."""
    found = verifier.helper(*columns)
    assert found.seeds == b""
    rows = zip(found.outbounds, cut(found.out_shares, len(found.outbounds)), strict=True)
    good = [ping_pong.FinishedWithOutbound(vdaf.field.decode_vec(out), sent) for sent, out in rows]
    return in_order(found.errors, good)


def in_order(errors: Sequence[Exception | None], good: list[Any]) -> list[Any]:
    rest = iter(good)
    results = [next(rest) if error is None else error for error in errors]
    assert list(rest) == []
    return results


def cut(data: bytes, rows: int) -> list[bytes]:
    return [data[at * len(data) // rows : (at + 1) * len(data) // rows] for at in range(rows)]


def comparable(results: Sequence[Any]) -> list[Any]:
    """Results that compare by value: errors by class and text."""
    return [(type(r), str(r)) if isinstance(r, Exception) else r for r in results]


def pure_verifier(vdaf: Prio3[Any]) -> BatchVerifier:
    """A verifier without kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_NATIVE", "off")
        return BatchVerifier(vdaf, KEY, CTX)


def test_this_machine_compiles_the_kernels() -> None:
    assert NATIVE[:1] == ["baseline"]


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize("reports", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_both_aggregators_get_what_pure_python_gives(name: str, reports: int, level: int) -> None:
    made = batch_of(name, reports)
    verifier = BatchVerifier(made.vdaf, KEY, CTX, level)
    assert verifier._kernels is not None
    assert led(verifier, made.vdaf, made.nonces, made.public_shares, made.leader) == made.pure_leader()
    found = helped(verifier, made.vdaf, made.nonces, made.public_shares, made.helper, made.inbounds)
    assert found == made.pure_helper()
    assert verifier.redone == 0


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize("reports", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_prover_makes_the_shares_of_pure_python(name: str, reports: int, level: int) -> None:
    made = batch_of(name, reports)
    found = BatchProver(made.vdaf, CTX, level).shard(made.measurements, made.nonces, made.rands)
    assert found == list(zip(made.public_shares, made.leader, made.helper, strict=True))


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize("name", NAMES)
def test_aggregate_is_the_sum_of_the_accepted_out_shares(name: str, level: int) -> None:
    made = batch_of(name, 9)
    vdaf = made.vdaf
    out_shares = [result.out_share for result in made.pure_helper()]
    accepted = bytes((1, 0, 1, 1, 0, 1, 1, 1, 0))
    expected = vdaf.merge(None, [share for share, chosen in zip(out_shares, accepted, strict=True) if chosen])
    kernels = Kernels(vdaf, CTX, level)
    rows = b"".join(map(vdaf.encode_out_share, out_shares))
    assert kernels.aggregate(rows, accepted) == vdaf.encode_agg_share(expected)
    largest = vdaf.field.encode_vec([vdaf.field.MODULUS - 1] * vdaf.flp.OUTPUT_LEN)
    expected = [vdaf.field.MODULUS - 300] * vdaf.flp.OUTPUT_LEN
    assert kernels.aggregate(largest * 300, bytes([1]) * 300) == vdaf.encode_agg_share(expected)
    assert kernels.aggregate(rows, bytes(9)) == bytes(len(largest))
    whole = vdaf.encode_agg_share(vdaf.merge(None, out_shares))
    for verifier in (BatchVerifier(vdaf, KEY, CTX, level), pure_verifier(vdaf)):
        assert verifier.aggregate(rows) == whole
        assert verifier.aggregate(b"") == bytes(len(largest))
        with pytest.raises(ValueError, match="whole out shares"):
            verifier.aggregate(rows[:-1])


@pytest.mark.parametrize("name", NAMES)
def test_without_kernels_the_rows_are_the_same(name: str) -> None:
    made = batch_of(name, 7)
    leader = [b"", *made.leader[1:]]
    verifier = pure_verifier(made.vdaf)
    found = led(verifier, made.vdaf, made.nonces, made.public_shares, leader)
    assert comparable(found) == comparable(made.pure_leader(leader))
    answers = helped(verifier, made.vdaf, made.nonces, made.public_shares, made.helper, made.inbounds)
    assert answers == made.pure_helper()


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize("name", ["count", "sum", "histogram", "multihot", "noisy vector", "three proofs"])
def test_extreme_elements_are_judged_one_by_one(name: str, level: int) -> None:
    made = batch_of(name, 9)
    field = made.vdaf.field
    size = field.ENCODED_SIZE
    leader = list(made.leader)
    ends = (field.MODULUS - 1, field.MODULUS, (1 << 8 * size) - 1, 0)
    for row, value in enumerate(ends):
        leader[2 * row] = value.to_bytes(size, "little") + leader[2 * row][size:]
    last = size * (made.vdaf.flp.MEAS_LEN + 1)
    leader[7] = leader[7][:last] + field.MODULUS.to_bytes(size, "little") + leader[7][last + size :]
    found = led(BatchVerifier(made.vdaf, KEY, CTX, level), made.vdaf, made.nonces, made.public_shares, leader)
    assert comparable(found) == comparable(made.pure_leader(leader))
    assert [isinstance(result, DecodeError) for result in found].count(True) == 3


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize(
    "name", ["count", "sum", "sumvec", "histogram", "noisy vector", "bounded bits", "three proofs"]
)
def test_every_byte_of_a_leader_message_counts(name: str, level: int) -> None:
    made = batch_of(name, 9)
    inbounds = []
    for row, inbound in enumerate(made.inbounds):
        at = 5 + row * (len(inbound) - 5) // 9
        inbounds.append(inbound[:at] + bytes((inbound[at] ^ 1,)) + inbound[at + 1 :])
    inbounds[3] = made.inbounds[3]
    inbounds[4] = made.inbounds[4][:5] + b"\xff" * (len(made.inbounds[4]) - 5)
    verifier = BatchVerifier(made.vdaf, KEY, CTX, level)
    found = helped(verifier, made.vdaf, made.nonces, made.public_shares, made.helper, inbounds)
    assert comparable(found) == comparable(made.pure_helper(inbounds=inbounds))
    assert [isinstance(result, ping_pong.FinishedWithOutbound) for result in found].count(True) == 1


@pytest.mark.parametrize("level", PATHS)
@pytest.mark.parametrize("name", ["count", "histogram", "noisy vector"])
def test_wrong_lengths_cost_only_their_own_report(name: str, level: int) -> None:
    made = batch_of(name, 9)
    verifier = BatchVerifier(made.vdaf, KEY, CTX, level)
    leader, helper, inbounds = list(made.leader), list(made.helper), list(made.inbounds)
    leader[1], leader[5] = leader[1][:-1], b""
    helper[2], helper[3] = helper[2] + b"\0", b""
    inbounds[6], inbounds[7], inbounds[8] = b"", inbounds[7][:-1], b"\1" + inbounds[8][1:]
    found = led(verifier, made.vdaf, made.nonces, made.public_shares, leader)
    assert comparable(found) == comparable(made.pure_leader(leader))
    answers = helped(verifier, made.vdaf, made.nonces, made.public_shares, helper, inbounds)
    assert comparable(answers) == comparable(made.pure_helper(helper, inbounds))
    with pytest.raises(ValueError, match="one value of each kind"):
        led(verifier, made.vdaf, made.nonces, made.public_shares, leader[:-1])
    with pytest.raises(ValueError, match="nonce has 15 bytes"):
        led(verifier, made.vdaf, [nonce[1:] for nonce in made.nonces], made.public_shares, made.leader)


@pytest.mark.parametrize("level", PATHS)
def test_flagged_reports_are_verified_again_up_to_a_bound(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = batch_of("histogram", 9)
    verifier = BatchVerifier(made.vdaf, KEY, CTX, level)
    run = Kernels.verify_init
    monkeypatch.setattr(Kernels, "verify_init", lambda *args: replace(run(*args), flags=bytes([1]) * 9))
    found = led(verifier, made.vdaf, made.nonces, made.public_shares, made.leader)
    assert found[: batch.MIN_REDO] == made.pure_leader()[: batch.MIN_REDO]
    assert [str(result) for result in found[batch.MIN_REDO :]] == ["too many reports of a batch need verifying again"]
    assert verifier.redone == batch.MIN_REDO
    again = verifier.leader(made.nonces, made.public_shares, made.leader, bounded=False)
    assert again.errors == [None] * 9
    assert again.outbounds == [result.outbound for result in made.pure_leader()]


@pytest.mark.parametrize("level", PATHS)
def test_measurement_out_of_range_is_refused_as_in_pure_python(level: int) -> None:
    cases: list[tuple[str, Any]] = [
        ("count", 2),
        ("sum", 201),
        ("histogram", 20),
        ("histogram", -1),
        ("sumvec", [0] * 5),
        ("sumvec", [0] * 5 + [10]),
        ("multihot", [1] * 4 + [0] * 5),
        ("multihot", [2] + [0] * 8),
        ("noisy vector", [7] * 7 + [0] * 6),
        ("noisy vector", [7] * 7 + [0] * 6 + [10]),
        ("noisy vector", [7] * 6 + [15] + [0] * 7),
        ("noisy vector", [7] * 5 + [13, 12] + [0] * 7),
        ("bounded bits", [0] * 20 + [2]),
        ("bounded bits", [0] * 21 + [0] * 21),
        ("wide vector", [WIDE.max_value] * 70 + [0] * 70),
    ]
    for name, measurement in cases:
        vdaf = INSTANCES[name][0]
        with pytest.raises(ValueError, match="measurement"):
            BatchProver(vdaf, CTX, level).shard([measurement], [bytes(16)], [bytes(vdaf.RAND_SIZE)])


@pytest.mark.parametrize("level", PATHS)
def test_kernels_find_vectors_that_are_too_long(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vdaf = Prio3L2BoundSum(2, NOISY, 5)
    circuit = vdaf.flp.circuit
    assert isinstance(circuit, L2BoundSum)
    forged: dict[str, tuple[list[int], int]] = {
        "short enough": ([14, 8, 8, 8, 8, 9, 8], 58),
        "one unit more": ([14, 10, 8, 8, 8, 7, 7], 60),
        "another length": ([14, 8, 8, 8, 8, 9, 8], 57),
    }
    rng = random.Random(1)
    nonces = [rng.randbytes(16) for _ in forged]
    columns: list[tuple[bytes, bytes, bytes]] = []
    for nonce, (values, square) in zip(nonces, forged.values(), strict=True):
        bits = [bit for value in values for bit in circuit.integers.encode(value)]
        bits += [0] * (circuit.MEAS_LEN - len(bits) - circuit.square.bits) + circuit.square.encode(square)
        monkeypatch.setattr(vdaf.flp, "encode", lambda _, bits=bits: bits)
        public, shares = vdaf.shard(CTX, [], nonce, rng.randbytes(vdaf.RAND_SIZE))
        columns.append((vdaf.encode_public_share(public), *map(vdaf.encode_input_share, shares)))  # type: ignore[arg-type]
    publics, leaders, helpers = zip(*columns, strict=True)
    verifier = BatchVerifier(vdaf, KEY, CTX, level)
    inbounds = verifier.leader(nonces, publics, leaders).outbounds
    found = verifier.helper(nonces, publics, helpers, inbounds)
    assert [error is None for error in found.errors] == [True, False, False]
    assert [NOISY.square(values) for values, _ in forged.values()] == [58, 61, 58]


P = Field128.MODULUS
FORGED = (0, 1, 2, P - 1, (P + 1) // 2, pow(7, (P - 1) // 4, P))
"""Elements in place of bits; the last is a root of -1, whose square cancels that of 1."""


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_of_forged_vectors_every_level_accepts_exactly_those_that_are_valid(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["bounded bits", "bounded number", "noisy vector"]))
    vdaf, draw = INSTANCES[name]
    circuit = vdaf.flp.circuit
    assert isinstance(circuit, L2BoundSum)
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    meas = circuit.encode(draw(rng))
    at = data.draw(st.lists(st.tuples(st.integers(0, len(meas) - 1), st.sampled_from(FORGED)), max_size=3))
    for place, element in at:
        meas[place] = element
    values = circuit.integers.decode_vec(meas[: circuit.bounds.length * circuit.integers.bits])
    (square,) = circuit.square.decode_vec(meas[-circuit.square.bits :])
    valid = max(meas) < 2 and circuit.bounds.square(values) == square
    nonce, rand = rng.randbytes(16), rng.randbytes(vdaf.RAND_SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vdaf.flp, "encode", lambda _: meas)
        public, shares = vdaf.shard(CTX, [], nonce, rand)
    first, second = map(vdaf.encode_input_share, shares)
    columns = [nonce], [vdaf.encode_public_share(public)]
    for verifier in (pure_verifier(vdaf), *(BatchVerifier(vdaf, KEY, CTX, level) for level in range(len(NATIVE)))):
        sent = verifier.leader(*columns, [first]).outbounds
        assert (verifier.helper(*columns, [second], sent).errors == [None]) == valid


@pytest.mark.parametrize("level", PATHS)
def test_an_empty_batch_is_fine(level: int) -> None:
    vdaf = INSTANCES["histogram"][0]
    assert led(BatchVerifier(vdaf, KEY, CTX, level), vdaf, [], [], []) == []
    assert helped(BatchVerifier(vdaf, KEY, CTX, level), vdaf, [], [], [], []) == []
    assert BatchProver(vdaf, CTX, level).shard([], [], []) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_bytes_end_as_they_do_in_pure_python(data: st.DataObject) -> None:
    made = batch_of(data.draw(st.sampled_from(["bounded number", "count", "histogram", "sum"])), 7)
    leader = list(made.leader)
    helper = list(made.helper)
    inbounds = list(made.inbounds)
    for column in (leader, helper, inbounds):
        row = data.draw(st.integers(0, 6))
        size = len(column[row])
        column[row] = data.draw(st.one_of(st.binary(max_size=64), st.binary(min_size=size, max_size=size)))
    level = data.draw(st.sampled_from(range(len(NATIVE))))
    verifier = BatchVerifier(made.vdaf, KEY, CTX, level)
    found = led(verifier, made.vdaf, made.nonces, made.public_shares, leader)
    assert comparable(found) == comparable(made.pure_leader(leader))
    answers = helped(verifier, made.vdaf, made.nonces, made.public_shares, helper, inbounds)
    assert comparable(answers) == comparable(made.pure_helper(helper, inbounds))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=4, max_size=4), st.integers(0, 3))
def test_kernels_refuse_buffers_of_any_other_length(lengths: list[int], agg_id: int) -> None:
    kernels = Kernels(INSTANCES["histogram"][0], CTX, 0)
    key, nonces, public_shares, input_shares = (bytes(length) for length in lengths)
    with pytest.raises(ValueError, match="one row per report"):
        kernels.verify_init(agg_id, key, nonces + b"\0", public_shares, input_shares)
    with pytest.raises(ValueError, match="one row per report"):
        kernels.aggregate(public_shares + b"\0", bytes(3))


def test_instances_without_kernels_take_the_pure_path() -> None:
    three_shares = Prio3Histogram(3, 4, 2)
    assert kernels_for(three_shares, CTX, 0) is None
    assert kernels_for(Prio3Count(2), bytes(2000), 0) is None
    assert kernels_for(Prio3Histogram(2, 1 << 19, 512), CTX, 0) is None
    assert kernels_for(Prio3SumVec(2, 2, 1 << 70, 3), CTX, 0) is None
    assert BatchVerifier(three_shares, KEY, CTX, 0)._kernels is None
