"""Estimates from sums that noise shares hide (``tacit.methods.flips``).

Estimates. With m reports, c the summed cell and q the sampling rate, ``y = (c - m flips/2) / scale`` is the sum of the
values of those who sent plus centred noise of variance ``m flips / (4 scale^2)``. A dummy is the *neutral* value plus
noise: v* = 0 where 0 is one of the values, else v* = ``low``. With p the probability of a dummy, ``s = q + (1-q) p``
that of sending and ``pi = 1 - q/s`` the share of dummies to expect:

* a total is ``(unit y + m low - m pi v*) / q``, unbiased over sampling, dummies and noise. Its variance is ``N s flips
  unit^2 / (4 scale^2 q^2)`` for the noise and ``(1-q)/q sum x_i^2 + pi/q (N v*^2 - 2 v* sum x_i)`` for the sampling.
  In a histogram or a count x is 0 or 1 and the sum of squares is the count itself. In a sum it is not known; the
  reported error takes the largest that devices with this mean can have (all of them at ``low`` or ``high``), so that
  it never covers too little. Beside it stands what values spread as evenly as their mean allows would give
  (``tacit.methods.estimators.spread``);
* a mean is ``((unit y + m low) / m - pi v*) / (1 - pi)``, a ratio of two totals in which q cancels. To first order
  (delta method) its variance is ``flips unit^2 / (4 scale^2 (1-pi)^2 m)`` for the noise and ``((1-q) V + pi (v* -
  mean)^2) / (q N)`` for the sampling, V the variance of the values in the population, at most ``(mean - low)(high -
  mean)`` (Bhatia and Davis), which is what the reported error takes.

In importance sampling the rate of a histogram's cell is that of its category and the rate of a count that of a 1. A
sum needs a default that stands for 0: whoever holds it adds nothing, whatever its rate, and the others' rate is in the
formulas. There v* = 0, so that dummies add noise alone. The noise is that of the m reports; N, where an error needs
it, is ``m/s`` with the cell's own s, which is the largest that the m reports allow.

Where each aggregator adds F flips of its own, ``m flips`` becomes ``m flips + 2 F`` in the variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.proof import NormProof
from tacit.methods.base.statistics import check_zero_default
from tacit.methods.estimators.base import Estimator, Influence, SumErrors
from tacit.methods.estimators.spread import typical_variance
from tacit.methods.flips import Flips


@dataclass(frozen=True)
class FlipsEstimator(Estimator[Flips]):
    """Totals and means from the sums of noisy numbers."""

    def of_totals(self) -> Self:
        """Itself; for a mean, the estimator of the sum over all devices."""
        if not self.method.kind.is_ratio:
            return self
        return replace(self, method=replace(self.method, statistic="sum"))

    @property
    def adds_between(self) -> tuple[float, float]:
        """The ends of the range, in the question's own units."""
        return float(self.method.low), float(self.method.low + self.method.unit * self.method.maximum)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """The neutral value in each cell; in importance sampling the device takes part at the default's rate and adds
        nothing."""
        return (float(self._neutral_value),) * self.method.cells

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Estimate totals of the population (or its mean) from the sums of ``n`` reports. ``ValueError`` for sums that
        n reports cannot have, and for importance sampling that the statistic does not support."""
        if isinstance(n, bool) or n < 1:
            raise ValueError("n must be at least 1")
        self._check_design(design)
        spill = self.method.batch_flips
        if len(counts) != self.method.cells or any(
            not -spill <= count <= n * self.method.largest + spill for count in counts
        ):
            raise ValueError(
                f"counts must hold {self.method.cells} sums over {n} reports with values of at most "
                f"{self.method.largest}"
            )
        values, errors, typical = list[float](), list[float](), list[float]()
        for cell, count in enumerate(counts):
            rate = self._rate(cell, design)
            share = design.dummy_share(rate)
            real = (
                self.method.low
                + self.method.unit * (count / n - self.method.flips / 2) / self.method.scale
                - share * self._neutral_value
            )
            population = n / design.sends(rate)
            value = real / (1 - share) if self.method.kind.is_ratio else n * real / rate
            mean = self._inside(value if self.method.kind.is_ratio else value / population)
            values.append(value)
            worst, usual = self._largest_square(mean), mean * mean + self._typical_variance(mean)
            errors.append(self._stderr(population * worst, mean, population, n, rate, design))
            typical.append(self._stderr(population * min(worst, usual), mean, population, n, rate, design))
        bounds = self.method.kind.bounds_spread and design.rate < 1
        return Estimate(tuple(values), tuple(errors), tuple(typical) if bounds else None)

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        squares: Sequence[float] | None = None,
        holders: float = 0,
    ) -> tuple[float, ...]:
        """Standard deviations of the estimates at the true values. ``squares`` are the sums of the squared values, by
        default the largest possible (which is exact for histograms and counts). ``holders`` is the number of devices
        with the default answer of an importance-sampled sum; for histograms and counts it follows from ``truth``."""
        self._check_design(design)
        if design.default is not None and self.method.kind.is_one_hot:
            holders = truth[design.default]
        elif design.default is not None and self.method.statistic == "count":
            holders = truth[0] if design.default else population - truth[0]
        reports = design.sends(design.rate) * (population - holders)
        reports += design.sends(design.rate_of(design.default)) * holders
        means = [value / (1 if self.method.kind.is_ratio else population) for value in truth]
        known = squares or [population * self._largest_square(mean) for mean in means]
        return tuple(
            self._stderr(square, mean, population, reports, self._rate(cell, design), design)
            for cell, (square, mean) in enumerate(zip(known, means, strict=True))
        )

    def sum_errors(self, reports: float, design: SampleDesign) -> SumErrors:
        """The expected errors if all devices have the value with which sampling adds most."""
        uniform = replace(design, default=None, default_rate=None)
        population = reports / uniform.sends(uniform.rate)
        low, high = self.method.low, self.method.high
        worst = float((low + high) / 2 if self.method.kind.is_ratio else population * (low if -low > high else high))
        noise = self._noise(reports, uniform.rate, uniform)
        (total,) = self.expected_stderrs([worst], round(population), uniform)[:1]
        sampling = max(0.0, total**2 - noise**2) ** 0.5
        return SumErrors(noise, sampling)

    @property
    def influence(self) -> Influence:
        """Noise at one end in every cell; of a vector whose length is proved, all of it in one."""
        far = float(self.method.maximum + Fraction(self.method.flips, 2 * self.method.scale))
        if not self.method.kind.is_vector:
            return Influence(self.method.cells, float(self.method.unit) * far)
        if self.method.norm_proof is not NormProof.SUM:
            return Influence(self.method.cells, float(self.method.unit) * far, self.one_vector)
        far = min(far, self._longest / self.method.scale + min(self.method.radius, self.method.maximum))
        return Influence(1, float(self.method.unit) * far, self.one_vector)

    @property
    def one_vector(self) -> float:
        """The Euclidean length, at most, of what one measurement adds to the sum of the vectors, in their own units: of
        its distance from the neutral value with the expected noise."""
        return self._longest / self.method.scale * float(self.method.unit)

    @property
    def _longest(self) -> float:
        """The same before the division by ``scale``, in steps of ``unit``."""
        if self.method.norm_proof is NormProof.SUM:
            return math.sqrt(self.method.bounds.max_square)
        reach, root = (
            self.method.scale * max(self.method.neutral, self.method.maximum - self.method.neutral),
            math.sqrt(self.method.cells),
        )
        values = self.method.scale * self.method.radius if self.method.norm_proof is NormProof.VALUES else root * reach
        return min(values, root * reach) + root * self.method.flips / 2

    def _noise(self, reports: float, rate: float, design: SampleDesign) -> float:
        noise = (
            self.method.unit
            * math.sqrt(reports * self.method.flips + 2 * self.method.batch_flips)
            / (2 * self.method.scale)
        )
        return noise / (reports * (1 - design.dummy_share(rate))) if self.method.kind.is_ratio else noise / rate

    def _stderr(
        self, square: float, mean: float, population: float, reports: float, rate: float, design: SampleDesign
    ) -> float:
        """``square`` and ``mean``: the sum of the squared values and the mean value of ``population`` devices."""
        share, neutral = design.dummy_share(rate), self._neutral_value
        if self.method.kind.is_ratio:
            spread = max(0.0, square / population - mean * mean)
            sampling = ((1 - rate) * spread + share * (neutral - mean) ** 2) / (rate * population)
        else:
            dummies = share / rate * population * neutral * (neutral - 2 * mean)
            sampling = max(0.0, (1 - rate) / rate * square + dummies)
        return math.hypot(self._noise(reports, rate, design), math.sqrt(sampling))

    def _rate(self, cell: int, design: SampleDesign) -> float:
        """The rate of the devices whose values make up the cell's total."""
        if self.method.kind.is_one_hot:
            return design.rate_of(cell)
        return design.rate_of(1) if self.method.statistic == "count" else design.rate

    def _check_design(self, design: SampleDesign) -> None:
        if design.default is not None:
            most = self.method.cells - 1 if self.method.kind.is_one_hot else self.method.maximum
            check_zero_default(self.method.kind, design.default, self.method.low, self.method.unit, most)

    @property
    def _neutral_value(self) -> int | Fraction:
        return self.method.low + self.method.unit * self.method.neutral

    def _inside(self, mean: float) -> float:
        """Clip ``mean`` to the range of the values."""
        return min(max(mean, float(self.method.low)), float(self.method.high))

    def _typical_variance(self, mean: float) -> float:
        return typical_variance(mean, float(self.method.low), float(self.method.high))

    def _largest_square(self, mean: float) -> float:
        """The largest mean square of values from low to high with this mean (clipped to that range first)."""
        return float(self._inside(mean) * (self.method.low + self.method.high) - self.method.low * self.method.high)
