"""Noise shares (design rule P18): every device sends ``scale * value + Bin(flips, 1/2)`` in each cell.

There is no local guarantee: what hides a device is the sum of everybody's shares, of which one aggregator or the
analyst sees nothing but the total (``tacit.dp.binomial_noise``, ``tacit.dp.vector_noise``). A share lies in
[0, flips], so an output lies in [0, scale * maximum + flips] and no encoding overflows.

Estimates. With m reports, c the summed cell and q the sampling rate, ``y = (c - m flips/2) / scale`` is the sum of the
values of those who took part plus centred noise of variance ``m flips / (4 scale^2)``:

* a total is ``(unit y + m low) / q``, unbiased over sampling and noise. Its variance is ``N q flips unit^2 / (4 scale^2
  q^2)`` for the noise and ``(1 - q)/q sum x_i^2`` for the sampling. In a histogram or a count x is 0 or 1 and the sum
  of squares is the count itself. In a sum it is not known; the reported error takes the largest that devices with this
  mean can have (all of them at ``low`` or ``high``), so that it never covers too little;
* a mean is ``unit y / m + low``, a ratio of two totals in which q cancels. To first order (delta method) its variance
  is ``flips unit^2 / (4 scale^2 m)`` for the noise and ``(1 - q) V / m`` for the sampling, V the variance of the values
  in the population, at most ``(mean - low)(high - mean)`` (Bhatia and Davis), which is what the reported error takes.

Where each aggregator adds F flips of its own, ``m flips`` becomes ``m flips + 2 F`` in the variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tacit.ports import Entropy
from tacit.randomizers.draws import fair_flips
from tacit.randomizers.estimate import Estimate
from tacit.randomizers.types import Answer, Measurement

Statistic = Literal["histogram", "count", "sum", "mean", "vector-sum"]
ONE_HOT = "histogram"
SCALAR = ("count", "sum", "mean")
MAX_FLIPS = 1 << 16
MAX_SCALE = 1 << 20
"""The accountant's bounds (``tacit.dp.binomial_noise``)."""
MAX_BATCH_FLIPS = 1 << 20
"""Flips of an aggregator in each number."""
MAX_MEASUREMENT = 1 << 32
"""Largest output: 2^30 of them, more than any batch holds, add up to less than the modulus of Field64."""


@dataclass(frozen=True, slots=True)
class Flips:
    """``maximum`` is the largest encoded value of a cell; value v stands for ``low + unit v``. ``batch_flips``: centred
    flips that each of the two aggregators adds to every sum, beside the devices'."""

    NAME: ClassVar[str] = "flips"
    statistic: Statistic
    scale: int
    flips: int
    maximum: int
    cells: int
    low: int = 0
    unit: int = 1
    batch_flips: int = 0
    name: str = field(default=NAME, init=False)

    def __post_init__(self) -> None:
        for name, value, most in (("scale", self.scale, MAX_SCALE), ("flips", self.flips, MAX_FLIPS)):
            if not 1 <= value <= most:
                raise ValueError(f"{name} must be from 1 to {most}")
        if not 0 <= self.batch_flips <= MAX_BATCH_FLIPS or self.batch_flips % 2:
            raise ValueError(f"the flips of an aggregator must be an even number up to {MAX_BATCH_FLIPS}")
        if self.maximum < 1 or self.cells < 1:
            raise ValueError("maximum and the number of cells must be at least 1")
        if self.largest > MAX_MEASUREMENT:
            raise ValueError(f"scale * maximum + flips must be at most {MAX_MEASUREMENT}")
        if self.statistic in SCALAR and self.cells != 1:
            raise ValueError(f"a {self.statistic} has one cell")
        if self.statistic in {ONE_HOT, "count"} and self.maximum != 1:
            raise ValueError(f"the values of a {self.statistic} are 0 and 1: maximum must be 1")

    @property
    def largest(self) -> int:
        """The largest number in a measurement."""
        return self.scale * self.maximum + self.flips

    @property
    def reject_probability(self) -> float:
        """Every output is sent."""
        return 0.0

    def randomise(self, answer: Answer, entropy: Entropy, /) -> Measurement:
        """The measurement for a category (histogram), an encoded number, or a vector of them. The work depends on the
        parameters alone."""
        noisy = [self.scale * value + fair_flips(self.flips, entropy) for value in self._values(answer)]
        return noisy[0] if self.statistic in SCALAR else noisy

    def _values(self, answer: Answer) -> tuple[int, ...]:
        if self.statistic == ONE_HOT and isinstance(answer, int):
            if not 0 <= answer < self.cells:
                raise ValueError(f"category must be from 0 to {self.cells - 1}")
            return tuple(int(cell == answer) for cell in range(self.cells))
        values = (int(answer),) if isinstance(answer, int) else tuple(answer)
        if len(values) != self.cells or not all(0 <= value <= self.maximum for value in values):
            raise ValueError(f"an answer is {self.cells} numbers from 0 to {self.maximum}")
        return values

    def estimate(self, counts: Sequence[int], n: int, q: float) -> Estimate:
        """Totals of the population (or its mean) from the sums of ``n`` reports; ``ValueError`` for sums that they
        cannot have."""
        if isinstance(n, bool) or n < 1:
            raise ValueError("n must be at least 1")
        rate = float(q)
        if not 0 < rate <= 1:
            raise ValueError("q must be above 0 and at most 1")
        spill = self.batch_flips
        if len(counts) != self.cells or any(not -spill <= count <= n * self.largest + spill for count in counts):
            raise ValueError(f"counts must hold {self.cells} sums of {n} reports of at most {self.largest}")
        means = [self.low + self.unit * (count / n - self.flips / 2) / self.scale for count in counts]
        values = means if self.statistic == "mean" else [n * mean / rate for mean in means]
        population = n / rate
        errors = (self._stderr(population * self._largest_square(mean), mean, population, rate) for mean in means)
        return Estimate(tuple(values), tuple(errors))

    def expected_stderrs(
        self, truth: Sequence[float], population: int, q: float, squares: Sequence[float] | None = None
    ) -> tuple[float, ...]:
        """Standard deviations of the estimates at the true values; ``squares`` are the sums of the squared values, by
        default the largest possible (which is exact for histograms and counts)."""
        share = 1 if self.statistic == "mean" else population
        means = [value / share for value in truth]
        known = squares or [population * self._largest_square(mean) for mean in means]
        pairs = zip(known, means, strict=True)
        return tuple(self._stderr(square, mean, population, q) for square, mean in pairs)

    def noise_stderr(self, population: float, q: float) -> float:
        """The part of the standard error that is noise: everything, where everybody takes part."""
        reports = q * population
        noise = self.unit * math.sqrt(reports * self.flips + 2 * self.batch_flips) / (2 * self.scale)
        return noise / reports if self.statistic == "mean" else noise / q

    def _stderr(self, square: float, mean: float, population: float, q: float) -> float:
        sampling = (1 - q) / q * square
        if self.statistic == "mean":
            sampling = (1 - q) * max(0.0, square / population - mean * mean) / (q * population)
        return math.hypot(self.noise_stderr(population, q), math.sqrt(sampling))

    def _largest_square(self, mean: float) -> float:
        """The largest mean square of values from low to high whose mean is ``mean`` (put into that range first)."""
        high = self.low + self.unit * self.maximum
        inside = min(max(mean, self.low), high)
        return inside * (self.low + high) - self.low * high
