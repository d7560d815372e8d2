"""Do standardised errors look standard normal? Test statistics with p-values, for seeded runs.

Input is one list of z-scores per run: ``(estimate - truth) / standard deviation``, one per cell. Runs are
independent; cells of one run are not (a report that lands in one cell is missing in another). So every test
treats the run as the unit:

* ``bias``: per cell, the sum over runs over sqrt(runs) is standard normal by the central limit theorem;
  the smallest two-sided p-value times the number of cells (Bonferroni).
* ``spread``: per run the mean of z^2, whose expectation is exactly 1 when the standard deviation belongs to the
  true counts. The runs' mean against 1 in units of its own standard error, estimated from the runs; Student's t
  is replaced by the normal, with the threshold's few per cent error at 50 runs in the direction that is stated
  in ``SPREAD_INFLATION``.
* ``coverage``: the share of |z| <= 1.96 per run against its nominal value, in the same way. For reported
  (plug-in) standard errors the nominal value is only approximate: cells that few devices hold have skewed
  counts. ``coverage_slack`` widens the null for that.
* ``shape``: Kolmogorov-Smirnov distance of one z per run and cell, cell by cell, Bonferroni over cells.

A p-value below alpha in any of the k tests rejects; the false-alarm rate is at most k alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

NORMAL_95 = 1.959963984540054
SPREAD_INFLATION = 1.25
"""Quantiles of Student's t with 49 degrees of freedom exceed the normal's by at most this factor down to tail
probabilities of 1e-6; statistics in units of an estimated standard error are divided by it."""

SKEW_SLACK = 0.01
"""How far the coverage of skewed binomial cells (a few expected reports) lies from that of a normal."""

Runs = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Normality:
    """p-values of the four tests, and the figures behind them for a reader."""

    runs: int
    cells: int
    mean: float
    mean_square: float
    covered: float
    bias: float
    spread: float
    coverage: float
    shape: float

    def smallest(self) -> float:
        """The smallest p-value times four: below alpha with probability at most alpha under the null."""
        return min(1.0, 4 * min(self.bias, self.spread, self.coverage, self.shape))


def two_sided(z: float) -> float:
    """Pr[|Z| >= |z|] for a standard normal Z."""
    return math.erfc(abs(z) / math.sqrt(2))


def normal_cdf(z: float) -> float:
    """The normal distribution function: Pr[Z <= z]."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error; the error is 0 for a single or constant sample."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)


def kolmogorov_p(sample: Sequence[float]) -> float:
    """p-value of the Kolmogorov-Smirnov distance to the standard normal (Stephens' finite-sample form)."""
    ordered = sorted(sample)
    count = len(ordered)
    distance = 0.0
    for index, value in enumerate(ordered):
        cdf = normal_cdf(value)
        distance = max(distance, (index + 1) / count - cdf, cdf - index / count)
    root = math.sqrt(count)
    x = (root + 0.12 + 0.11 / root) * distance
    if x < 0.2:
        return 1.0
    series = math.fsum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * series))


def _against(values: Sequence[float], expected: float, slack: float = 0.0) -> float:
    """Two-sided p-value of the mean of independent values against ``expected`` plus or minus ``slack``."""
    mean, error = mean_and_error(values)
    excess = max(0.0, abs(mean - expected) - slack)
    if excess == 0:
        return 1.0
    return two_sided(excess / (error * SPREAD_INFLATION)) if error > 0 else 0.0


def normality(runs: Runs, *, coverage_slack: float = 0.0) -> Normality:
    """Test that z-scores are standard normal; ``ValueError`` unless all runs have the same cells.

    ``coverage_slack``: how far the true coverage may lie from 95 % without an alarm (plug-in errors, skewed
    cells).
    """
    if not runs or not runs[0] or len({len(run) for run in runs}) != 1:
        raise ValueError("runs must be non-empty and of equal length")
    count, cells = len(runs), len(runs[0])
    by_cell = [[run[cell] for run in runs] for cell in range(cells)]
    squares = [math.fsum(z * z for z in run) / cells for run in runs]
    inside = [sum(abs(z) <= NORMAL_95 for z in run) / cells for run in runs]
    bias = min(two_sided(math.fsum(values) / math.sqrt(count)) for values in by_cell)
    shape = min(kolmogorov_p(values) for values in by_cell)
    return Normality(
        runs=count,
        cells=cells,
        mean=math.fsum(math.fsum(run) for run in runs) / (count * cells),
        mean_square=math.fsum(squares) / count,
        covered=math.fsum(inside) / count,
        bias=min(1.0, cells * bias),
        spread=_against(squares, 1.0),
        coverage=_against(inside, 0.95, coverage_slack),
        shape=min(1.0, cells * shape),
    )


def z_scores(values: Sequence[float], truth: Sequence[float], stderrs: Sequence[float]) -> list[float]:
    """``(value - truth) / stderr`` per cell."""
    return [(v - t) / s for v, t, s in zip(values, truth, stderrs, strict=True)]


@dataclass(slots=True)
class Scores:
    """z-scores of many runs of one recipe: by the standard deviation at the true counts, which is exact, and by
    the standard errors that were reported."""

    exact: list[list[float]] = field(default_factory=list)
    reported: list[list[float]] = field(default_factory=list)

    def add(
        self,
        truth: Sequence[float],
        values: Sequence[float],
        stderrs: Sequence[float],
        expected_stderrs: Sequence[float],
    ) -> None:
        """One run. ``expected_stderrs`` are the randomizer's at the true counts (``expected_stderrs``)."""
        self.exact.append(z_scores(values, truth, expected_stderrs))
        self.reported.append(z_scores(values, truth, stderrs))

    def smallest(self, *, coverage_slack: float = 0.02) -> float:
        """Smallest p-value over all tests of both kinds of scores, corrected for their number.

        Under the null it falls below alpha with probability at most alpha. Of the reported errors only coverage
        is tested: an estimate and its own error are correlated (a cell that came out low reports a small error),
        so their mean and mean square are not exactly 0 and 1, and at 300 devices they cover a little too much.
        """
        exact = normality(self.exact, coverage_slack=SKEW_SLACK)
        reported = normality(self.reported, coverage_slack=coverage_slack)
        tests = (exact.bias, exact.spread, exact.coverage, exact.shape, reported.coverage)
        return min(1.0, len(tests) * min(tests))
