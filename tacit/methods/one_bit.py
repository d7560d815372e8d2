"""One bit of a number: a sum or a mean with a local guarantee, proved by Prio3Count.

A device rounds its value to one end of the range at random, so that the expectation is the value, and reports that bit
by randomised response (J. Duchi, M. Jordan, M. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation",
JASA 2018; "1BitMean" of B. Ding, J. Kulkarni, S. Yekhanin, "Collecting Telemetry Data Privately", NeurIPS 2017).

Privacy. The rounding looks at the device's own value alone. Hockey-stick divergences are jointly convex, so what holds
of randomised response for each pair of bits, and of its sum for all bits of the other devices, holds of their mixtures:
``rr``'s accountants are this method's.

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
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.draws import bernoulli
from tacit.methods.base.estimate import Estimate, check_counts
from tacit.methods.base.method import Draws, Influence, Members
from tacit.methods.base.statistics import STATISTICS, Shape, Statistic, StatisticName, check_zero_default, neutral_of
from tacit.methods.rr import Rr
from tacit.ports import Entropy
from tacit.uniform import uniform_below


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBit(Rr):
    """``maximum`` is the largest encoded value; value v stands for ``low + unit v``."""

    NAME = "one-bit"
    MEMBERS = ("epsilon0", "maximum")
    STATISTICS = ("sum", "mean")
    DRAWS = Draws(
        "u uniform below `maximum`; b = 1 if u < v, else 0; then b if d < T(epsilon0, 1), else 1 - b (both are drawn "
        "always, u first)",
        "the same with the neutral value: (0 - low) / unit where that is one of the values, else 0",
    )

    statistic: StatisticName
    maximum: int
    low: int | Fraction = 0
    unit: int | Fraction = 1

    def __post_init__(self) -> None:
        super(OneBit, self).__post_init__()
        if self.maximum < 1:
            raise ValueError("maximum must be at least 1")

    @classmethod
    def mismatch(cls, shape: Shape, members: Members) -> str | None:
        """Describe a mismatch in the number of categories or in the largest value."""
        widest, stated = shape.maximum, members.get("maximum")
        other = f"the encoder gives values up to {widest}, but the randomizer states {stated}"
        return super(OneBit, cls).mismatch(shape, members) or (None if stated == widest else other)

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        if members["categories"] != cls.categories_of(shape):
            raise ValueError(f"categories must be {cls.categories_of(shape)} for {cls.NAME}")
        return cls(
            epsilon0=members["epsilon0"],
            statistic=shape.statistic.name,
            maximum=members["maximum"],
            low=shape.low,
            unit=shape.unit,
        )

    @classmethod
    def tuned(cls, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> Self:
        """The method with this epsilon0; the batch size and delta are not used."""
        return cls.of(shape, {"epsilon0": epsilon, "categories": cls.categories_of(shape), "maximum": shape.maximum})

    def members(self) -> dict[str, Any]:
        """``epsilon0``, ``categories`` = 2 and ``maximum``."""
        return {**super(OneBit, self).members(), "maximum": self.maximum}

    @property
    def kind(self) -> Statistic:
        """The statistic that is estimated."""
        return STATISTICS[self.statistic]

    def randomise(self, value: int, entropy: Entropy, /) -> int:
        """The bit to report for an encoded value. Draws the same number of bytes whatever comes out."""
        if not 0 <= value <= self.maximum:
            raise ValueError(f"an answer must be from 0 to {self.maximum}")
        bit = int(uniform_below(self.maximum, entropy) < value)
        return bit if bernoulli(self._keep, entropy) else 1 - bit

    def dummy(self, entropy: Entropy, /) -> int:
        """The bit of the neutral value."""
        return self.randomise(self.neutral, entropy)

    @property
    def neutral(self) -> int:
        """The encoded value of a dummy."""
        return neutral_of(self.low, self.unit, self.maximum)

    def of_totals(self) -> Self:
        """The method itself; for a mean, the method that estimates the sum over all devices."""
        return replace(self, statistic="sum")

    @property
    def adds_between(self) -> tuple[float, float]:
        """The ends of the range, in the question's own units."""
        return float(self.low), float(self.low) + self._span

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """The neutral value."""
        return (self._neutral_value,)

    @property
    def influence(self) -> Influence:
        """A bit moves the total by ``span / (h - n)``, of which a device at the other end does part in expectation."""
        return Influence(1, self._span * float(self.output_probabilities()[0]) / self._gain)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """The total of the population, or its mean, from the number of ones among ``n`` bits. ``ValueError`` for a
        number that n bits cannot have, and for importance sampling that the statistic does not support."""
        check_counts(counts, 1, n, design, self.maximum + 1)
        self._check_design(design)
        (ones,) = counts
        population = n / design.sends(design.rate)
        total = self._slope(design) * (ones - self._neutral_chance * n) + self._neutral_value * population
        value = total / population if self.kind.is_ratio else total
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
        mean = value if self.kind.is_ratio else value / population
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
        slope, ratio = self._slope(design), self.kind.is_ratio
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
        hit, noise = self.output_probabilities()
        return float(hit - noise)

    @property
    def _span(self) -> float:
        return float(self.unit * self.maximum)

    @property
    def _neutral_chance(self) -> float:
        return float(self.output_probabilities()[1]) + self._gain * self.neutral / self.maximum

    @property
    def _neutral_value(self) -> float:
        return float(self.low + self.unit * self.neutral)

    def _check_design(self, design: SampleDesign) -> None:
        if design.default is not None:
            check_zero_default(self.kind, design.default, self.low, self.unit, self.maximum)
