"""One server: what the state holds after every stream of events, and with which probabilities an answer is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import ONE
from tacit.methods.base.statistics import MAX_OCCURRENCES
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.panprivate.discrete_logarithm import DiscreteLogarithm
from tacit.panprivate.elgamal import Ciphertext, PrivateKey
from tacit.panprivate.single_server import Cells, NonZero, Occurrences, randomised_bit
from tacit.panprivate.state import known_bit
from tests.kit.watched import scripted

DRAW = SeededEntropy(b"panprivate_single_server")
KEY = PrivateKey.generate(DRAW)
PUBLIC = KEY.public_key()
EPSILON0 = Decimal(2)


def _bits(cells: Cells) -> list[int]:
    return [KEY.open_bit(cell.encode()) for cell in cells]


def _after(machine: NonZero | Occurrences, stream: tuple[int, ...]) -> Cells:
    state = machine.initial(DRAW)
    for event in stream:
        state = machine.step(event, state, DRAW)
    return state


@pytest.mark.parametrize("stream", list(itertools.product((0, 1), repeat=4)))
def test_the_state_holds_whether_and_how_often_for_every_stream_of_four_steps(stream: tuple[int, ...]) -> None:
    assert _bits(_after(NonZero(PUBLIC), stream)) == [max(stream)]
    for k in (1, 2, 3, 4, 5):
        expected = [int(cell == min(sum(stream), k)) for cell in range(k + 1)]
        assert _bits(_after(Occurrences(PUBLIC, k), stream)) == expected


@pytest.mark.parametrize("events", range(7))
def test_the_mean_counts_a_device_with_more_than_k_events_as_k(events: int) -> None:
    machine, scale, flips = Occurrences(PUBLIC, 3), 5, 9
    sent = machine.mean(_after(machine, (1,) * events), scale, flips, DRAW)
    number = DiscreteLogarithm(0, scale * 3 + flips).of(KEY.decrypt(sent))
    assert 0 <= number - scale * min(events, 3) <= flips


def test_the_noise_of_a_mean_is_the_number_of_ones_among_the_flips_drawn() -> None:
    machine = Occurrences(PUBLIC, 2)
    state = _after(machine, (1,))
    for drawn, ones in ((0b1011, 3), (0, 0), (0b1111, 4)):
        entropy = scripted([bytes([drawn])], DRAW)
        number = DiscreteLogarithm(0, 100).of(KEY.decrypt(machine.mean(state, 10, 4, entropy)))
        assert number == 10 + ones


def _outcomes(bit: int, keep: int) -> Iterator[tuple[Fraction, int]]:
    """Probability and bit of every class of draws of ``randomised_bit``; the bounds of the classes are tried."""
    edge = 2 * keep - ONE
    for low, high in ((0, edge), (edge, ONE)):
        for coin in (0, 1):
            results = {
                KEY.open_bit(
                    randomised_bit(
                        known_bit(bit), keep, PUBLIC, scripted([drawn.to_bytes(16, "big"), bytes([coin])], DRAW)
                    ).encode()
                )
                for drawn in (low, high - 1)
            }
            (result,) = results
            yield Fraction(high - low, ONE) / 2, result


@pytest.mark.parametrize("epsilon0", ["0.000001", "0.5", "2", "8", "40"])
def test_an_answer_is_wrong_with_exactly_the_probability_of_the_methods_that_do_decrypt(epsilon0: str) -> None:
    one_cell, vector = Rr(Decimal(epsilon0)), Rappor(Decimal(epsilon0), 4, 4)
    for method in (one_cell, vector):
        keep = method.output_probabilities()[0]
        threshold = int(keep * ONE)
        for bit in (0, 1):
            wrong = sum(weight for weight, result in _outcomes(bit, threshold) if result != bit)
            assert wrong == 1 - keep


def test_a_histogram_flips_two_cells_with_half_of_epsilon_each() -> None:
    """The machines' own thresholds: drawn just below and at the edge at which a cell is replaced."""
    edge = 2 * int(Rappor(EPSILON0, 3, 3).output_probabilities()[0] * ONE) - ONE
    machine = Occurrences(PUBLIC, 2)
    state = tuple(map(known_bit, (1, 0, 0)))
    kept = _each(edge - 1, coin=1, cells=3)
    replaced = _each(edge, coin=1, cells=3)
    assert _bits(machine.histogram(state, EPSILON0, kept)) == [1, 0, 0]
    assert _bits(machine.histogram(state, EPSILON0, replaced)) == [1, 1, 1]


def test_a_count_is_randomised_with_all_of_epsilon() -> None:
    edge = 2 * int(Rr(EPSILON0).output_probabilities()[0] * ONE) - ONE
    state = (known_bit(0),)
    assert _bits(NonZero(PUBLIC).answer(state, EPSILON0, _each(edge - 1, coin=1, cells=1))) == [0]
    assert _bits(NonZero(PUBLIC).answer(state, EPSILON0, _each(edge, coin=1, cells=1))) == [1]


def _each(drawn: int, coin: int, cells: int) -> Callable[[int], bytes]:
    """The same draws for every cell."""
    script = [drawn.to_bytes(16, "big"), bytes([coin]), DRAW(64)] * cells
    return scripted(script, DRAW)


def test_what_is_sent_shares_no_element_with_the_state() -> None:
    machine = Occurrences(PUBLIC, 3)
    state = _after(machine, (1, 0))
    sent = (*machine.histogram(state, EPSILON0, DRAW), machine.mean(state, 1, 8, DRAW))
    assert not _elements(state) & _elements(sent)


def _elements(cells: Cells) -> set[bytes]:
    def halves(cell: Ciphertext) -> tuple[bytes, bytes]:
        return cell.ephemeral, cell.masked

    return {half for cell in cells for half in halves(cell)}


@pytest.mark.parametrize("k", [0, MAX_OCCURRENCES + 1])
def test_a_number_of_buckets_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="k must be from 1"):
        Occurrences(PUBLIC, k)
