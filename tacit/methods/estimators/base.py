"""The interface of an estimator: from the aggregate of a method's reports to numbers of the population.

Each estimator is a class in this folder and one line in ``tacit.extension_points``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.method import Method

MethodT_co = TypeVar("MethodT_co", bound=Method, covariant=True)


@dataclass(frozen=True, slots=True)
class SumErrors:
    """Expected standard errors of one number: that of the ``noise``, and an upper bound on that of ``sampling``; with
    importance sampling, of a number whose holders take part at the higher rate."""

    noise: float
    sampling: float


@dataclass(frozen=True, slots=True)
class Influence:
    """What a dishonest device can do to the totals of a sample, before they are divided by its rate, with a measurement
    that its proof allows, noise included: move up to ``numbers`` of them at once, each by up to ``each`` away from
    where its true value would put it in expectation, in the question's units. ``length``: of a sum of vectors, the
    Euclidean length at most of what it adds."""

    numbers: int
    each: float
    length: float | None = None


@dataclass(frozen=True)
class Estimator(ABC, Generic[MethodT_co]):
    """Estimates from reports that ``method`` randomised."""

    method: MethodT_co

    @abstractmethod
    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Estimate population counts from the aggregate of n reports, dummies included, of devices that sent according
        to ``design``. ``ValueError`` for counts that n reports cannot have, or a design that does not fit."""

    @abstractmethod
    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviations of ``estimate(...).values`` when the true counts are known. For sums, ``squares`` are the
        sums of the squared values (default: the largest possible)."""

    @abstractmethod
    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """What a device without an answer adds in expectation to each total of ``estimate`` (for a mean: the value with
        which it counts). It takes part at the rate of the default answer, if there is one."""

    @property
    def influence(self) -> Influence | None:
        """What one dishonest device can do to the result; None where that is not a sum."""
        return None

    def sum_errors(self, reports: float, design: SampleDesign) -> SumErrors | None:
        """The expected errors of a sum that is hidden by noise shares, from this many reports; None without them."""
        return None

    def zeros_below(self, n: int, rate: float, chance: float) -> float | None:
        """A number of devices: a cell of as many is released as 0 with probability ``chance`` at most, from n reports
        of devices that take part with ``rate``. None where nothing is cut."""
        del n, rate, chance
        return None

    def of_totals(self) -> Self:
        """The same with estimates that are totals: for a method that estimates means, the estimator of their sums."""
        return self

    @property
    def adds_between(self) -> tuple[float, float]:
        """The smallest and the largest amount that one device's answer adds to a total."""
        return 0.0, 1.0
