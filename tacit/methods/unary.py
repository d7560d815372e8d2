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

from tacit.methods.base.draws import BYTES, ONE, epsilon0_from, hex_threshold
from tacit.methods.base.method import Draws, LocalMethod, Members, check_category
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import Shape
from tacit.methods.bounded import DRAW_BYTES, bounded_bits, weight_thresholds
from tacit.ports import Entropy

MAX_CATEGORIES = 1000


def unary_draws(bits: str) -> Draws:
    """Describe the draws in words; ``bits`` says how the bits of an answer follow from their draws."""
    return Draws(
        f"k draws, w = `max_weight`; {bits}; nothing is sent if more than w are 1",
        "bits that are 1 with probability f = 1 - T / 2^128, given at most w are 1",
        "randomise 0; if nothing is sent for it, send nothing; else send a dummy",
        "`max_weight`",
        "A dummy: draw d (24 bytes) for the weight: the number of thresholds <= d, threshold j being floor(2^192 Pr[at "
        "most j ones] / Pr[at most w]) for j < w; then w draws of 24 bytes, the i-th of which (from 0) swaps place i "
        "of 0..k-1 with place i + floor(d (k - i) / 2^192); the first *weight* places are 1.",
    )


@dataclass(frozen=True, slots=True)
class UnaryEncoding(LocalMethod):
    """One bit per category; at most ``max_weight`` ones are ever sent. A draw below ``_hit`` makes the own category's
    bit a one, a draw below ``_keep`` leaves any other bit a zero."""

    MEMBERS = ("epsilon0", "max_weight")
    STATISTICS = ("histogram",)

    categories: int
    max_weight: int
    _hit: int = field(default=0, init=False, repr=False)
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.categories <= MAX_CATEGORIES:
            raise ValueError(f"categories must be from 2 to {MAX_CATEGORIES}")
        if not 1 <= self.max_weight <= self.categories:
            raise ValueError("max_weight must be from 1 to the number of categories")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        for name, threshold in zip(("_hit", "_keep"), self._drawn_below(), strict=True):
            object.__setattr__(self, name, threshold)

    @abstractmethod
    def _drawn_below(self) -> tuple[int, int]:
        """``_hit`` and ``_keep``, chosen so that the method is epsilon0-LDP."""

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

    def randomise(self, category: int, entropy: Entropy, /) -> list[int] | None:
        """The noisy bits, or None when there are more than ``max_weight`` ones."""
        check_category(category, self.categories)
        bits = self._randomise(category, entropy)
        return bits if sum(bits) <= self.max_weight else None

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """The randomised zero vector, given that at most ``max_weight`` bits are one; the work depends on the
        parameters alone."""
        return bounded_bits(self.categories, self._keep, self.max_weight, entropy)

    def missing(self, entropy: Entropy, /) -> list[int] | None:
        """None as often as for every category: whether anything is sent is drawn as for category 0; then a dummy."""
        return None if self.randomise(0, entropy) is None else self.dummy(entropy)

    def _randomise(self, category: int, entropy: Entropy) -> list[int]:
        """The one-hot vector of ``category`` with every bit randomised."""
        stream = entropy(BYTES * self.categories)
        bits = []
        for cell in range(self.categories):
            drawn = int.from_bytes(stream[BYTES * cell : BYTES * (cell + 1)], "big")
            bits.append(int(drawn < self._hit if cell == category else drawn >= self._keep))
        return bits

    @property
    def reject_probability(self) -> float:
        """Pr[weight > max_weight], summed from the top so that tiny values keep their digits."""
        return _rejection_probability(self.categories, self.own_bit, self.noise, self.max_weight)

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of a one in (the true category's cell, any other), before rejection."""
        return Fraction(self._hit, ONE), 1 - Fraction(self._keep, ONE)

    @property
    def noise(self) -> float:
        """The probability f of a one in any other cell, before rejection."""
        return float(self.output_probabilities()[1])

    def thresholds(self) -> dict[str, Any]:
        """A draw below the first threshold leaves a zero, one below the second makes the own bit a one. The number of
        ones of a dummy is the number of thresholds in the third entry that are at most its draw."""
        weights = weight_thresholds(self.categories, self._keep, self.max_weight)
        return {
            "keep_threshold": hex_threshold(self._keep),
            **({} if self._hit == self._keep else {"hit_threshold": hex_threshold(self._hit)}),
            "weight_thresholds": [hex_threshold(one, DRAW_BYTES) for one in weights],
        }


def binomial(trials: int, p: float, k: int) -> float:
    return math.comb(trials, k) * p**k * (1 - p) ** (trials - k)


@lru_cache(maxsize=256)
def _rejection_probability(k: int, own: tuple[float, float], f: float, w: int) -> float:
    """The probability that an answer's weight exceeds w. Cached, because a claim asks for it dozens of times."""
    own_one = math.fsum(binomial(k - 1, f, j) for j in range(w, k))
    own_zero = math.fsum(binomial(k - 1, f, j) for j in range(w + 1, k))
    return own[0] * own_one + own[1] * own_zero
