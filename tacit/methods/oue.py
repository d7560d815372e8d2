"""Optimised unary encoding (T. Wang, J. Blocki, N. Li, S. Jha, "Locally Differentially Private Protocols for Frequency
Estimation", USENIX Security 2017, section 4.3): the own bit of a one-hot vector is a fair coin, every other bit is a
one with probability f = 1/(e^{e0} + 1) (``tacit.methods.unary``).

Two categories differ in two cells: a one in the own one is 1/(2f) times as likely, a zero in the other one (1-f) /
(1/2) times, and both together (1-f)/f <= e^{e0} times. The variance of a rare category's count is 4 e^{e0} / (e^{e0} -
1)^2 per report, which no other unary encoding of the same e0 goes below; RAPPOR's is e^{e0/2} / (e^{e0/2} - 1)^2, and
k-ary randomised response is better where there are fewer than 3 e^{e0} + 2 categories.

Bits are not flipped alike, so the others' noise depends on what they hold, and the accountant of RAPPOR's two counts
(``tacit.dp.rr_exact``) does not hold. What is claimed of the sum is what holds for every epsilon0-LDP method: reports
in an order that says nothing, of which the sum is a function.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from tacit.methods.draws import ONE, keep_threshold
from tacit.methods.statistics import Shape
from tacit.methods.unary import UnaryEncoding, unary_draws

MOST_SILENT = 1e-6
"""Share of answers, at most, that the bound of the weight keeps back where it is not stated; no claim rests on it."""


@dataclass(frozen=True, slots=True)
class Oue(UnaryEncoding):
    """The own bit kept with probability 1/2, any other one flipped with f = 1/(e^{e0} + 1)."""

    NAME = "oue"
    DRAWS = unary_draws("bit v = (d_v < 2^127), any other bit i = (d_i >= T(epsilon0, 1))")

    def _drawn_below(self) -> tuple[int, int]:
        """Half of all draws, and those that leave a zero."""
        return ONE // 2, keep_threshold(self.epsilon0, 1)

    @property
    def _own(self) -> tuple[float, float]:
        return 0.5, 0.5

    @classmethod
    def tuned(cls, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> Self:
        """At this epsilon0, with a bound of the weight that keeps back hardly anything."""
        return cls(epsilon, shape.cells, shape.cells).rejecting_at_most(MOST_SILENT)
