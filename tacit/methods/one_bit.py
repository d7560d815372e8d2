"""One bit of a number: a sum or a mean with a local guarantee, proved by Prio3Count.

A device rounds its value to one end of the range at random, so that the expectation is the value, and reports that bit
by randomised response (J. Duchi, M. Jordan, M. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation",
JASA 2018; "1BitMean" of B. Ding, J. Kulkarni, S. Yekhanin, "Collecting Telemetry Data Privately", NeurIPS 2017).

Privacy. The rounding looks at the device's own value alone. Hockey-stick divergences are jointly convex, so what holds
of randomised response for each pair of bits, and of its sum for all bits of the other devices, holds of their mixtures:
``rr``'s accountants are this method's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from tacit.methods.base.method import Members
from tacit.methods.base.statistics import STATISTICS, Shape, Statistic, StatisticName, neutral_of
from tacit.methods.rr import Rr


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBit(Rr):
    """``maximum`` is the largest encoded value; value v stands for ``low + unit v``."""

    NAME = "one-bit"
    MEMBERS = ("epsilon0", "maximum")
    STATISTICS = ("sum", "mean")
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

    def members(self) -> dict[str, Any]:
        """``epsilon0``, ``categories`` = 2 and ``maximum``."""
        return {**super(OneBit, self).members(), "maximum": self.maximum}

    @property
    def kind(self) -> Statistic:
        return STATISTICS[self.statistic]

    @property
    def neutral(self) -> int:
        """The encoded value with which a dummy answers; see ``neutral_of``."""
        return neutral_of(self.low, self.unit, self.maximum)
