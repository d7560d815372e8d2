"""Crowds that are drawn and counted have the law of single devices, by exact enumeration of tiny populations."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from infra.lab.devices import counted
from infra.lab.devices.counted import NO_ANSWER, crowd_totals, distinct_cells, places_among, uniform_cells
from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import BYTES, ONE
from tacit.methods.bounded import DRAW_BITS, DRAW_BYTES, weight_thresholds
from tacit.methods.randomisers.shuffled import shuffled_randomiser_of
from tacit.methods.shuffled import ShuffledCounts, Zsum
from tacit.methods.shuffled_few import Flipped, Unbiased
from tests.unit.device_path import Enumerated, Law, classes

RATE = Decimal("0.25")
ZSUM = Zsum("histogram", 3, RATE)
FEW = [Unbiased("histogram", 3, RATE, 2), Flipped("histogram", 3, RATE, 2)]
COUNTS = [Zsum("count", 1, RATE), Unbiased("count", 1, RATE, 1)]
WHOLE = 1 << DRAW_BITS
NEGLIGIBLE = Fraction(1, 1 << 150)
ROUNDS = 3
Choices = Sequence[tuple[bytes, Fraction]]


def parted(edges: Sequence[int]) -> Choices:
    """One number of 192 bits for each part between these edges, and its share."""
    ends = sorted({0, WHOLE, *edges})
    return [(low.to_bytes(DRAW_BYTES, "big"), Fraction(high - low, WHOLE)) for low, high in itertools.pairwise(ends)]


class Drawn(Enumerated):
    """Goes through all that a method tells apart: ``of`` says it of each draw by its place in a call."""

    def __init__(self, size: int, of: Callable[[int], Choices]) -> None:
        super().__init__()
        self._size, self._of = size, of

    def __call__(self, size: int, /) -> bytes:
        return b"".join(self.pick(self._of(at)) for at in range(size // self._size))


def weights_of(method: Unbiased) -> Choices:
    return parted(weight_thresholds(method.cells, ONE - method.noise_threshold, method.max_weight))


def device_draws(method: ShuffledCounts) -> Drawn:
    """All draws of one device."""
    if isinstance(method, Zsum):
        return Drawn(BYTES, lambda _: classes((method.noise_threshold,), 1))
    assert isinstance(method, Unbiased)
    weights, cells = weights_of(method), method.cells
    places = [parted([-(-k * WHOLE // (cells - at)) for k in range(cells - at)]) for at in range(method.max_weight)]
    return Drawn(DRAW_BYTES, lambda at: places[at - 1] if at else weights)


def device_law(method: ShuffledCounts, answer: int | None) -> Law:
    entropy, found = device_draws(method), defaultdict[Any, Fraction](Fraction)
    for _ in entropy.runs():
        randomiser = shuffled_randomiser_of(method)
        counts = randomiser.dummy(entropy) if answer is None else randomiser.randomise(answer, entropy)
        found[tuple(counts)] += entropy.weight
    return found


def devices_law(method: ShuffledCounts, answers: Sequence[int | None]) -> Law:
    """The law of the sums of single devices."""
    found: Law = {(0,) * method.cells: Fraction(1)}
    for answer in answers:
        summed = defaultdict[Any, Fraction](Fraction)
        for (one, share), (other, more) in itertools.product(found.items(), device_law(method, answer).items()):
            summed[tuple(map(sum, zip(one, other, strict=True)))] += share * more
        found = summed
    return found


class TooLongError(Exception):
    pass


def crowd_law(method: ShuffledCounts, answers: Sequence[int | None], monkeypatch: pytest.MonkeyPatch) -> Law:
    """The law of the totals of a crowd. Uniform cells are redrawn at most ``ROUNDS`` times: how often they are does not
    depend on the names of the cells, so that what is left out has the same law for the same weights."""
    encoded = np.array([NO_ANSWER if one is None else one for one in answers])
    most = len(answers)
    if isinstance(method, Zsum):
        choices = parted(weight_thresholds(most, ONE - method.noise_threshold, most))
    else:
        assert isinstance(method, Unbiased)
        choices = weights_of(method)
    entropy = Drawn(DRAW_BYTES, lambda _: choices)
    called: list[int] = []

    def cells(count: int, size: int, _entropy: Any) -> Any:
        called.append(count)
        if len(called) > ROUNDS:
            raise TooLongError
        each = [(cell, Fraction(1, size)) for cell in range(size)]
        return np.array([entropy.pick(each) for _ in range(count)], dtype=np.int64)

    monkeypatch.setattr(counted, "uniform_cells", cells)
    parts = defaultdict[Any, Law](lambda: defaultdict(Fraction))
    for _ in entropy.runs():
        called.clear()
        try:
            totals = tuple(crowd_totals(method, encoded, entropy).tolist())
        except TooLongError:
            continue
        parts[tuple(at for at, _ in entropy._path[:most])][totals] += entropy.weight
    drawn, found = [share for _, share in choices], defaultdict[Any, Fraction](Fraction)
    for weights, law in parts.items():
        if isinstance(method, Zsum):
            for totals, share in law.items():
                found[totals] += share
            continue
        stated, finished = Fraction(1), sum(law.values())
        for at in weights:
            stated *= drawn[at]
        for totals, share in law.items():
            found[totals] += stated * share / finished
    return found


@pytest.mark.parametrize("method", [ZSUM, *FEW])
@pytest.mark.parametrize("answers", [(0, 0), (2, 0), (1, None)])
def test_the_totals_of_two_devices_have_one_law_drawn_together_or_one_by_one(
    method: ShuffledCounts, answers: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = devices_law(method, answers), crowd_law(method, answers, monkeypatch)
    assert sum(alone.values()) == 1
    assert {totals for totals in alone if alone[totals]} == set(together)
    assert all(abs(alone[totals] - share) < NEGLIGIBLE for totals, share in together.items())


@pytest.mark.parametrize("method", COUNTS)
@pytest.mark.parametrize("answers", [(0, 1), (1, 1), (0, None)])
def test_the_same_holds_of_a_count(
    method: ShuffledCounts, answers: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = devices_law(method, answers), crowd_law(method, answers, monkeypatch)
    assert {totals for totals in alone if alone[totals]} == set(together)
    assert all(abs(alone[totals] - share) < NEGLIGIBLE for totals, share in together.items())


@pytest.mark.parametrize("seed", range(20))
def test_renaming_the_cells_of_all_draws_renames_what_is_drawn(seed: int) -> None:
    """So every set of as many cells is equally likely, whatever the number of redraws."""
    generator = np.random.default_rng(seed)
    names, weights = generator.permutation(7), generator.integers(0, 8, 30)

    def sets(rename: Callable[[Any], Any]) -> Iterator[frozenset[int]]:
        draws = np.random.default_rng(seed)
        found = distinct_cells(weights, 7, lambda count: rename(draws.integers(0, 7, count)))
        for begin, end in itertools.pairwise(np.concatenate([[0], np.cumsum(weights)])):
            yield frozenset(found[begin:end].tolist())

    plain, renamed = list(sets(lambda cells: cells)), list(sets(lambda cells: names[cells]))
    assert [len(one) for one in plain] == weights.tolist()
    assert renamed == [frozenset(names[cell] for cell in one) for one in plain]


@pytest.mark.parametrize("head", [0, 5, (1 << 64) - 1])
def test_a_number_is_compared_with_a_threshold_to_its_last_bit(head: int) -> None:
    threshold = (head << 128) + (1 << 100) + 1
    drawn = [threshold - 1, threshold, threshold + 1, head << 128]
    stream = b"".join(one.to_bytes(DRAW_BYTES, "big") for one in drawn)
    assert places_among((threshold - 7, threshold), 4, lambda _: stream).tolist() == [1, 2, 2, 0]


def test_a_word_beyond_the_last_whole_multiple_of_the_cells_is_drawn_again() -> None:
    words = iter([[(1 << 64) - 1, 4], [(1 << 64) - 1], [5]])
    assert uniform_cells(2, 3, lambda _: np.array(next(words), dtype=np.uint64).tobytes()).tolist() == [2, 1]


def test_a_large_crowd_is_drawn_in_groups_and_misses_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    method, told = Flipped("histogram", 50, RATE, 30), list[int]()
    monkeypatch.setattr(counted, "TOGETHER", 100)
    totals = crowd_totals(method, np.arange(1000) % 50, SeededEntropy(3), told.append)
    assert (sum(told), len(told) > 100) == (1000, True)
    noise = 1000 * 50 * method.noise_mean
    assert abs(int(totals.sum()) - 1000 - noise) < 6 * noise**0.5


def test_an_answer_out_of_range_is_refused() -> None:
    for answer in (3, -2):
        with pytest.raises(ValueError, match="out of range"):
            crowd_totals(ZSUM, np.array([answer]), SeededEntropy(0))
