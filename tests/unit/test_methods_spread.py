"""Error bars of sums and means: the bound holds for all values, the typical error for ordinary ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.estimators.spread import typical_variance
from tacit.methods.flips import Flips

N, RATE, HIGH, RUNS, FLIPS = 4_000, 0.25, 100, 1_500, 4
ALPHA = 1e-6
"""False alarms of each comparison."""
Draw = Callable[[np.random.Generator], np.ndarray]
ORDINARY: dict[str, Draw] = {
    "uniform": lambda generator: generator.integers(0, HIGH + 1, N),
    "exponential": lambda generator: np.clip(generator.exponential(15, N), 0, HIGH).round(),
    "bell": lambda generator: np.clip(generator.normal(40, 18, N), 0, HIGH).round(),
}
EXTREME: Draw = lambda generator: HIGH * generator.integers(0, 2, N)  # noqa: E731


@pytest.mark.parametrize("mean", [0.0, 1.0, 20.0, 50.0, 93.0, 100.0])
def test_the_typical_variance_is_that_of_a_cut_exponential_and_below_the_largest(mean: float) -> None:
    found = typical_variance(mean, 0, 100)
    assert 0 <= found <= mean * (100 - mean) + 1
    assert found == pytest.approx(typical_variance(100 - mean, 0, 100), rel=1e-6)
    if mean == 50:
        assert found == pytest.approx(100**2 / 12)
    if mean == 1:
        assert found == pytest.approx(1, rel=1e-3), "hardly cut off, its standard deviation is its mean"


def coverage(draw: Draw, statistic: str) -> tuple[int, int, float]:
    """In how many of ``RUNS`` releases the 95 % intervals of the typical error and of the bound hold the truth, and how
    much wider the latter are."""
    generator = np.random.default_rng(1)
    values = draw(generator)
    shares = Flips(statistic, 1, FLIPS, HIGH, 1)  # type: ignore[arg-type]
    truth = float(values.sum()) if statistic == "sum" else float(values.mean())
    held, bound, wider = 0, 0, 0.0
    for _ in range(RUNS):
        sent = values[generator.random(N) < RATE]
        count = int(sent.sum()) + int(generator.binomial(FLIPS * len(sent), 0.5))
        found = estimator_of(shares).estimate([count], len(sent), SampleDesign(RATE))
        assert found.typical is not None
        off = abs(found.values[0] - truth)
        held += off <= 1.96 * found.typical[0]
        bound += off <= 1.96 * found.stderrs[0]
        wider += found.stderrs[0] / found.typical[0] / RUNS
    return held, bound, wider


@pytest.mark.false_alarm(ALPHA, "a binomial tail")
@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("name", ORDINARY)
def test_typical_intervals_hold_the_truth_for_ordinary_values_and_are_narrower(name: str, statistic: str) -> None:
    """Coverage of 94 % at least: fewer hits than the 1e-6 quantile of Bin(RUNS, 0.94) are a false alarm of 1e-6."""
    held, bound, wider = coverage(ORDINARY[name], statistic)
    assert held >= binom.ppf(ALPHA, RUNS, 0.94)
    assert bound >= held
    assert wider > 1.1


@pytest.mark.false_alarm(ALPHA, "a binomial tail")
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_values_at_both_ends_are_held_by_the_bound_and_not_by_the_typical_error(statistic: str) -> None:
    held, bound, _ = coverage(EXTREME, statistic)
    assert bound >= binom.ppf(ALPHA, RUNS, 0.94)
    assert held < bound


def test_where_everybody_takes_part_or_counts_are_asked_there_is_one_error() -> None:
    assert estimator_of(Flips("sum", 1, FLIPS, HIGH, 1)).estimate([100], 10, SampleDesign(1.0)).typical is None
    assert estimator_of(Flips("count", 1, FLIPS, 1, 1)).estimate([20], 10, SampleDesign(0.5)).typical is None
