"""Two servers: sharings and proofs that were made long before they are sent, and still verify."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import DecodeError
from tacit.methods.base.draws import ONE, keep_threshold
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.state import known_bit
from tacit.panprivate.two_servers import (
    SharedCells,
    SharedNonZero,
    SharedOccurrences,
    Sharing,
    opened_share,
    sealed_shares,
)
from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.flp import VerifyError
from tests.kit.watched import scripted

DRAW = SeededEntropy(b"panprivate_two_servers")
CTX = b"a task"
KEYS = (PrivateKey.generate(DRAW), PrivateKey.generate(DRAW))
SHARING = Sharing(KEYS[0].public_key(), KEYS[1].public_key(), CTX)
EPSILON0 = Decimal(2)


def _verified(cells: SharedCells, context: bytes = CTX) -> list[int]:
    """The bits in ``cells``, by what both servers do: decrypt, verify, add up."""
    vdaf, verify_key, nonce = Prio3CountVec(2, len(cells)), DRAW(32), DRAW(16)
    states, verifiers = [], []
    for agg_id, (key, sealed) in enumerate(zip(KEYS, sealed_shares(cells), strict=True)):
        share = vdaf.decode_input_share(agg_id, opened_share(key, agg_id, len(cells), sealed))
        state, verifier = vdaf.verify_init(verify_key, context, agg_id, None, nonce, None, share)
        states.append(state)
        verifiers.append(verifier)
    message = vdaf.verifier_shares_to_message(context, None, verifiers)
    outs = [vdaf.verify_next(context, state, message) for state in states]
    return [int(number) for number in vdaf.unshard(None, outs, 1)]


def _after(machine: SharedNonZero | SharedOccurrences, stream: tuple[int, ...]) -> SharedCells:
    state = machine.initial(DRAW)
    for event in stream:
        state = machine.step(event, state, DRAW)
    return state


@pytest.mark.parametrize("stream", list(itertools.product((0, 1), repeat=3)))
def test_the_shares_hold_whether_and_how_often_for_every_stream_of_three_steps(stream: tuple[int, ...]) -> None:
    assert _verified(_after(SharedNonZero(SHARING), stream)) == [max(stream)]
    for k in (1, 2, 4):
        count = sum(stream)
        exactly = [int(count == cell) for cell in range(k)]
        at_least = [int(count >= cell) for cell in range(1, k + 1)]
        assert _verified(_after(SharedOccurrences(SHARING, k), stream)) == exactly + at_least


@pytest.mark.parametrize(("bit", "coin"), list(itertools.product((0, 1), repeat=2)))
def test_an_answer_is_replaced_by_a_coin_exactly_at_the_threshold(bit: int, coin: int) -> None:
    state = (SHARING.made(bit, DRAW),)
    edge = 2 * keep_threshold(EPSILON0, 1) - ONE
    for drawn, expected in ((edge - 1, bit), (edge, coin)):
        entropy = scripted([drawn.to_bytes(16, "big"), bytes([coin])], DRAW)
        assert _verified(SharedNonZero(SHARING).answer(state, EPSILON0, entropy)) == [expected]


def test_a_histogram_sends_exactly_i_and_at_least_k_each_with_half_of_epsilon() -> None:
    machine = SharedOccurrences(SHARING, 2)
    edge = 2 * keep_threshold(EPSILON0 / 2, 1) - ONE
    for events, expected in ((0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1]), (3, [0, 0, 1])):
        kept = machine.answer(_after(machine, (1,) * events), EPSILON0, _below(edge - 1))
        assert _verified(kept) == expected
    replaced = machine.answer(_after(machine, ()), EPSILON0, _below(edge))
    assert _verified(replaced) == [1, 1, 1]


def _below(drawn: int) -> Callable[[int], bytes]:
    """Every draw of 16 bytes is ``drawn``, every coin 1."""

    def entropy(length: int) -> bytes:
        return {16: drawn.to_bytes(16, "big"), 1: b"\x01"}.get(length) or DRAW(length)

    return entropy


@pytest.mark.parametrize("event", [0, 1])
def test_a_step_leaves_no_element_of_the_state_as_it_was(event: int) -> None:
    machine = SharedOccurrences(SHARING, 2)
    before = machine.initial(DRAW)
    after = machine.step(event, before, DRAW)
    old, new = (_elements(cells) for cells in (before, after))
    assert len(new) == len(old) == machine.cells * 8
    assert not old & new


def _elements(cells: SharedCells) -> set[bytes]:
    parts = [part for cell in cells for part in (*cell.leader, *cell.helper)]
    return {half for part in parts for half in (part.ephemeral, part.masked)}


def _parts_of(agg_id: int, cells: SharedCells) -> list[bytes]:
    """What one server's key opens of a copied state, cell by cell."""
    share = opened_share(KEYS[agg_id], agg_id, len(cells), sealed_shares(cells)[agg_id])
    size = len(share) // len(cells)
    return [share[at : at + size] for at in range(0, len(share), size)]


@pytest.mark.parametrize("agg_id", [0, 1])
@pytest.mark.parametrize("times", [0, 1, 2, 3, 5])
def test_an_intruder_with_one_servers_key_counts_the_events_between_two_copies(agg_id: int, times: int) -> None:
    """The gap that ``docs/pan-privacy.md`` states: cells that were moved are recognised, new ones are new."""
    k = 4
    machine = SharedOccurrences(SHARING, k)
    before = _after(machine, (1, 0))
    after = before
    for step in range(6):
        after = machine.step(int(step < times), after, DRAW)
    old, new = _parts_of(agg_id, before), _parts_of(agg_id, after)
    assert len(set(old) | set(new)) == 2 * k + 2 * min(times, k), "two new cells for every event"
    assert [old.index(part) if part in old else None for part in new[:k]] == [
        cell - times if cell >= times else None for cell in range(k)
    ]
    one = SharedNonZero(SHARING)
    first = _after(one, ())
    second = one.step(int(times > 0), first, DRAW)
    assert (_parts_of(agg_id, first) != _parts_of(agg_id, second)) == (times > 0)


def test_shares_made_for_another_task_do_not_verify() -> None:
    with pytest.raises(VerifyError):
        _verified(_after(SharedNonZero(SHARING), (1,)), b"another task")


def test_what_is_no_ciphertext_or_carries_no_share_is_refused() -> None:
    leader, _ = sealed_shares(_after(SharedNonZero(SHARING), ()))
    for sealed in (leader[:-1], b"", b"\xff" * len(leader), known_bit(1).encode() * 2):
        with pytest.raises(DecodeError):
            opened_share(KEYS[0], 0, 1, sealed)
    bit = KEYS[0].public_key().rerandomise(known_bit(1), DRAW).encode()
    with pytest.raises(DecodeError, match="padding"):
        opened_share(KEYS[0], 0, 1, bit * 2)
