"""Prio3 end to end: every circuit with two and three shares, tampering, domains, strict encodings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from tacit.vdaf.field import Field64, Field128
from tacit.vdaf.gadgets import PolyEval
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.prio3 import (
    HelperInputShare,
    LeaderInputShare,
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
    VerifyError,
)

CTX = b"dap-18" + bytes(32)
KEY = bytes(range(32))
NONCE = bytes(range(16))

Make = Callable[[int], Prio3[Any]]

CASES: list[tuple[Make, list[Any], Any]] = [
    (Prio3Count, [0, 1, 1, True], 3),
    (lambda shares: Prio3Sum(shares, 1), [0, 1, 1], 2),
    (lambda shares: Prio3Sum(shares, 1337), [0, 1, 1337, 1023, 1024], 3385),
    (lambda shares: Prio3SumVec(shares, 3, 1, 2), [[0, 1, 1], [1, 1, 0]], [1, 2, 1]),
    (lambda shares: Prio3SumVec(shares, 2, 5, 4), [[5, 4], [3, 0]], [8, 4]),
    (lambda shares: Prio3Histogram(shares, 16, 6), [0, 15, 15], [1, *[0] * 14, 2]),
    (lambda shares: Prio3Histogram(shares, 1, 1), [0, 0], [2]),
    (lambda shares: Prio3Histogram(shares, 3, 8), [2], [0, 0, 1]),
    (lambda shares: Prio3MultihotCountVec(shares, 4, 2, 3), [[1, 0, 1, 0], [0] * 4], [1, 0, 1, 0]),
    (lambda shares: Prio3MultihotCountVec(shares, 4, 4, 1), [[True] * 4], [1] * 4),
    (lambda shares: Prio3L1BoundSum(shares, 3, 9, 4), [[9, 0, 0], [2, 3, 4], [0, 0, 0]], [11, 3, 4]),
    (lambda shares: Prio3L1BoundSum(shares, 1, 1, 1), [[1], [0]], [1]),
]
MAKERS = [make for make, _, _ in CASES]
VDAFS = [make(2) for make in MAKERS]
MEASUREMENTS = [measurements[-1] for _, measurements, _ in CASES]


def _rand(vdaf: Prio3[Any], label: object = 0) -> bytes:
    return hashlib.shake_128(repr(label).encode()).digest(vdaf.RAND_SIZE)


def _encoded_report(vdaf: Prio3[Any], measurement: Any, label: object = 0) -> tuple[bytes, list[bytes]]:
    public_share, input_shares = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf, label))
    return vdaf.encode_public_share(public_share), [vdaf.encode_input_share(share) for share in input_shares]


def _verify(vdaf: Prio3[Any], public_share: bytes, input_shares: Sequence[bytes]) -> list[list[int]]:
    """Verification of one report with every message through its encoding."""
    states, verifier_shares = [], []
    for agg_id, encoded in enumerate(input_shares):
        state, share = vdaf.verify_init(
            KEY,
            CTX,
            agg_id,
            None,
            NONCE,
            vdaf.decode_public_share(public_share),
            vdaf.decode_input_share(agg_id, encoded),
        )
        states.append(state)
        verifier_shares.append(vdaf.decode_verifier_share(state, vdaf.encode_verifier_share(share)))
    encoded_message = vdaf.encode_verifier_message(vdaf.verifier_shares_to_message(CTX, None, verifier_shares))
    return [vdaf.verify_next(CTX, state, vdaf.decode_verifier_message(state, encoded_message)) for state in states]


@pytest.mark.parametrize("shares", [2, 3])
@pytest.mark.parametrize(("make", "measurements", "expected"), CASES)
def test_aggregate_of_honest_reports_is_exact(make: Make, measurements: list[Any], expected: Any, shares: int) -> None:
    vdaf = make(shares)
    agg_shares = [vdaf.agg_init(None) for _ in range(shares)]
    for label, measurement in enumerate(measurements):
        out_shares = _verify(vdaf, *_encoded_report(vdaf, measurement, label))
        agg_shares = [
            vdaf.agg_update(None, agg_share, vdaf.decode_agg_share(vdaf.encode_out_share(out_share)))
            for agg_share, out_share in zip(agg_shares, out_shares, strict=True)
        ]
    decoded = [vdaf.decode_agg_share(vdaf.encode_agg_share(share)) for share in agg_shares]
    assert vdaf.unshard(None, decoded, len(measurements)) == expected


@settings(max_examples=25, deadline=None)
@given(
    measurement=st.lists(st.integers(0, 200), min_size=5, max_size=5),
    rand=st.binary(min_size=128, max_size=128),
    chunk_length=st.integers(1, 45),
)
def test_any_vector_and_chunk_length_round_trips(measurement: list[int], rand: bytes, chunk_length: int) -> None:
    vdaf = Prio3SumVec(2, 5, 200, chunk_length)
    public_share, shares = vdaf.shard(CTX, measurement, NONCE, rand)
    encoded = [vdaf.encode_input_share(share) for share in shares]
    out_shares = _verify(vdaf, vdaf.encode_public_share(public_share), encoded)
    assert vdaf.unshard(None, out_shares, 1) == measurement


def test_merge_adds_aggregate_shares_and_of_none_is_empty() -> None:
    vdaf = Prio3Histogram(2, 3, 2)
    last = vdaf.field.MODULUS - 1
    assert vdaf.merge(None, [[1, last, 0], [2, 1, 0], [3, 5, 0]]) == [6, 5, 0]
    assert vdaf.merge(None, []) == vdaf.agg_init(None) == [0, 0, 0]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        vdaf.merge(None, [[1, 2, 3], [1, 2]])


def test_report_is_aggregated_once_and_without_parameter() -> None:
    vdaf = Prio3Count(2)
    assert vdaf.is_valid(None, [])
    assert not vdaf.is_valid(None, [None])
    parameter: Any = b""
    with pytest.raises(ValueError, match="no aggregation parameter"):
        vdaf.agg_init(parameter)


INVALID_ENCODINGS: list[tuple[Prio3[Any], list[int]]] = [
    (Prio3Count(2), [2]),
    (Prio3Sum(2, 5), [0, 2, 0]),
    (Prio3SumVec(2, 2, 5, 2), [1, 0, 1, 0, 0, 7]),
    (Prio3Histogram(2, 4, 2), [1, 1, 0, 0]),
    (Prio3Histogram(2, 4, 2), [0, 0, 0, 0]),
    (Prio3Histogram(2, 4, 2), [2, Field128.MODULUS - 1, 0, 0]),
    (Prio3MultihotCountVec(2, 4, 2, 3), [1, 1, 1, 0, 0, 1]),
    (Prio3MultihotCountVec(2, 4, 2, 3), [1, 1, 1, 0, 1, 2]),
    (Prio3L1BoundSum(2, 2, 3, 2), [1, 1, 1, 0, 1, 1]),
    (Prio3L1BoundSum(2, 2, 3, 2), [1, 1, 1, 0, 2, 1]),
    (Prio3L1BoundSum(2, 2, 3, 2), [1, 1, 0, Field128.MODULUS - 1, 1, 0]),
    (Prio3L1BoundSum(2, 2, 3, 2), [1, 0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize(("vdaf", "meas"), INVALID_ENCODINGS)
def test_proof_of_an_invalid_vector_does_not_hold(
    vdaf: Prio3[Any], meas: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vdaf.flp, "encode", lambda _: meas)
    public_share, input_shares = _encoded_report(vdaf, None)
    with pytest.raises(VerifyError, match="proof does not hold"):
        _verify(vdaf, public_share, input_shares)


@settings(max_examples=150, deadline=None)
@given(case=st.integers(0, len(VDAFS) - 1), data=st.data())
def test_report_with_one_flipped_bit_is_rejected(case: int, data: st.DataObject) -> None:
    vdaf = VDAFS[case]
    public_share, input_shares = _encoded_report(vdaf, MEASUREMENTS[case])
    pieces = [piece for piece in (public_share, *input_shares) if piece]
    which = data.draw(st.integers(0, len(pieces) - 1))
    bit = data.draw(st.integers(0, 8 * len(pieces[which]) - 1))
    flipped = bytearray(pieces[which])
    flipped[bit // 8] ^= 1 << bit % 8
    pieces[which] = bytes(flipped)
    with pytest.raises((VerifyError, DecodeError)):
        _verify(vdaf, pieces[0] if public_share else b"", pieces[-2:])


@pytest.mark.parametrize(("key", "ctx", "nonce"), [(KEY, b"x", NONCE), (KEY, CTX, bytes(16))])
def test_report_for_another_context_or_nonce_is_rejected(key: bytes, ctx: bytes, nonce: bytes) -> None:
    vdaf = Prio3Histogram(2, 16, 6)
    public_share, input_shares = vdaf.shard(CTX, 3, NONCE, _rand(vdaf))
    verifier_shares = [
        vdaf.verify_init(key, ctx, agg_id, None, nonce, public_share, share)[1]
        for agg_id, share in enumerate(input_shares)
    ]
    with pytest.raises(VerifyError):
        vdaf.verifier_shares_to_message(ctx, None, verifier_shares)


def test_aggregators_with_different_keys_reject() -> None:
    vdaf = Prio3Count(2)
    public_share, input_shares = vdaf.shard(CTX, 1, NONCE, _rand(vdaf))
    verifier_shares = [
        vdaf.verify_init(bytes((agg_id,)) * 32, CTX, agg_id, None, NONCE, public_share, share)[1]
        for agg_id, share in enumerate(input_shares)
    ]
    with pytest.raises(VerifyError):
        vdaf.verifier_shares_to_message(CTX, None, verifier_shares)


def test_wrong_verifier_message_is_rejected() -> None:
    vdaf = Prio3Histogram(2, 16, 6)
    public_share, input_shares = vdaf.shard(CTX, 3, NONCE, _rand(vdaf))
    state, _ = vdaf.verify_init(KEY, CTX, 0, None, NONCE, public_share, input_shares[0])
    with pytest.raises(VerifyError, match="joint randomness"):
        vdaf.verify_next(CTX, state, bytes(32))
    with pytest.raises(ValueError, match="missing"):
        vdaf.verify_next(CTX, state, None)


def test_query_at_a_root_of_unity_is_refused() -> None:
    flp = Prio3Count(2).flp
    with pytest.raises(VerifyError, match="root of unity"):
        flp.query([1], [0] * flp.PROOF_LEN, [1], [], 2)


def test_several_proofs_over_the_small_field_round_trip() -> None:
    vdaf = Prio3(SumVec(Field64, 3, 7, 2), 0xFFFFFFFF, 2, proofs=3)
    out_shares = _verify(vdaf, *_encoded_report(vdaf, [7, 0, 3]))
    assert vdaf.unshard(None, out_shares, 1) == [7, 0, 3]


OUT_OF_DOMAIN: list[tuple[Prio3[Any], Any]] = [
    (Prio3Count(2), 2),
    (Prio3Count(2), -1),
    (Prio3Count(2), 1.0),
    (Prio3Count(2), "1"),
    (Prio3Sum(2, 255), 256),
    (Prio3Sum(2, 255), -1),
    (Prio3Sum(2, 255), None),
    (Prio3SumVec(2, 2, 255, 4), [1, 256]),
    (Prio3SumVec(2, 2, 255, 4), [1]),
    (Prio3SumVec(2, 2, 255, 4), [1, 2, 3]),
    (Prio3SumVec(2, 2, 255, 4), 7),
    (Prio3Histogram(2, 16, 6), 16),
    (Prio3Histogram(2, 16, 6), -1),
    (Prio3Histogram(2, 16, 6), 3.0),
    (Prio3MultihotCountVec(2, 4, 2, 3), [1, 1, 1, 0]),
    (Prio3MultihotCountVec(2, 4, 2, 3), [2, 0, 0, 0]),
    (Prio3MultihotCountVec(2, 4, 2, 3), [1, 0, 0]),
    (Prio3L1BoundSum(2, 3, 9, 4), [5, 5, 0]),
    (Prio3L1BoundSum(2, 3, 9, 4), [10, 0, 0]),
    (Prio3L1BoundSum(2, 3, 9, 4), [9, -1, 0]),
    (Prio3L1BoundSum(2, 3, 9, 4), [9, 0]),
]


@pytest.mark.parametrize(("vdaf", "measurement"), OUT_OF_DOMAIN)
def test_measurement_out_of_the_domain_is_refused(vdaf: Prio3[Any], measurement: Any) -> None:
    with pytest.raises(ValueError, match=r"^a measurement "):
        vdaf.shard(CTX, measurement, NONCE, bytes(vdaf.RAND_SIZE))


BAD_PARAMETERS: list[tuple[Callable[[], object], str]] = [
    (lambda: Prio3Count(1), "shares must be an integer between 2 and 255, not 1"),
    (lambda: Prio3Count(256), "shares must be"),
    (lambda: Prio3Sum(2, 0), "max_measurement must be between 1 and"),
    (lambda: Prio3Sum(2, Field64.MODULUS), "max_measurement must be between 1 and"),
    (lambda: Prio3Sum(2, True), "max_measurement must be an integer"),
    (lambda: Prio3SumVec(2, 0, 1, 1), "length must be at least 1"),
    (lambda: Prio3SumVec(2, 1, 1, 0), "chunk_length must be at least 1"),
    (lambda: Prio3Histogram(2, 0, 1), "length must be at least 1"),
    (lambda: Prio3Histogram(2, 4, -2), "chunk_length must be at least 1"),
    (lambda: Prio3MultihotCountVec(2, 0, 1, 1), "length must be at least 1"),
    (lambda: Prio3MultihotCountVec(2, 4, 0, 1), "max_weight must be between"),
    (lambda: Prio3MultihotCountVec(2, 4, 5, 1), "max_weight 5 is above the length 4"),
    (lambda: Prio3(SumVec(Field64, 1, 1, 1), 1, 2, proofs=2), "at least 3 proofs"),
    (lambda: Prio3(Count(Field64), 1, 2, proofs=0), "proofs must be"),
    (lambda: PolyEval((1,)), "degree 1 or more"),
    (lambda: PolyEval((1, 0)), "leading coefficient"),
]


@pytest.mark.parametrize(("build", "message"), BAD_PARAMETERS)
def test_parameters_without_meaning_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_arguments_of_the_wrong_size_are_refused() -> None:
    vdaf = Prio3Histogram(2, 4, 2)
    rand = _rand(vdaf)
    with pytest.raises(ValueError, match="nonce has 15 bytes, not 16"):
        vdaf.shard(CTX, 1, NONCE[1:], rand)
    with pytest.raises(ValueError, match="rand has 127 bytes, not 128"):
        vdaf.shard(CTX, 1, NONCE, rand[1:])
    public_share, (leader, helper) = vdaf.shard(CTX, 1, NONCE, rand)
    with pytest.raises(ValueError, match="verify_key has 31 bytes"):
        vdaf.verify_init(KEY[1:], CTX, 0, None, NONCE, public_share, leader)
    with pytest.raises(ValueError, match="nonce has 0 bytes"):
        vdaf.verify_init(KEY, CTX, 0, None, b"", public_share, leader)
    with pytest.raises(ValueError, match="no aggregator 2"):
        vdaf.verify_init(KEY, CTX, 2, None, NONCE, public_share, helper)
    with pytest.raises(ValueError, match="does not belong to aggregator 1"):
        vdaf.verify_init(KEY, CTX, 1, None, NONCE, public_share, leader)
    with pytest.raises(ValueError, match="lacks its blind or joint randomness parts"):
        vdaf.verify_init(KEY, CTX, 0, None, NONCE, None, leader)


def test_shares_missing_or_incomplete_are_refused() -> None:
    vdaf = Prio3Histogram(2, 4, 2)
    public_share, input_shares = vdaf.shard(CTX, 1, NONCE, _rand(vdaf))
    shares = [
        vdaf.verify_init(KEY, CTX, agg_id, None, NONCE, public_share, share)[1]
        for agg_id, share in enumerate(input_shares)
    ]
    with pytest.raises(ValueError, match="1 verifier shares instead of 2"):
        vdaf.verifier_shares_to_message(CTX, None, shares[:1])
    with pytest.raises(ValueError, match="lacks its joint randomness part"):
        vdaf.verifier_shares_to_message(CTX, None, [shares[0], replace(shares[1], joint_rand_part=None)])
    with pytest.raises(ValueError, match="1 aggregate shares instead of 2"):
        vdaf.unshard(None, [vdaf.agg_init(None)], 0)
    with pytest.raises(ValueError, match="does not have 4 elements"):
        vdaf.unshard(None, [[0] * 4, [0] * 5], 0)


@pytest.mark.parametrize("vdaf", VDAFS)
def test_every_codec_refuses_each_wrong_length(vdaf: Prio3[Any]) -> None:
    measurement = MEASUREMENTS[VDAFS.index(vdaf)]
    public_share, input_shares = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    state, verifier_share = vdaf.verify_init(KEY, CTX, 0, None, NONCE, public_share, input_shares[0])
    codecs: list[tuple[bytes, Callable[[bytes], object]]] = [
        (vdaf.encode_public_share(public_share), vdaf.decode_public_share),
        (vdaf.encode_input_share(input_shares[0]), lambda data: vdaf.decode_input_share(0, data)),
        (vdaf.encode_input_share(input_shares[1]), lambda data: vdaf.decode_input_share(1, data)),
        (
            vdaf.encode_verifier_share(verifier_share),
            lambda data: vdaf.decode_verifier_share(state, data),
        ),
        (
            vdaf.encode_verifier_message(state.corrected_joint_rand_seed),
            lambda data: vdaf.decode_verifier_message(state, data),
        ),
        (vdaf.encode_out_share(state.out_share), vdaf.decode_agg_share),
        (vdaf.encode_agg_share(state.out_share), vdaf.decode_agg_share),
    ]
    for encoded, decode in codecs:
        decode(encoded)
        for wrong in {encoded + b"\0", encoded[:-1], encoded[:1], b"", encoded * 2} - {encoded}:
            with pytest.raises(DecodeError):
                decode(wrong)


@settings(max_examples=60, deadline=None)
@given(case=st.integers(0, len(VDAFS) - 1), data=st.binary(max_size=900), fit=st.booleans())
def test_arbitrary_bytes_are_a_leader_share_or_refused(case: int, data: bytes, fit: bool) -> None:
    vdaf = VDAFS[case]
    if fit:
        _, (leader, _) = _encoded_report(vdaf, MEASUREMENTS[case])
        data = (data + leader)[: len(leader)]
    try:
        share = vdaf.decode_input_share(0, data)
    except DecodeError:
        return
    assert vdaf.encode_input_share(share) == data


def test_unreduced_element_in_a_share_is_refused() -> None:
    vdaf = Prio3Histogram(2, 4, 2)
    _, (leader, _) = _encoded_report(vdaf, 1)
    with pytest.raises(DecodeError, match="modulus"):
        vdaf.decode_input_share(0, b"\xff" * 16 + leader[16:])
    with pytest.raises(DecodeError, match="modulus"):
        vdaf.decode_agg_share(Field128.MODULUS.to_bytes(16, "little") * 4)


def test_no_representation_shows_a_share() -> None:
    vdaf = Prio3Histogram(2, 4, 2)
    public_share, (leader, helper) = vdaf.shard(CTX, 1, NONCE, _rand(vdaf))
    state, verifier_share = vdaf.verify_init(KEY, CTX, 0, None, NONCE, public_share, leader)
    assert isinstance(leader, LeaderInputShare)
    assert isinstance(helper, HelperInputShare)
    assert repr(leader) == "LeaderInputShare()"
    assert repr(helper) == "HelperInputShare()"
    assert repr(state) == "VerifyState()"
    assert repr(verifier_share) == "VerifierShare()"
    assert repr(vdaf) == "<Prio3Histogram with 2 shares of 4 elements>"


@pytest.mark.parametrize(
    "circuit",
    [
        Count(Field64),
        Sum(Field64, 1337),
        SumVec(Field128, 3, 9, 5),
        Histogram(Field128, 11, 3),
        MultihotCountVec(Field128, 4, 2, 3),
    ],
)
def test_wires_at_a_point_are_the_weighted_wires(circuit: Circuit[Any]) -> None:
    field, arity = circuit.field, circuit.gadget.ARITY
    meas = [(7 << 50) * (k + 1) % field.MODULUS for k in range(circuit.MEAS_LEN)]
    joint_rand = [(3 << 40) + k for k in range(circuit.JOINT_RAND_LEN)]
    weights = [(5 << 45) + k for k in range(circuit.calls)]
    wires = circuit.wires(meas, joint_rand, 3)
    assert len(wires) == arity * circuit.calls
    assert circuit.wires_at(meas, joint_rand, 3, weights) == [
        field.inner_product(weights, wires[wire::arity]) for wire in range(arity)
    ]


def test_draft_example_lengths() -> None:
    lengths: dict[Prio3[Any], tuple[int, ...]] = {
        Prio3Count(2): (5, 4, 0, 1),
        Prio3Sum(2, 255): (32, 3, 0, 9),
        Prio3Sum(2, 1): (4, 3, 0, 1),
        Prio3SumVec(2, 10, 255, 9): (49, 20, 9, 1),
        Prio3Histogram(2, 4, 2): (11, 6, 2, 3),
        Prio3Histogram(2, 100, 10): (51, 22, 10, 3),
    }
    for vdaf, expected in lengths.items():
        flp = vdaf.flp
        assert expected == (flp.PROOF_LEN, flp.VERIFIER_LEN, flp.JOINT_RAND_LEN, flp.QUERY_RAND_LEN)
        assert (128 if flp.JOINT_RAND_LEN else 64) == vdaf.RAND_SIZE
