"""RAPPOR's unary encoding (design rule P18): every bit of a one-hot vector flips alike (``tacit.methods.unary``)."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.dp.reports import epsilon_with_rejection
from tacit.dp.rr_exact import delta_two_cells, epsilon_two_cells, rappor_flip
from tacit.methods.base.draws import keep_threshold
from tacit.methods.unary import UnaryEncoding


@dataclass(frozen=True, slots=True)
class Rappor(UnaryEncoding):
    """Flip probability f = 1/(e^{e0/2} + 1) per cell."""

    NAME = "rappor"
    TAIL_SHARE = 0.001

    def _drawn_below(self) -> tuple[int, int]:
        """Both thresholds are the same: a bit is kept when its draw is below."""
        keep = keep_threshold(self.epsilon0 / 2, 1)
        return keep, keep

    @property
    def own_bit(self) -> tuple[float, float]:
        return 1 - self.noise, self.noise

    @classmethod
    def aggregate_delta(cls, epsilon: float, epsilon0: float, n: int) -> float:
        """Exact delta of two counts of n flipped bits."""
        return delta_two_cells(epsilon, rappor_flip(epsilon0), n)

    @property
    def mechanism(self) -> str:
        """Name of the exact accountant of two counts."""
        return "rappor-exact"

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon, including the cost of outputs that are not sent, or the shuffling bound where that is
        less."""

        def exact(inner: float) -> float:
            return epsilon_two_cells(rappor_flip(self.local_epsilon), n, inner)

        return epsilon_with_rejection(self.reports_epsilon(n, delta), exact, n, delta, self.reject_probability)
