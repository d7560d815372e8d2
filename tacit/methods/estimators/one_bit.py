"""Estimates from one bit of a number (``tacit.methods.one_bit``).

Estimates. With h and n the chances of reporting a 1 for the bits 1 and 0, M = ``maximum``, and v the encoded value, a
report is 1 with probability ``n + (h - n) v / M``. A dummy, and a device without a value, answers with the *neutral*
value (``neutral_of``), which stands for v*, and is 1 with probability p*. Of m reports of which c are 1, with q and s
the probabilities of taking part and of sending, and ``a = span / (q (h - n))``, span = ``unit M``:

* a total is ``a (c - p* m) + v* m / s``, unbiased over sampling, dummies, rounding and response. Each report adds ``a b
  + z``, ``z = v*/s - a p*``, and each device its value x_i in expectation, so that the variance is ``a (a + 2 z) E c +
  z^2 E m - sum x_i^2``: c and m are seen. The squares are not, and the reported error takes the least that devices
  with this mean can have (all of them the same), so that it never covers too little;
* a mean is the total divided by ``m / s``. To first order its error is that of the total with every value less the
  mean (delta method).

In importance sampling the default stands for 0, and so does the neutral value: whoever sends it adds 0 in expectation,
whatever its rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.statistics import check_zero_default
from tacit.methods.estimators.base import Estimator, Influence
from tacit.methods.estimators.cell_model import check_counts
from tacit.methods.one_bit import OneBit


@dataclass(frozen=True)
class OneBitEstimator(Estimator[OneBit]):
    """A sum or a mean from the number of ones."""

    def of_totals(self) -> Self:
        """Itself; for a mean, the estimator of the sum over all devices."""
        return replace(self, method=replace(self.method, statistic="sum"))

    @property
    def adds_between(self) -> tuple[float, float]:
        """The ends of the range, in the question's own units."""
        return float(self.method.low), float(self.method.low) + self._span

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """The neutral value in the question's own units, whatever the design."""
        return (self._neutral_value,)

    @property
    def influence(self) -> Influence:
        """A bit moves the total by ``span / (h - n)``, of which a device at the other end does part in expectation."""
        return Influence(1, self._span * float(self.method.output_probabilities()[0]) / self._gain)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """The total of the population, or its mean, from the number of ones among ``n`` bits. ``ValueError`` for a
        number that n bits cannot have, and for importance sampling that the statistic does not support."""
        check_counts(counts, 1, n, design, self.method.maximum + 1)
        self._check_design(design)
        (ones,) = counts
        population = n / design.sends(design.rate)
        total = self._slope(design) * (ones - self._neutral_chance * n) + self._neutral_value * population
        value = total / population if self.method.kind.is_ratio else total
        widest = n / design.sends(design.rate_of(design.default))
        mean = min(max(total / widest, self.adds_between[0]), self.adds_between[1])
        return Estimate((value,), (self._stderr(ones, n, widest, mean, design),))

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        squares: Sequence[float] | None = None,
        holders: float = 0,
    ) -> tuple[float, ...]:
        """The standard deviation of the estimate at the true value. ``squares``: the sum of the squared values, by
        default the least possible. ``holders``: the devices with the default answer of an importance-sampled sum."""
        self._check_design(design)
        (value,) = truth
        mean = value if self.method.kind.is_ratio else value / population
        reports = design.sends(design.rate) * (population - holders)
        reports += design.sends(design.rate_of(design.default)) * holders
        ones = self._neutral_chance * reports + population * (mean - self._neutral_value) / self._slope(design)
        return (self._stderr(ones, reports, population, mean, design, squares[0] if squares else None),)

    def _stderr(
        self,
        ones: float,
        reports: float,
        population: float,
        mean: float,
        design: SampleDesign,
        square: float | None = None,
    ) -> float:
        slope, ratio = self._slope(design), self.method.kind.is_ratio
        offset = (self._neutral_value - (mean if ratio else 0)) / design.sends(design.rate)
        offset -= slope * self._neutral_chance
        second = slope * (slope + 2 * offset) * ones + offset * offset * reports
        own = population * mean * mean if square is None else square
        own -= population * mean * mean if ratio else 0
        error = math.sqrt(max(0.0, second - own))
        return error / population if ratio else error

    def _slope(self, design: SampleDesign) -> float:
        """How much a reported 1 adds to the total."""
        return self._span / (design.rate * self._gain)

    @property
    def _gain(self) -> float:
        hit, noise = self.method.output_probabilities()
        return float(hit - noise)

    @property
    def _span(self) -> float:
        return float(self.method.unit * self.method.maximum)

    @property
    def _neutral_chance(self) -> float:
        return float(self.method.output_probabilities()[1]) + self._gain * self.method.neutral / self.method.maximum

    @property
    def _neutral_value(self) -> float:
        return float(self.method.low + self.method.unit * self.method.neutral)

    def _check_design(self, design: SampleDesign) -> None:
        if design.default is not None:
            check_zero_default(self.method.kind, design.default, self.method.low, self.method.unit, self.method.maximum)
