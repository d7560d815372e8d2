"""Planning unary encodings: the weight bound beside epsilon0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from tacit.dp.rr_exact import exceeds_two_cells, rappor_flip
from tacit.methods.base.statistics import Shape
from tacit.methods.oue import Oue
from tacit.methods.planners.local import LocalPlanner
from tacit.methods.rappor import Rappor

MOST_SILENT = 1e-6
"""The weight bound of ``oue`` rejects at most this share of answers where a recipe does not state it; no claim relies
on it."""


@dataclass(frozen=True)
class RapporPlanner(LocalPlanner[Rappor]):
    """Searches by the exact delta of two counts."""

    def exceeds(self, epsilon: float, epsilon0: float, n: int, delta: float) -> bool:
        """See ``LocalPlanner.exceeds``: by the composition of the others that is usually the worst."""
        return exceeds_two_cells(epsilon, rappor_flip(epsilon0), n, delta)

    def tuned(self, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Rappor:
        """The method with this epsilon0 and the least weight bound whose rejections cost n reports ``TAIL_SHARE`` of
        delta."""
        spent = self.method.TAIL_SHARE * delta / math.exp(epsilon)
        return self.method(epsilon, shape.cells, shape.cells).rejecting_at_most(spent / (2 * n))


@dataclass(frozen=True)
class OuePlanner(LocalPlanner[Oue]):
    """Amplification by shuffling is all that is proved of its sum."""

    def tuned(self, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> Oue:
        """The method with this epsilon0 and a weight bound that rejects hardly any output."""
        return self.method(epsilon, shape.cells, shape.cells).rejecting_at_most(MOST_SILENT)
