"""Optimised unary encoding (T. Wang, J. Blocki, N. Li, S. Jha, "Locally Differentially Private Protocols for Frequency
Estimation", USENIX Security 2017, section 4.3): the own bit of a one-hot vector is a fair coin, every other bit is a
one with probability f = 1/(e^{e0} + 1) (``tacit.methods.unary``).

Two categories differ in two cells: a one in the own cell is 1/(2f) times as likely, a zero in the other one (1-f) /
(1/2) times, and both together (1-f)/f <= e^{e0} times. The variance of a rare category's count is 4 e^{e0} / (e^{e0} -
1)^2 per report, the lowest of all unary encodings with the same e0; RAPPOR's is e^{e0/2} / (e^{e0/2} - 1)^2, and k-ary
randomised response is better where there are fewer than 3 e^{e0} + 2 categories.

Bits are not flipped alike, so the others' noise depends on what they hold, and the accountant of RAPPOR's two counts
(``tacit.dp.rr_exact``) does not apply. The claim for the sum is the one that holds for every epsilon0-LDP method: that
of single reports in an order that reveals nothing, of which the sum is a function.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.methods.base.draws import ONE, keep_threshold
from tacit.methods.unary import UnaryEncoding


@dataclass(frozen=True, slots=True)
class Oue(UnaryEncoding):
    """Keeps the own bit with probability 1/2 and flips every other bit with f = 1/(e^{e0} + 1)."""

    NAME = "oue"

    def _drawn_below(self) -> tuple[int, int]:
        """The thresholds: half of all draws make the own bit a one; draws below the second leave another bit a zero."""
        return ONE // 2, keep_threshold(self.epsilon0, 1)

    @property
    def own_bit(self) -> tuple[float, float]:
        return 0.5, 0.5
