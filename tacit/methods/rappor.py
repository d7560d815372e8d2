"""RAPPOR's unary encoding (design rule P18): every bit of a one-hot vector flips on its own.

Proved by Prio3MultihotCountVec, which bounds the weight. An output above ``max_weight`` is not sent. The weight is
``Ber(1-f) + Bin(k-1, f)`` for every category, so the chance of that says nothing about the answer and the output given
that it is sent is still epsilon0-LDP by replacement. It does shift the cells' probabilities and the effective sampling
rate, and the estimator uses the shifted ones (``tacit.methods.estimate``). Sums of k bits, each one with
probability f, are written B(k). With w = ``max_weight``, S the chance that an output is sent and an answer v, a sent
one has a one

* in cell v with ``(1-f) Pr[B(k-1) <= w-1] / S``,
* in another cell with ``f ((1-f) Pr[B(k-2) <= w-2] + f Pr[B(k-2) <= w-1]) / S``,
* in cell v and another one with ``(1-f) f Pr[B(k-2) <= w-2] / S``,
* in two others with ``f^2 ((1-f) Pr[B(k-3) <= w-3] + f Pr[B(k-3) <= w-2]) / S``.

A dummy is a vector of zeros whose bits flip likewise, given that it has at most w ones, so that it is always sent
(``tacit.methods.bounded``): a one in a cell with ``f Pr[B(k-1) <= w-1] / Pr[B(k) <= w]``, in two with ``f^2
Pr[B(k-2) <= w-2] / Pr[B(k) <= w]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from tacit.methods.bounded import bounded_bits
from tacit.methods.design import SampleDesign
from tacit.methods.draws import BYTES, ONE, epsilon0_from, keep_threshold
from tacit.methods.estimate import CellModel, Estimate, check_counts
from tacit.methods.types import RELATION, check_category
from tacit.ports import Entropy


def _upto(trials: int, p: float, limit: int) -> float:
    """Pr[Bin(trials, p) <= limit]; 0 for a limit below 0, and for fewer than no trials."""
    return math.fsum(_binomial(trials, p, k) for k in range(min(limit, trials) + 1))


def _binomial(trials: int, p: float, k: int) -> float:
    return math.comb(trials, k) * p**k * (1 - p) ** (trials - k)


@lru_cache(maxsize=256)
def _rejected(k: int, f: float, w: int) -> float:
    """The chance that an answer's weight exceeds w: kept, because a claim asks for it dozens of times."""
    own_one = math.fsum(_binomial(k - 1, f, j) for j in range(w, k))
    own_zero = math.fsum(_binomial(k - 1, f, j) for j in range(w + 1, k))
    return (1 - f) * own_one + f * own_zero


@dataclass(frozen=True, slots=True)
class Rappor:
    """Flip probability f = 1/(e^{e0/2} + 1) per cell; at most ``max_weight`` ones are ever sent."""

    epsilon0: Decimal
    categories: int
    max_weight: int
    name: str = field(default="rappor", init=False)
    relation: str = field(default=RELATION, init=False)
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.categories <= 1000:
            raise ValueError("categories must be from 2 to 1000")
        if not 1 <= self.max_weight <= self.categories:
            raise ValueError("max_weight must be from 1 to the number of categories")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "_keep", keep_threshold(self.epsilon0 / 2, 1))

    @property
    def cells(self) -> int:
        """One per category."""
        return self.categories

    def randomise(self, category: int, entropy: Entropy, /) -> list[int] | None:
        """The noisy bits, or None when there are more than ``max_weight`` ones."""
        check_category(category, self.categories)
        bits = self._flipped(category, entropy)
        return bits if sum(bits) <= self.max_weight else None

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """Zeros, flipped, given that at most ``max_weight`` are one; the work depends on the parameters alone."""
        return bounded_bits(self.categories, self._keep, self.max_weight, entropy)

    def missing(self, entropy: Entropy, /) -> list[int] | None:
        """None as often as for every category: whether anything is sent is drawn as for the first one; then a dummy."""
        return None if self.randomise(0, entropy) is None else self.dummy(entropy)

    def _flipped(self, category: int, entropy: Entropy) -> list[int]:
        """The one-hot vector of ``category`` with every bit flipped with probability f."""
        stream = entropy(BYTES * self.categories)
        bits = []
        for cell in range(self.categories):
            drawn = int.from_bytes(stream[BYTES * cell : BYTES * (cell + 1)], "big")
            bits.append(int(cell == category) ^ int(drawn >= self._keep))
        return bits

    @property
    def reject_probability(self) -> float:
        """Pr[weight > max_weight], summed from the top so that tiny values keep their digits."""
        return _rejected(self.categories, self._flip(), self.max_weight)

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of a one in (the true category's cell, any other), before rejection."""
        keep = Fraction(self._keep, ONE)
        return keep, 1 - keep

    def _flip(self) -> float:
        return float(self.output_probabilities()[1])

    def _model(self, design: SampleDesign) -> CellModel:
        """The cells' probabilities in what is sent."""
        f, k, w = self._flip(), self.categories, self.max_weight
        sent, dummy_sent = 1 - self.reject_probability, _upto(k, f, w)
        one, two = _upto(k - 2, f, w - 2), _upto(k - 2, f, w - 1)
        others = f * f * ((1 - f) * _upto(k - 3, f, w - 3) + f * _upto(k - 3, f, w - 2))
        return CellModel(
            hit=(1 - f) * _upto(k - 1, f, w - 1) / sent,
            noise=f * ((1 - f) * one + f * two) / sent,
            design=design,
            dummy=f * _upto(k - 1, f, w - 1) / dummy_sent,
            sent=sent,
            pairs=((1 - f) * f * one / sent, others / sent, f * f * one / dummy_sent),
        )

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per category; the design is the recipe's, rejection is accounted here."""
        check_counts(counts, self.categories, n, design, self.categories)
        if sum(counts) > n * self.max_weight:
            raise ValueError("counts must not exceed n times max_weight in total")
        return self._model(design).estimate(counts, n)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """Nothing but for what the bound of the weight shifts: a vector of zeros is of no category."""
        return self._model(design).missing_adds(self.categories)

    def expected_stderrs(self, truth: Sequence[float], population: int, design: SampleDesign) -> tuple[float, ...]:
        """Standard deviation per category given the true counts."""
        return self._model(design).stderrs(truth, population)
