"""How long a vector with its noise may be: the bound against exact laws, and what sending 0 for longer ones costs."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from tacit.dp.noisy_length import EXCESS, NATS, longest_square
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise, vector_curve

Law = dict[tuple[int, ...], float]


def noises(length: int, flips: int) -> Law:
    """The law of centred flips (an even number of them) in each of ``length`` entries."""
    one = {k - flips // 2: math.comb(flips, k) / 2**flips for k in range(flips + 1)}
    found = {}
    for entries in itertools.product(one, repeat=length):
        found[entries] = math.prod(one[entry] for entry in entries)
    return found


def square(vector: tuple[int, ...]) -> int:
    return sum(entry * entry for entry in vector)


def moved(value: tuple[int, ...], noise: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(value, noise, strict=True)))


def test_the_stated_chance_is_that_of_the_usual_bound() -> None:
    assert math.exp(-NATS) == EXCESS < 2**-75
    assert longest_square(650, 100, 632) == 192_633, "the example of docs/prio3.md"
    assert longest_square(3, 5, 0) == 25


@pytest.mark.parametrize("flips", [2, 4, 10])
@pytest.mark.parametrize(("length", "reach"), [(1, 0), (1, 3), (2, 2), (2, 5), (3, 2)])
def test_no_honest_vector_exceeds_the_bound_more_often_than_stated(length: int, reach: int, flips: int) -> None:
    law = noises(length, flips)
    within = [
        value for value in itertools.product(range(-reach, reach + 1), repeat=length) if square(value) <= reach**2
    ]
    for nats in (0, 1, 2, 4, 8, 13):
        most = longest_square(length, reach, flips, nats)
        for value in within:
            longer = math.fsum(chance for noise, chance in law.items() if square(moved(value, noise)) > most)
            assert longer <= math.exp(-nats)


@pytest.mark.false_alarm(1e-9, "more than 800 of 4,000 vectors beyond a bound that each exceeds with chance e^-2")
def test_lengths_of_long_vectors_keep_to_the_bound_too() -> None:
    random = np.random.default_rng()
    for length, flips, reach in ((650, 770, 100), (2000, 12, 30), (16, 1650, 24)):
        drawn = random.binomial(flips, 0.5, size=(4000, length)) - flips // 2
        drawn[:, 0] += reach
        squares = (drawn.astype(np.int64) ** 2).sum(axis=1)
        assert (squares > longest_square(length, reach, flips, 2)).sum() <= 800
        assert squares.mean() > 0.5 * longest_square(length, reach, flips, 2), "the bound is of that size"


def sums(values: tuple[tuple[int, ...], ...], flips: int, most: float) -> Law:
    """The law of the sum of devices with these values, each of which sends 0 where it is too long."""
    found: Law = {(0,) * len(values[0]): 1.0}
    law = noises(len(values[0]), flips)
    for value in values:
        after: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for (before, chance), (noise, own) in itertools.product(found.items(), law.items()):
            sent = moved(value, noise)
            after[moved(before, sent if square(sent) <= most else (0,) * len(value))] += chance * own
        found = dict(after)
    return found


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return math.fsum(max(0.0, chance - math.exp(epsilon) * q.get(at, 0.0)) for at, chance in p.items())


@pytest.mark.parametrize("others", [(), ((1, 0),), ((0, -1), (1, 1))])
@pytest.mark.parametrize("most", [3, 5, 8])
def test_sending_nothing_for_what_is_too_long_costs_no_more_than_is_proved(
    others: tuple[tuple[int, ...], ...], most: int
) -> None:
    """By all outcomes of two or three devices, with bounds so short that many vectors exceed them."""
    flips, law, costs = 4, noises(2, 4), 0.0
    for one, other in itertools.permutations([(1, 0), (-1, 0), (0, 1), (1, 1)], 2):
        lost = math.fsum(
            max(
                math.fsum(chance for noise, chance in law.items() if square(moved(value, noise)) > most)
                for value in pair
            )
            for pair in ((one, other), *((each,) for each in others))
        )
        p, q = sums((one, *others), flips, math.inf), sums((other, *others), flips, math.inf)
        sent_p, sent_q = sums((one, *others), flips, most), sums((other, *others), flips, most)
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            exact, before = hockey_stick(sent_p, sent_q, epsilon), hockey_stick(p, q, epsilon)
            assert exact <= before + (1 + math.exp(epsilon)) * lost + 1e-12
            costs = max(costs, exact - before)
    # Where nearly nothing is sent, or only one device sends, longer vectors are hidden better; elsewhere it does cost.
    assert costs > (1e-3 if others and most > 3 else -1)


STEP = VectorStep.replaced(650, 200, 100, one_signed=False)


def test_a_curve_pays_for_lost_vectors_up_to_where_paying_more_gains_nothing() -> None:
    total, tail, lost = 400 * 770, 1e-12, 400 * EXCESS
    free, paying = vector_curve(total, STEP, 1, tail), vector_curve(total, STEP, 1, tail, lost)
    most = paying.most
    assert (1 + math.exp(most)) * lost == pytest.approx(tail)
    for epsilon in (0.0, 0.5, 2.0, 5.0, most):
        assert free(epsilon) + (1 + math.exp(epsilon)) * lost <= paying(epsilon) * (1 + 1e-9)
        assert paying(epsilon) <= free(epsilon) + tail + 1e-14
    assert paying(most + 5) == paying(most) > free(most + 5)


def test_an_epsilon_is_hardly_larger_where_few_are_lost_and_infinite_where_too_many_are() -> None:
    free = epsilon_vector_noise(400 * 770, STEP, 1, 1e-6)
    assert free <= epsilon_vector_noise(400 * 770, STEP, 1, 1e-6, 400 * EXCESS) <= free * 1.003
    assert math.isinf(epsilon_vector_noise(400 * 770, STEP, 1, 1e-6, 1e-8))
