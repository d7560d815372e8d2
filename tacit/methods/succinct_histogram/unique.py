"""The unique heavy hitter: the one item of those devices that have any, from one sign of each device.

Theory (Bassily and Smith, 2015, Algorithm 4). A device puts the codeword of its item, or zeros, through the basic
randomizer. If all devices with an item have the same one, the mean of the reports is its codeword times its share, plus
noise; the server rounds the mean to signs and decodes.

What share is enough. The paper's proof (Lemma 3.2, Theorem 3.3) bounds the Euclidean distance of the mean and needs a
share of more than fifteen times ``c sqrt(m/n)``; ``sufficient_share`` counts wrong signs instead and needs about two
and a half times as much. Let S be a coordinate's sum, times the right sign. For every r > 0, S is zero or less with
probability at most ``E e^(-rS)``. Given that h holders and o others report this coordinate, that is ``A^h B^o`` with
``A = p e^-r + (1-p) e^r`` and ``B = cosh r``: decreasing in h, as A < 1 for the r that count, and increasing in o. The
numbers h and -o of all coordinates are negatively associated, and given them signs are independent. So the number of
wrong signs has no larger moment-generating function than a binomial one of m trials, with chance ``q = E A^h B^o = (1 +
(A-1)/m)^holders (1 + (B-1)/m)^others``, and is more than the t that the code corrects with probability at most ``exp(-m
KL((t+1)/m, q))``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from decimal import Decimal

from tacit.methods.succinct_histogram.code import ItemCode
from tacit.methods.succinct_histogram.signs import BasicRandomizer, SignReport, SignSums, sign_at
from tacit.ports import Entropy

_STEPS = 60


@dataclass(frozen=True, slots=True)
class UniqueHitter:
    """``epsilon0``: the local epsilon, 1e-6 to 40; ``bits``: of an item, 1 to 64."""

    epsilon0: Decimal
    bits: int
    code: ItemCode = field(init=False, repr=False)
    randomizer: BasicRandomizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", ItemCode(self.bits))
        object.__setattr__(self, "randomizer", BasicRandomizer(self.epsilon0, self.code.length))

    def sign(self, item: int, index: int) -> int:
        """The sign, 1 or -1, at a coordinate of the codeword of ``item``."""
        return sign_at(self.code.bit(item, index), 0)

    def randomise(self, item: int | None, index: int, entropy: Entropy, /) -> int:
        """The sign that a device with ``item``, or without one, reports for a coordinate."""
        return self.randomizer.randomise(0 if item is None else self.sign(item, index), entropy)

    def report(self, item: int | None, entropy: Entropy, /) -> SignReport:
        """The report of a device with ``item``, or without one, about a coordinate that it draws itself."""
        index = self.randomizer.index(entropy)
        return SignReport(index, self.randomise(item, index, entropy))

    def find(self, sums: SignSums) -> int | None:
        """The item; any or None where the promise does not hold."""
        return self.code.decode(sums.rounded())

    def share(self, item: int, sums: SignSums) -> float:
        """The estimate of the share of devices that have the item which was found. Its error passes
        ``randomizer.deviation(reports, beta)`` with probability ``beta`` at most."""
        return sums.share(self.code.encode(item), self.randomizer)

    def failure_bound(self, holders: int, reports: int) -> float:
        """A bound on the probability that ``find`` does not find what ``holders`` of ``reports`` devices have, while
        all others have nothing."""
        length, wrong = self.code.length, self.code.correctable + 1
        chance = _chance_of_wrong_sign(float(self.randomizer.kept()), length, holders, reports)
        return math.exp(-length * _divergence(wrong / length, chance)) if chance < wrong / length else 1.0

    def sufficient_share(self, reports: int, beta: float) -> float:
        """The least share with which the item is found except with probability ``beta``; infinite if not even all
        devices are enough."""
        if self.failure_bound(reports, reports) > beta:
            return math.inf
        low, high = 0, reports
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.failure_bound(middle, reports) <= beta else (middle, high)
        return high / reports


def _chance_of_wrong_sign(kept: float, length: int, holders: int, reports: int) -> float:
    """Chernoff's bound on the chance that a coordinate's sum is not on the right side of zero."""

    def exponent(rate: float) -> float:
        holder = (kept * math.expm1(-rate) + (1 - kept) * math.expm1(rate)) / length
        other = (math.cosh(rate) - 1) / length
        return holders * math.log1p(holder) + (reports - holders) * math.log1p(other)

    # the exponent falls from 0 and rises again, and holders alone are best served by the rate where the search ends
    low, high = 0.0, math.log(kept / (1 - kept)) / 2 if kept < 1 else 50.0
    for _ in range(_STEPS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if exponent(one) < exponent(other) else (one, high)
    return min(1.0, max(math.exp(exponent((low + high) / 2)), sys.float_info.min))


def _divergence(share: float, chance: float) -> float:
    """The Kullback-Leibler divergence of two coins, for 0 < chance < share < 1."""
    return share * math.log(share / chance) + (1 - share) * math.log((1 - share) / (1 - chance))
