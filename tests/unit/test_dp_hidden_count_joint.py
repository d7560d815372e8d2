"""Claims of importance sampling and dummies against the exact joint law of the number of messages and what they sum to,
in crowds, rates and noise drawn at random: nothing is chosen so that the claim looks good."""

from __future__ import annotations

import math
import random
from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.dp.claim import Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.hidden_count import SendingRates, coins_epsilon
from tests.claims import compute_hidden_claim
from tests.kit.methods import randomizer_from

Law = NDArray[np.float64]
CATEGORIES = 3
EXACT = 1e-12
"""What the transforms may be wrong by."""


def stick(first: Law, second: Law, epsilon: float) -> float:
    """The larger of both hockey sticks."""
    growth = math.exp(epsilon)
    return max(float(np.maximum(one - growth * other, 0).sum()) for one, other in ((first, second), (second, first)))


def drawn(draw: random.Random) -> tuple[Sample, float, float]:
    """A sample, epsilon0 and delta; importance sampling, dummies, both or neither."""
    batch, rate = draw.randint(12, 30), draw.choice([0.05, 0.2, 0.4, 0.6, 0.8])
    least = rate * draw.choice([0.05, 0.2, 0.5]) if draw.random() < 0.8 else None
    dummies = draw.uniform(0.3, 0.6 * batch) if draw.random() < 0.5 else 0.0
    population = draw.randint(batch, 60) if dummies else None
    return Sample(batch, rate, least, dummies, population), 10 ** draw.uniform(-1.3, 0.5), 10 ** draw.uniform(-4, -1.2)


def crowd(draw: random.Random, sample: Sample) -> list[int]:
    """How many others hold each category: all the same one, or any mix."""
    trusted = sample.default_rate is not None and sample.population is not None
    others = sample.population - 1 if trusted and sample.population else draw.randint(sample.batch // 2, 60)
    if draw.random() < 0.5:
        first, second = sorted((draw.randint(0, others), draw.randint(0, others)))
        return [first, second - first, others - second]
    counts = [0, 0, 0]
    counts[draw.randrange(3)] = others
    return counts


def transform(sample: Sample, epsilon0: float, answer: int, size: int) -> NDArray[np.complex128]:
    """That of one device's law: which category it sends, if any."""
    dummy = sample.intensity / sample.population if sample.population else 0.0
    rate = sample.rate if answer or sample.default_rate is None else sample.default_rate
    keep = math.exp(epsilon0) / (math.exp(epsilon0) + CATEGORIES - 1)
    sent = np.full(CATEGORIES, rate * (1 - keep) / (CATEGORIES - 1) + (1 - rate) * dummy / CATEGORIES)
    sent[answer] += rate * (keep - (1 - keep) / (CATEGORIES - 1))
    waves = np.exp(-2j * np.pi * np.arange(size) / size)
    axes = (waves[:, None, None], waves[None, :, None], waves[None, None, :])
    return np.asarray(1 - sent.sum() + sum(chance * axis for chance, axis in zip(sent, axes, strict=True)))


def views(sample: Sample, epsilon0: float, others: list[int]) -> list[Law]:
    """What is seen for each answer: the three counts, or, of a batch that did not fill, how many messages it has."""
    size = sum(others) + 2
    total = reduce(np.add.outer, [np.arange(size)] * CATEGORIES)
    own = [transform(sample, epsilon0, answer, size) for answer in range(CATEGORIES)]
    rest = np.prod([law**count for law, count in zip(own, others, strict=True)], axis=0)
    seen = [np.maximum(np.fft.ifftn(rest * law).real, 0) for law in own]
    few = total[total < sample.batch]
    return [np.append(law[total >= sample.batch], np.bincount(few, law[total < sample.batch])) for law in seen]


def claimed(sample: Sample, epsilon0: float, delta: float) -> Claim | None:
    try:
        return compute_hidden_claim(randomizer_from("krr", epsilon0, CATEGORIES), sample, n=sample.batch, delta=delta)
    except ValueError:
        return None


@pytest.mark.parametrize("seed", range(2))
def test_three_counts_and_their_total_tell_no_more_than_is_claimed(seed: int) -> None:
    draw, better = random.Random(seed), 0
    for _ in range(40):
        sample, epsilon0, delta = drawn(draw)
        others = crowd(draw, sample)
        claim = claimed(sample, epsilon0, delta)
        if claim is None:
            continue
        better += claim["aggregator"] < claim["aggregator_with_relay"]
        default, one, other = views(sample, epsilon0, others)
        for first, second in ((default, one), (one, other)):
            for epsilon in (claim["aggregator"], claim["both_aggregators"]):
                assert stick(first, second, epsilon) <= delta + EXACT, (sample, epsilon0, delta, others)
    assert better > 3, "some claims must be worth more than what the relay leaves"


def messages(chances: list[float]) -> Law:
    """The law of how many of independent coins say yes."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return law


def unlike(draw: random.Random, rates: SendingRates, others: int) -> list[float]:
    """The coins of others at the two rates, in any mix; every second time of devices that may also fail to send."""
    high = draw.randint(0, others)
    chances = [rates.sends] * high + [rates.least_sends] * (others - high)
    return [chance * draw.random() for chance in chances] if draw.random() < 0.5 else chances


@pytest.mark.parametrize("seed", range(3))
def test_one_message_more_among_unlike_coins_is_hidden_as_well_as_is_claimed(seed: int) -> None:
    draw, hidden = random.Random(100 + seed), 0
    for _ in range(60):
        rate, batch, delta = draw.uniform(0.02, 0.95), draw.randint(20, 300), 10 ** draw.uniform(-5, -2)
        rates = SendingRates(rate, rate * draw.choice([0.02, 0.2, 0.6, 0.95]), draw.choice([0.0, 0.1]), 0.05)
        epsilon = coins_epsilon(rates, batch, delta)
        if math.isinf(epsilon):
            continue
        hidden += 1
        coins = unlike(draw, rates, draw.randint(batch, 6 * batch))
        without = np.append(messages(coins), 0.0)
        more = np.append(0.0, without[:-1])
        silent = [np.append(law[batch:], law[:batch].sum()) for law in (without, more)]
        assert stick(silent[0], silent[1], epsilon) <= delta + EXACT
    assert hidden > 10
