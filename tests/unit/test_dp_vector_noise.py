"""Vector sums under coin flips: the curve against sums over every outcome, its steps, samples, and backwards."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.gaussian import epsilon_gaussian, sigma_gaussian
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise, vector_curve, vector_share


def losses(total: int, moved: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of one coordinate's outcomes, and their privacy losses."""
    counts = np.arange(total + 1)
    law = stats.binom(total, 0.5)
    return law.pmf(counts), law.logpmf(counts) - law.logpmf(counts - moved)


def hockey(total: int, split: tuple[int, ...], epsilon: float) -> float:
    """The exact curve of one split, both ways, over the outcomes of all coordinates."""
    law = np.array([math.comb(total, heads) / 2**total for heads in range(total + 1)])
    p, q = np.ones(1), np.ones(1)
    for moved in split:
        still, shifted = np.append(law, np.zeros(moved)), np.append(np.zeros(moved), law)
        p, q = np.multiply.outer(p, shifted).ravel(), np.multiply.outer(q, still).ravel()
    growth = math.exp(epsilon)
    return max(float(np.maximum(a - growth * b, 0).sum()) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize(
    ("length", "total", "squares"), [(1, 24, 9), (1, 1000, 64), (2, 60, 8), (3, 40, 3), (3, 56, 6)]
)
@pytest.mark.parametrize("tail", [1e-7, 1e-3])
def test_the_curve_is_never_below_the_exact_one_of_any_split(
    length: int, total: int, squares: int, tail: float
) -> None:
    largest = math.isqrt(squares)
    splits = [
        split
        for split in product(range(largest + 1), repeat=length)
        if 0 < sum(v * v for v in split) <= squares and list(split) == sorted(split)
    ]
    curve = vector_curve(total, VectorStep(length, largest, squares), 1, tail)
    for epsilon in (0.0, 0.01, 0.2, 0.5, 1.0, 2.0, 3.5):
        worst = max(hockey(total, split, epsilon) for split in splits)
        assert worst <= curve(epsilon) * (1 + 1e-12)
    if total == 1000:
        assert curve(0.5) - tail < 1.2 * hockey(total, (largest,), 0.5), "the curve is of use"


@pytest.mark.parametrize("flips", [1, 2, 3, 10, 200])
def test_centred_flips_are_smaller_in_convex_order_than_the_gaussian_that_replaces_them(flips: int) -> None:
    deviation = 0.5 * math.sqrt(flips + 0.5 * math.log(flips) + 2)
    heads = np.arange(flips + 1)
    for at in np.linspace(0, 0.5 * flips + 1, 200):
        binomial = float((stats.binom.pmf(heads, flips, 0.5) * np.maximum(heads - 0.5 * flips - at, 0)).sum())
        gaussian = deviation * stats.norm.pdf(at / deviation) - at * stats.norm.sf(at / deviation)
        assert binomial <= gaussian * (1 + 1e-9)


def test_the_recursion_of_the_proof_stays_below_its_closed_form() -> None:
    square = 1.0
    for flips in range(1, 20_000):
        square *= math.exp(1 / square)
        assert flips + 1 <= square <= flips + 0.5 * math.log(flips) + 2


@given(st.integers(60, 10**7), st.integers(1, 30), st.integers(1, 2000), st.floats(0, 4))
@settings(max_examples=80, deadline=None)
def test_the_curve_falls_with_epsilon_and_noise_and_rises_with_length_size_and_scale(
    total: int, largest: int, squares: int, epsilon: float
) -> None:
    step, tail = VectorStep(50, largest, squares), 1e-9
    found = vector_curve(total, step, 1, tail)(epsilon) * (1 + 1e-9)
    assert vector_curve(total, step, 1, tail)(epsilon + 0.01) <= found
    assert vector_curve(2 * total, step, 1, tail)(epsilon) <= found
    for more in (
        VectorStep(51, largest, squares),
        VectorStep(50, largest + 1, squares),
        VectorStep(50, largest, squares + 1),
    ):
        assert vector_curve(total, more, 1, tail)(epsilon) * (1 + 1e-9) >= found / (1 + 1e-9)
    assert vector_curve(total, step, 2, tail)(epsilon) * (1 + 1e-9) >= found / (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(900, 3000), st.integers(1, 5), st.integers(0, 5), st.sampled_from([1e-3, 1e-6]))
def test_the_bound_holds_for_every_outcome_of_two_coordinates(
    total: int, first: int, second: int, delta: float
) -> None:
    step = VectorStep(2, max(first, second), first**2 + second**2)
    epsilon = epsilon_vector_noise(total, step, 1, delta)
    (mass, loss), (other_mass, other_loss) = losses(total, first), losses(total, second)
    together = loss[:, None] + other_loss[None, :]
    with np.errstate(over="ignore", invalid="ignore"):
        share = np.where(together > epsilon, -np.expm1(epsilon - together), 0.0)
    assert float((mass[:, None] * other_mass[None, :] * share).sum()) <= delta


@pytest.mark.false_alarm(1e-8, "one normal tail at six, skewed")
@pytest.mark.parametrize("split", [(8,), (4, 4, 4, 4), (1,) * 64, (5, 5, 3, 2, 1)])
def test_no_split_of_the_same_length_beats_the_bound_in_samples(split: tuple[int, ...]) -> None:
    """False alarm below 1e-8: the estimate of delta may exceed it by six of its standard errors."""
    total, delta = 2000, 0.01
    epsilon = epsilon_vector_noise(total, VectorStep(64, 8, 64), 1, delta)
    rng = np.random.default_rng(5)
    loss = sum(losses(total, moved)[1][rng.binomial(total, 0.5, 100_000)] for moved in split)
    hidden = np.maximum(-np.expm1(epsilon - np.asarray(loss)), 0)
    assert hidden.mean() <= delta + 6 * hidden.std() / math.sqrt(hidden.size)
    assert hidden.mean() > delta / 3, "the bound is of use"


@pytest.mark.parametrize(("total", "moved"), [(50_000, 20), (1_000_000, 100), (4_000_000, 254)])
def test_the_bound_lies_little_above_the_exact_epsilon_of_one_coordinate(total: int, moved: int) -> None:
    bound = epsilon_vector_noise(total, VectorStep(1, moved, moved**2), 1, 1e-6)
    exact = epsilon_noise(total, moved, 1e-6)
    assert exact <= bound <= 1.002 * exact
    assert exact == pytest.approx(epsilon_gaussian(math.sqrt(total) / 2, 1e-6, moved), rel=0.02)


@pytest.mark.parametrize(
    ("honest", "step"),
    [
        (50, VectorStep(16, 20, 1600)),
        (4000, VectorStep(64, 254, 64_516)),
        (5000, VectorStep(256, 100, 10_000)),
        (50_000, VectorStep(4, 2, 4)),
    ],
)
def test_a_vector_share_gives_its_target_with_hardly_more_noise_than_a_gaussian(honest: int, step: VectorStep) -> None:
    share = vector_share(1, 1e-6, honest, step)
    assert epsilon_vector_noise(honest * share.flips, step, share.scale, 1e-6) <= 1
    assert epsilon_vector_noise(honest * share.flips // 4, step, share.scale, 1e-6) > 1.5
    assert share.standard_deviation(honest) <= 1.02 * sigma_gaussian(1, 1e-6, math.sqrt(step.squares))


def test_more_noise_never_costs_more() -> None:
    step = VectorStep(32, 4, 64)
    found = [epsilon_vector_noise(total, step, 2, 1e-6) for total in (1, 100, 5_000, 20_000, 10**6, 10**9)]
    assert found[0] == math.inf
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.01


def test_what_makes_no_sense_is_refused_by_name() -> None:
    step = VectorStep(4, 2, 4)
    for total, wrong, scale, delta, name in (
        (0, step, 1, 1e-6, "total"),
        (100, VectorStep(0, 2, 4), 1, 1e-6, "step"),
        (100, step, 0, 1e-6, "scale"),
        (100, step, 1, math.nan, "delta"),
    ):
        with pytest.raises(ValueError, match=name):
            epsilon_vector_noise(total, wrong, scale, delta)
    with pytest.raises(ValueError, match="more devices"):
        vector_share(0.01, 1e-10, 1, step)
    with pytest.raises(ValueError, match="epsilon"):
        vector_share(0, 1e-6, 10, step)
