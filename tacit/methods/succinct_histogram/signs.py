"""The basic randomizer: one sign of a vector of signs, and the sums that a server keeps of such reports.

Theory. The randomizer (R. Bassily, A. Smith, "Local, Private, Efficient Protocols for Succinct Histograms", STOC 2015,
Algorithm 1) takes a vector of m signs, divided by the square root of m so that its length is 1, or the vector of zeros
for a device without an item. It reports one coordinate j, uniform and independent of the vector, and its sign, which is
kept with probability ``p = e^e0 / (e^e0 + 1)``; a zero gives a uniform sign. The report stands for the vector that is
``c sqrt(m)`` times the sign at j and zero elsewhere, ``c = 1 / (2p - 1)``: its mean is the device's vector (Theorem
2.1).

Privacy rests on the sign alone: j may be public, and a report is then one bit.

Shares of devices, not counts, are estimated, as in the paper.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tacit.methods.base.draws import ONE, bernoulli, epsilon0_from, keep_threshold
from tacit.ports import Entropy
from tacit.uniform import uniform_below

MAX_LENGTH = 1 << 32
_HALF = ONE // 2


class SignReport(NamedTuple):
    """A coordinate, from 0, and the sign reported for it: 1 or -1."""

    coordinate: int
    sign: int


def sign_at(vector: int, index: int) -> int:
    """The sign at ``index`` of a vector whose bits are its signs, lowest first: 0 is plus, 1 is minus."""
    return 1 - 2 * (vector >> index & 1)


@dataclass(frozen=True, slots=True)
class BasicRandomizer:
    """``epsilon0``: the local epsilon, 1e-6 to 40; ``length``: m, 1 to 2^32. ``ValueError`` for others."""

    epsilon0: Decimal
    length: int
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_LENGTH:
            raise ValueError("a vector must have 1 to 2^32 signs")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "_keep", keep_threshold(self.epsilon0, 1))

    def index(self, entropy: Entropy, /) -> int:
        """A uniform coordinate from 0 to ``length - 1``, for a device that is given none."""
        return uniform_below(self.length, entropy)

    def randomise(self, sign: int, entropy: Entropy, /) -> int:
        """The sign to report for a coordinate that is ``sign``: 1, -1, or 0 without an item. Always one draw."""
        if sign not in {-1, 0, 1}:
            raise ValueError("a coordinate must be 1, -1 or 0")
        kept = bernoulli(self._keep if sign else _HALF, entropy)
        return (sign or 1) if kept else -(sign or 1)

    def empty(self, entropy: Entropy, /) -> SignReport:
        """The report of a device without an item."""
        return SignReport(self.index(entropy), self.randomise(0, entropy))

    def kept(self) -> Fraction:
        """The probability that a sign is kept, exactly as drawn."""
        return Fraction(self._keep, ONE)

    @property
    def scale(self) -> float:
        """c: by how much a mean of reported signs is too small."""
        return float(1 / (2 * self.kept() - 1))

    def deviation(self, reports: int, beta: float) -> float:
        """A bound on how far the mean of n reports' products with one fixed vector of signs lies from its expectation,
        except with probability ``beta`` (Claim 2.6, from Hoeffding's inequality: each product is c or -c)."""
        return self.scale * math.sqrt(2 * math.log(2 / beta) / reports)


class SignSums:
    """The sum of the signs reported for each coordinate: four bytes each, whatever the number of reports."""

    def __init__(self, length: int) -> None:
        self.sums = array("i", bytes(4 * length))
        self.reports = 0
        self._planes: list[tuple[int, int]] | None = None

    def add(self, report: SignReport) -> None:
        """Count one report. ``ValueError`` for one that no device of this protocol sends."""
        if not 0 <= report.coordinate < len(self.sums) or report.sign not in {-1, 1}:
            raise ValueError("a report must be a coordinate of the vector and a sign")
        self.sums[report.coordinate] += report.sign
        self.reports += 1
        self._planes = None

    def product(self, vector: int) -> int:
        """The inner product of the sums with the signs in ``vector``, which holds them as in ``sign_at``."""
        if self._planes is None:
            self._planes = [*_planes(self.sums, 1), *_planes(self.sums, -1)]
        return sum(self.sums) - 2 * sum(weight * (plane & vector).bit_count() for weight, plane in self._planes)

    def rounded(self) -> int:
        """The vector of signs that is nearest to the sums; a coordinate of which nothing is known becomes plus."""
        return _bits(value < 0 for value in self.sums)

    def share(self, vector: int, randomizer: BasicRandomizer) -> float:
        """The unbiased estimate of the share of devices that hold ``vector``, if those of all others are orthogonal to
        it. Not clipped. ``ValueError`` without reports."""
        if not self.reports:
            raise ValueError("there are no reports")
        return randomizer.scale * self.product(vector) / self.reports


def _planes(sums: array[int], sign: int) -> list[tuple[int, int]]:
    """For each binary digit of the sums of one sign: its weight, and a vector of the coordinates that have it."""
    sizes = [max(sign * value, 0) for value in sums]
    digits = range(max(sizes, default=0).bit_length())
    return [(sign << digit, _bits(size >> digit & 1 for size in sizes)) for digit in digits]


def _bits(flags: Iterable[int]) -> int:
    """An integer with these bits, lowest first."""
    return int("".join("1" if flag else "0" for flag in flags)[::-1] or "0", 2)
