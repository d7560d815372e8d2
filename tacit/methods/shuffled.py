"""Counts whose noise all devices make together, one message for each one of a cell (Balcer and Cheu, 2020).

A device adds to its own cell's message at most one noise message in each cell, so that a cell's total over n devices is
``x + Bin(n, p)``. Only the totals hide a device: its messages must be shuffled among those of all others. With f =
``noise_rate`` = lambda / B, replacement of one answer and the exact accounting of ``tacit.dp.shuffled_counts`` give the
claim at n = B; further devices only add independent noise, so it holds for all n >= B.

* ``zsum`` sends noise with p = 1 - f. A total of at most n is released as exactly 0, and a cell that nobody has never
  has a larger one: there are no false positives.
* ``unbiased`` and ``flipped`` send noise with p = f, far fewer messages (``tacit.methods.shuffled_few``).

A device without an answer sends the noise alone: against it, a replaced answer moves one cell instead of two, which is
a marginal of what is accounted for.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from tacit.dp import shuffled_counts
from tacit.methods.base.draws import ONE
from tacit.methods.base.method import Members, Method, plain
from tacit.methods.base.statistics import STATISTICS, Shape, StatisticName

MAX_CATEGORIES = 1 << 20
"""So that a cell's number fits into a message of 51 bytes, and a result into memory; policies bound messages."""


@dataclass(frozen=True, slots=True)
class ShuffledCounts(Method):
    """One cell for a count, one for each category of a histogram; a measurement is the number of messages per cell."""

    STATISTICS = ("count", "histogram")
    IS_LOCAL = False
    IS_PROVED = False
    IS_SHUFFLED = True
    MOST_CATEGORIES: ClassVar[int] = MAX_CATEGORIES

    statistic: StatisticName
    categories: int
    noise_rate: Decimal
    noise_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        fewest = 1 if self.is_scalar else 2
        if not fewest <= self.categories <= (1 if self.is_scalar else self.MOST_CATEGORIES):
            raise ValueError(f"categories must be from 2 to {self.MOST_CATEGORIES}, and 1 for a count")
        if not 0 < self.noise_rate <= Decimal("0.5"):
            raise ValueError("noise_rate must be above 0 and at most 0.5")
        object.__setattr__(self, "noise_below", math.ceil(Fraction(self.noise_rate) * ONE))

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether it is a count, or a histogram of a supported size."""
        if shape.statistic.name not in cls.STATISTICS:
            return False
        return shape.cells == 1 if shape.statistic.is_scalar else 2 <= shape.cells <= cls.MOST_CATEGORIES

    @property
    def is_scalar(self) -> bool:
        """Whether it is a count, of which a replaced answer moves the only cell."""
        return STATISTICS[self.statistic].is_scalar

    def members(self) -> dict[str, Any]:
        """``noise_rate`` and ``categories``."""
        return {"noise_rate": plain(self.noise_rate), "categories": self.categories}

    @property
    def cells(self) -> int:
        """The number of cells: one per category; a count has one."""
        return self.categories

    @property
    def largest(self) -> int:
        """A cell has at most the device's own message and one of noise."""
        return 2

    @property
    def noise_threshold(self) -> int:
        """T: a cell's rare bit has probability ``T / 2^128``."""
        return self.noise_below

    @property
    @abstractmethod
    def messages(self) -> int:
        """The most messages of a device; all devices send as many, with fillers that stand for no cell."""

    @property
    @abstractmethod
    def noise_mean(self) -> float:
        """The probability of a noise message in one cell of one device."""

    @property
    def mechanism(self) -> str:
        """Name of the exact accountant of one or two totals."""
        return "zsum-exact" if self.is_scalar else "hist-exact"

    @property
    def local_epsilon(self) -> float:
        """Infinite: two messages in one cell show a device's answer to whoever sees it alone."""
        return math.inf

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon of the totals of n devices; infinite where they are too few."""
        noise = n * float(self.noise_rate)
        exact = shuffled_counts.epsilon_zsum if self.is_scalar else shuffled_counts.epsilon_hist
        return exact(n, noise, delta)

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """As ``aggregate_epsilon``: shuffled messages tell their number in each cell, and nothing else."""
        return self.aggregate_epsilon(n, delta)


@dataclass(frozen=True, slots=True)
class Zsum(ShuffledCounts):
    """A noise message in almost every cell; totals of at most n are released as 0."""

    NAME = "zsum"
    MEMBERS = ("noise_rate",)

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(shape.statistic.name, members["categories"], members["noise_rate"])

    @property
    def messages(self) -> int:
        """One in each cell, and the device's own."""
        return self.categories + 1

    @property
    def noise_mean(self) -> float:
        """``1 - noise_rate``, as it is drawn."""
        return (ONE - self.noise_below) / ONE
