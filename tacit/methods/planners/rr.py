"""Planning binary randomised response, of a bit or of a number rounded to one."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from tacit.dp.rr_exact import exceeds_one_cell, rr_flip
from tacit.methods.base.statistics import Shape
from tacit.methods.one_bit import OneBit
from tacit.methods.planners.local import LocalPlanner
from tacit.methods.rr import Rr

RrT = TypeVar("RrT", bound=Rr)


@dataclass(frozen=True)
class BitPlanner(LocalPlanner[RrT]):
    """Searches by the exact delta of one count."""

    def exceeds(self, epsilon: float, epsilon0: float, n: int, delta: float) -> bool:
        """See ``LocalPlanner.exceeds``: by the composition of the others that is usually the worst."""
        return exceeds_one_cell(epsilon, rr_flip(epsilon0), n, delta)


@dataclass(frozen=True)
class RrPlanner(BitPlanner[Rr]):
    """Plans counts of the devices that hold a 1."""

    def tuned(self, _shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> Rr:
        """The method with this epsilon0; the batch size and delta are not used."""
        return self.method(epsilon)


@dataclass(frozen=True)
class OneBitPlanner(BitPlanner[OneBit]):
    """Plans sums and means, whose values devices round to one bit."""

    def tuned(self, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> OneBit:
        """The method with this epsilon0; the batch size and delta are not used."""
        categories = self.method.categories_of(shape)
        return self.method.of(shape, {"epsilon0": epsilon, "categories": categories, "maximum": shape.maximum})
