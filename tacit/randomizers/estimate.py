"""From noisy counts of a sample to counts of the whole population, with standard errors.

Model: each of N devices joins independently with probability q; a joining device with the cell's value reports
a one with probability p1, one without it with probability p0. With m reports and c ones in the cell

    ``estimate = (c - m p0) / (q (p1 - p0))``

is unbiased for the true count X, over sampling and randomisation together, whatever N. A device contributes
``I (y - p0)`` with I ~ Ber(q); summing the variances of these independent terms,

    ``q^2 (p1-p0)^2 Var = X [q p1(1-p1) + q(1-q)(p1-p0)^2] + (N - X) q p0(1-p0)``,

    ``Var = X [p1(1-p1) / (q (p1-p0)^2) + (1-q)/q] + (N - X) p0(1-p0) / (q (p1-p0)^2)``.

The first and last terms are randomisation, ``X (1-q)/q`` is sampling. The reported standard error puts the
estimates ``m/q`` for N and the estimate, clipped to [0, m/q], for X; the estimate itself is never clipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """Per cell: the unbiased estimate of the population's count and its standard error."""

    values: tuple[float, ...]
    stderrs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CellModel:
    """One cell: reported as one with probability ``hit`` by holders, ``noise`` by others; joined at ``rate``."""

    hit: float
    noise: float
    rate: float

    def value(self, count: int, reports: int) -> float:
        """The unbiased estimate of how many devices hold the cell's value."""
        return (count - reports * self.noise) / (self.rate * (self.hit - self.noise))

    def stderr(self, holders: float, population: float) -> float:
        """Standard deviation of ``value`` when ``holders`` of ``population`` devices hold the value."""
        scale = self.rate * (self.hit - self.noise) ** 2
        held = self.hit * (1 - self.hit) / scale + (1 - self.rate) / self.rate
        other = self.noise * (1 - self.noise) / scale
        return math.sqrt(holders * held + (population - holders) * other)

    def estimate(self, counts: Sequence[int], reports: int) -> Estimate:
        """Values and plug-in standard errors of all cells."""
        population = reports / self.rate
        values = tuple(self.value(count, reports) for count in counts)
        clipped = (min(max(value, 0.0), population) for value in values)
        return Estimate(values, tuple(self.stderr(holders, population) for holders in clipped))


def check_counts(counts: Sequence[int], cells: int, n: int, q: float) -> float:
    """The sampling rate as a float; ``ValueError`` naming what does not fit ``cells`` cells of n reports."""
    if isinstance(n, bool) or n < 1:
        raise ValueError("n must be at least 1")
    rate = float(q)
    if not 0 < rate <= 1:
        raise ValueError("q must be above 0 and at most 1")
    if len(counts) != cells:
        raise ValueError(f"counts must hold {cells} cells")
    if any(not 0 <= count <= n for count in counts):
        raise ValueError("counts must lie between 0 and n")
    return rate
