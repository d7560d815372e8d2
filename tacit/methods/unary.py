"""Unary encodings (design rule P18): an answer is a one-hot vector of which every bit is randomised on its own.

Proved by Prio3MultihotCountVec, which bounds the weight. With h the probability of a one in the own category's cell and
f that in any other, the weight is ``Ber(h) + Bin(k-1, f)`` for every category, so the chance that an output exceeds
``max_weight`` and is not sent says nothing about the answer, and the output given that it is sent is still epsilon0-LDP
by replacement. It does shift the cells' probabilities and the effective sampling rate, and the estimator uses the
shifted ones (``tacit.methods.estimators.unary``).

A dummy is a vector of zeros whose bits are randomised likewise, given that it has at most ``max_weight`` ones, so that
it is always sent (``tacit.methods.bounded``).
"""

from __future__ import annotations

import bisect
import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from tacit.methods.base.draws import ONE, epsilon0_from
from tacit.methods.base.method import LocalMethod, Members
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import Shape

MAX_CATEGORIES = 1000


@dataclass(frozen=True, slots=True)
class UnaryEncoding(LocalMethod):
    """One bit per category; at most ``max_weight`` ones are ever sent. A draw below ``hit_below`` makes the own
    category's bit a one, a draw below ``keep_below`` leaves any other bit a zero."""

    MEMBERS = ("epsilon0", "max_weight")
    STATISTICS = ("histogram",)

    categories: int
    max_weight: int
    hit_below: int = field(default=0, init=False, repr=False)
    keep_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.categories <= MAX_CATEGORIES:
            raise ValueError(f"categories must be from 2 to {MAX_CATEGORIES}")
        if not 1 <= self.max_weight <= self.categories:
            raise ValueError("max_weight must be from 1 to the number of categories")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        for name, threshold in zip(("hit_below", "keep_below"), self._drawn_below(), strict=True):
            object.__setattr__(self, name, threshold)

    @abstractmethod
    def _drawn_below(self) -> tuple[int, int]:
        """``hit_below`` and ``keep_below``, chosen so that the method is epsilon0-LDP."""

    @property
    @abstractmethod
    def own_bit(self) -> tuple[float, float]:
        """The probabilities h and 1 - h of a one and a zero in the own category's cell, before rejection."""

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether it is a histogram with a supported number of categories."""
        return shape.statistic.name in cls.STATISTICS and 2 <= shape.cells <= MAX_CATEGORIES

    @classmethod
    def of(cls, _shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(members["epsilon0"], members["categories"], members["max_weight"])

    def rejecting_at_most(self, chance: float) -> Self:
        """The method with the least weight bound that an output exceeds with at most this probability."""

        def rarely_exceeded(weight: int) -> bool:
            return replace(self, max_weight=weight).reject_probability <= chance

        found = bisect.bisect_left(range(1, self.categories), x=True, key=rarely_exceeded) + 1
        return replace(self, max_weight=found)

    def members(self) -> dict[str, Any]:
        """``epsilon0``, ``categories`` and ``max_weight``."""
        return {**LocalMethod.members(self), "max_weight": self.max_weight}

    @property
    def proof(self) -> Proof:
        """The proof that all entries are bits, at most ``max_weight`` of them one."""
        k, w = self.categories, self.max_weight
        return Proof("Prio3MultihotCountVec", k, k + w.bit_length(), max_weight=w)

    @property
    def cells(self) -> int:
        """The number of cells: one per category."""
        return self.categories

    @property
    def reject_probability(self) -> float:
        """Pr[weight > max_weight], summed from the top so that tiny values keep their digits."""
        return _rejection_probability(self.categories, self.own_bit, self.noise, self.max_weight)

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of a one in (the true category's cell, any other), before rejection."""
        return Fraction(self.hit_below, ONE), 1 - Fraction(self.keep_below, ONE)

    @property
    def noise(self) -> float:
        """The probability f of a one in any other cell, before rejection."""
        return float(self.output_probabilities()[1])


def binomial(trials: int, p: float, k: int) -> float:
    return math.comb(trials, k) * p**k * (1 - p) ** (trials - k)


@lru_cache(maxsize=256)
def _rejection_probability(k: int, own: tuple[float, float], f: float, w: int) -> float:
    """The probability that an answer's weight exceeds w. Cached, because a claim asks for it dozens of times."""
    own_one = math.fsum(binomial(k - 1, f, j) for j in range(w, k))
    own_zero = math.fsum(binomial(k - 1, f, j) for j in range(w + 1, k))
    return own[0] * own_one + own[1] * own_zero
