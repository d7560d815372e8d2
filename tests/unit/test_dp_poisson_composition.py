"""Dummies and optimal composition against sums written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.dp import composition, poisson


def summed_shift(epsilon: float, intensity: float) -> float:
    top = int(intensity * math.exp(epsilon) + 40 * math.sqrt(intensity) + 60)
    counts = np.arange(top)
    without = stats.poisson(intensity).pmf(counts)
    shifted = np.concatenate(([0.0], without[:-1]))
    growth = math.exp(epsilon)
    return float(max(np.maximum(without - growth * shifted, 0).sum(), np.maximum(shifted - growth * without, 0).sum()))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 3), st.floats(0.5, 400))
def test_the_shift_is_the_larger_sum_of_both_directions(epsilon: float, intensity: float) -> None:
    assert poisson.delta_shift(epsilon, intensity) == pytest.approx(
        summed_shift(epsilon, intensity), rel=1e-7, abs=1e-14
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "intensity"),
    [
        (0.1, 1e-6, 1408.7), (0.1, 1e-8, 2255.3), (0.1, 1e-10, 3140.2), (0.25, 1e-8, 431.3), (0.5, 1e-6, 90.1),
        (0.5, 1e-10, 181.2), (1, 1e-6, 34.1), (1, 1e-8, 49.4), (1, 1e-10, 65.1), (2, 1e-6, 17.3), (2, 1e-10, 31.3),
    ],
)  # fmt: skip
def test_the_dummies_that_are_needed(epsilon: float, delta: float, intensity: float) -> None:
    assert poisson.dummy_intensity(epsilon, delta) == pytest.approx(intensity, abs=0.06)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.368), (0.5, 0.183), (0.25, 0.128), (0.1, 0.090), (2, 0.607)])
def test_the_papers_rate_of_dummies_hides_nothing(epsilon: float, delta: float) -> None:
    assert poisson.delta_shift(epsilon, 1 / epsilon) == pytest.approx(delta, abs=6e-4)


def test_no_dummies_at_all_are_not_enough_at_any_epsilon() -> None:
    assert math.isinf(poisson.epsilon_shift(2.0, 1e-8))


@settings(max_examples=30, deadline=None)
@given(st.floats(1, 3000), st.floats(-12, -2))
def test_the_quantile_is_the_smallest_count_with_so_little_above_it(intensity: float, exponent: float) -> None:
    probability = 10.0**exponent
    count = poisson.upper_quantile(intensity, probability)
    law = stats.poisson(intensity)
    assert law.sf(count) <= probability * (1 + 1e-9)
    assert law.sf(count - 1) >= probability * (1 - 1e-9)


def enumerated(total_epsilon: float, epsilon: float, delta: float, count: int) -> float:
    """Every outcome of ``count`` responses that fail openly with probability delta, one by one."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    outcomes = [(delta, 0.0), (0.0, delta), ((1 - delta) * truth, (1 - delta) * (1 - truth))]
    outcomes.append((outcomes[2][1], outcomes[2][0]))
    total = 0.0
    for chosen in itertools.product(outcomes, repeat=count):
        first = math.prod(pair[0] for pair in chosen)
        second = math.prod(pair[1] for pair in chosen)
        total += max(first - math.exp(total_epsilon) * second, 0.0)
    return total


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-3), (1.0, 0.0), (2.0, 0.05)])
def test_optimal_composition_is_that_of_responses_that_fail_openly(count: int, epsilon: float, delta: float) -> None:
    for total in (0.0, 0.2, epsilon * count / 2):
        expected = enumerated(total, epsilon, delta, count)
        assert composition.delta_composed(total, epsilon, delta, count) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 2), st.integers(1, 60))
def test_composition_is_monotone_and_never_worse_than_adding(epsilon: float, count: int) -> None:
    found = composition.epsilon_composed(epsilon, 1e-12, count, 1e-8)
    assert found <= count * epsilon * (1 + 1e-6)
    assert composition.epsilon_composed(epsilon, 1e-12, count + 1, 1e-8) >= found * (1 - 1e-6)


def test_steps_that_spend_more_than_the_total_are_refused() -> None:
    with pytest.raises(ValueError, match="total_delta"):
        composition.epsilon_composed(1.0, 1e-6, 100, 1e-6)
