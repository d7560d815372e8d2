"""Prio3CountVec: independent proofs of bits, whose shares may change places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import DecodeError
from tacit.vdaf.count_vec import ALGORITHM_ID, MAX_LENGTH, Prio3CountVec
from tacit.vdaf.flp import VerifyError
from tacit.vdaf.native.batch import BatchVerifier
from tacit.vdaf.registry import vdaf_configuration, vdaf_from_configuration
from tacit.vdaf.shares import LeaderInputShare

DRAW = SeededEntropy(b"vdaf_count_vec")
CTX = b"a task"
bits = st.lists(st.integers(0, 1), min_size=1, max_size=9)


def _shared(vdaf: Prio3CountVec, measurement: list[int]) -> tuple[bytes, bytes]:
    _, shares = vdaf.shard(CTX, measurement, bytes(16), DRAW(vdaf.RAND_SIZE))
    leader, helper = map(vdaf.encode_input_share, shares)
    return leader, helper


def _verified(vdaf: Prio3CountVec, leader: bytes, helper: bytes) -> list[int]:
    """What the two out shares add up to, by the steps of the draft."""
    key, nonce = DRAW(32), DRAW(16)
    states, verifiers = zip(
        *(
            vdaf.verify_init(key, CTX, agg_id, None, nonce, None, vdaf.decode_input_share(agg_id, encoded))
            for agg_id, encoded in enumerate((leader, helper))
        ),
        strict=True,
    )
    message = vdaf.verifier_shares_to_message(CTX, None, verifiers)
    outs = [vdaf.verify_next(CTX, state, message) for state in states]
    return [int(number) for number in vdaf.unshard(None, outs, 1)]


@given(bits)
@settings(max_examples=40, deadline=None)
def test_shares_of_bits_verify_and_add_up_to_them(measurement: list[int]) -> None:
    vdaf = Prio3CountVec(2, len(measurement))
    assert _verified(vdaf, *_shared(vdaf, measurement)) == measurement


@given(bits, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_cells_that_change_their_places_still_verify(measurement: list[int], chance: object) -> None:
    vdaf = Prio3CountVec(2, len(measurement))
    leader, helper = _shared(vdaf, measurement)
    order = list(range(len(measurement)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    moved = [
        b"".join(share[size * place : size * (place + 1)] for place in order)
        for share, size in ((leader, vdaf.LEADER_CELL_SIZE), (helper, vdaf.HELPER_CELL_SIZE))
    ]
    assert _verified(vdaf, moved[0], moved[1]) == [measurement[place] for place in order]


def test_one_cell_that_is_no_bit_is_found_wherever_it_stands() -> None:
    vdaf = Prio3CountVec(2, 4)
    for place in range(4):
        leader, helper = _shared(vdaf, [0, 1, 0, 1])
        share = vdaf.decode_input_share(0, leader)
        assert isinstance(share, LeaderInputShare)
        share.meas_share[place] = (share.meas_share[place] + 2) % vdaf.field.MODULUS
        with pytest.raises(VerifyError):
            _verified(vdaf, vdaf.encode_input_share(share), helper)


def test_a_proof_made_for_one_cell_does_not_prove_another() -> None:
    vdaf = Prio3CountVec(2, 2)
    leader, helper = _shared(vdaf, [0, 1])
    swapped = helper[32:] + helper[:32]
    with pytest.raises(VerifyError):
        _verified(vdaf, leader, swapped)


def test_shares_made_for_another_task_do_not_verify() -> None:
    vdaf = Prio3CountVec(2, 1)
    leader, helper = vdaf.shard_cell(b"another task", 1, DRAW(vdaf.CELL_RAND_SIZE))
    with pytest.raises(VerifyError):
        _verified(vdaf, leader, helper)


def test_a_batch_comes_out_as_its_reports_do_and_a_bad_one_stands_alone() -> None:
    vdaf, key = Prio3CountVec(2, 3), DRAW(32)
    measurements = [[0, 0, 1], [1, 1, 1], [0, 1, 0]]
    leaders, helpers = (list(column) for column in zip(*(_shared(vdaf, bits) for bits in measurements), strict=True))
    helpers[1] = DRAW(len(helpers[1]))
    nonces, none = [DRAW(16) for _ in leaders], [b""] * 3
    batch = BatchVerifier(vdaf, key, CTX)
    first = batch.leader(nonces, none, leaders)
    second = batch.helper(nonces, none, helpers, first.outbounds)
    assert [error is None for error in second.errors] == [True, False, True]
    size = len(first.out_shares) // 3
    kept = first.out_shares[:size] + first.out_shares[2 * size :]
    sums = [vdaf.decode_agg_share(batch.aggregate(shares)) for shares in (kept, second.out_shares)]
    assert vdaf.unshard(None, sums, 2) == [0, 1, 1]


@given(st.integers(1, 64))
@settings(max_examples=20, deadline=None)
def test_configurations_and_shares_come_back_from_their_bytes(length: int) -> None:
    vdaf = Prio3CountVec(2, length)
    again = vdaf_from_configuration(ALGORITHM_ID, vdaf_configuration(vdaf))
    assert isinstance(again, Prio3CountVec)
    assert again.length == length
    leader, helper = _shared(vdaf, [1] * length)
    assert len(leader) == vdaf.leader_share_size
    for agg_id, encoded in enumerate((leader, helper)):
        assert again.encode_input_share(again.decode_input_share(agg_id, encoded)) == encoded


def test_lengths_shares_and_measurements_out_of_range_are_refused() -> None:
    for length in (0, MAX_LENGTH + 1):
        with pytest.raises(ValueError, match="length must be"):
            Prio3CountVec(2, length)
    with pytest.raises(ValueError, match="two shares"):
        Prio3CountVec(3, 1)
    vdaf = Prio3CountVec(2, 2)
    for measurement in ([0], [0, 2], [0, 1, 1]):
        with pytest.raises(ValueError, match="2 bits"):
            vdaf.shard(CTX, measurement, bytes(16), bytes(vdaf.RAND_SIZE))
    for agg_id, encoded in ((0, bytes(95)), (1, bytes(63))):
        with pytest.raises(DecodeError, match="input share has"):
            vdaf.decode_input_share(agg_id, encoded)
