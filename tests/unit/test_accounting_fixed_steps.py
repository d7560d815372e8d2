"""Composition of different steps that are fixed beforehand: against enumeration and a library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.accountants import epsilon_pld
from tacit.accounting.events import Approximate, Composed, Relation
from tacit.accounting.fixed_steps import compose_fixed
from tacit.dp.composition import epsilon_composed
from tacit.dp.heterogeneous import Step, epsilon_heterogeneous, slack_of

DELTA = 1e-9
ROUNDING = 1e-14
"""Relative: a sum of floats is a few units in the last place off."""
EPSILONS = st.integers(1_000, 1_500_000).map(lambda number: number / 1e6)


def step(epsilon: float, delta: float = DELTA) -> Step:
    return epsilon, delta


def enumerated(epsilons: Sequence[float], slack: float) -> float:
    """epsilon of independent randomised responses, from the losses of all their 2^n outputs."""
    outputs = [
        (math.prod(1 / (1 + math.exp(-sign * step)) for sign, step in zip(signs, epsilons, strict=True)), signs)
        for signs in itertools.product((1, -1), repeat=len(epsilons))
    ]
    losses = [
        (probability, math.fsum(sign * step for sign, step in zip(signs, epsilons, strict=True)))
        for probability, signs in outputs
    ]

    def divergence(total: float) -> float:
        return math.fsum(p * -math.expm1(total - loss) for p, loss in losses if loss > total)

    low, high = 0.0, math.fsum(epsilons)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= slack else (middle, high)
    return high


@settings(max_examples=25, deadline=None)
@given(st.lists(EPSILONS, min_size=2, max_size=8), st.sampled_from([1e-3, 1e-6]))
def test_composition_is_never_below_the_enumerated_one_and_close_to_it(epsilons: list[float], total: float) -> None:
    steps = [step(epsilon) for epsilon in epsilons]
    true = enumerated([epsilon for epsilon, _ in steps], slack_of(steps, total))
    tight, light = compose_fixed(steps, total), epsilon_heterogeneous(steps, total)
    added = sum(epsilons) * (1 + ROUNDING)
    assert true * (1 - 1e-6) - 1e-9 <= tight <= light <= added
    assert tight <= true * 1.001 + len(steps) * 1e-4


@pytest.mark.parametrize("count", [12, 60])
def test_composition_agrees_with_the_library(count: int) -> None:
    steps = [step((number * 7919 % 400 + 20) / 1000) for number in range(count)]
    library = epsilon_pld(Composed(tuple(Approximate(*one) for one in steps)), 1e-6, Relation.REPLACEMENT)
    assert compose_fixed(steps, 1e-6) == pytest.approx(library, rel=1e-3)
    assert library * (1 - 1e-3) <= epsilon_heterogeneous(steps, 1e-6) <= 1.15 * library


def test_a_sum_beyond_every_float_is_composed_all_the_same() -> None:
    for each, count in ((1.0, 1_000), (10.0, 500), (700.0, 3)):
        steps = [step(each, 0.0)] * count
        tight, light = compose_fixed(steps, 1e-6), epsilon_heterogeneous(steps, 1e-6)
        assert 0 < tight <= light


def test_equal_claims_compose_to_the_optimal_bound() -> None:
    steps = [step(0.1)] * 200
    optimal = epsilon_composed(0.1, DELTA, 200, 1e-6)
    assert epsilon_heterogeneous(steps, 1e-6) == pytest.approx(optimal, rel=1e-6)
    assert optimal * (1 - 1e-6) <= compose_fixed(steps, 1e-6) <= optimal * (1 + 1e-6)
    assert optimal < 0.5 * 200 * 0.1


@settings(max_examples=30, deadline=None)
@given(
    st.lists(EPSILONS, min_size=1, max_size=12),
    EPSILONS,
    EPSILONS,
    st.sampled_from([epsilon_heterogeneous, compose_fixed]),
)
def test_more_steps_larger_claims_and_a_smaller_delta_never_cost_less(
    epsilons: list[float], more: float, raised: float, composed: Callable[[Sequence[Step], float], float]
) -> None:
    steps = [step(epsilon) for epsilon in epsilons]
    total = composed(steps, 1e-6)
    slightly = 1 - 1e-7
    assert composed([*steps, step(more)], 1e-6) >= total * slightly
    assert composed([*steps, step(more)], 1e-6) >= composed([step(more)], 1e-6) * slightly
    larger = [step(epsilons[0] + raised), *steps[1:]]
    assert composed(larger, 1e-6) >= total * slightly
    assert composed(steps, 1e-7) >= total * slightly


def test_the_claims_own_deltas_are_kept_within_the_total() -> None:
    tenth = [step(0.5, 1e-6)] * 10
    for composed in (epsilon_heterogeneous, compose_fixed):
        assert composed(tenth, 1e-5) == pytest.approx(5.0)
        assert composed([*tenth, tenth[0]], 1e-5) == math.inf
        assert composed([step(0.5, 1e-5)], 1e-5) == 0.5
        assert composed([], 1e-5) == 0.0


def test_bad_steps_and_totals_are_named() -> None:
    for steps, total, name in (
        ([(-0.1, 0.0)], 1e-6, "epsilon"),
        ([(0.1, 1.0)], 1e-6, "delta"),
        ([(math.nan, 0.0)], 1e-6, "epsilon"),
        ([(0.1, 0.0)], 0.0, "total_delta"),
    ):
        with pytest.raises(ValueError, match=name):
            epsilon_heterogeneous(steps, total)
