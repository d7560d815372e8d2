"""Planning local randomizers: the largest local epsilon with which the sum of the reports keeps a target."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import TypeVar

from tacit.dp.amplification import delta_fmt22
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.parameters import MAX_EPSILON0
from tacit.methods.base.method import LocalMethod
from tacit.methods.planners.base import Planner
from tacit.methods.planners.registry import planner_of

EPSILON_PLACES = 4
"""Decimals to which a local epsilon is searched."""
LocalT = TypeVar("LocalT", bound=LocalMethod)


@dataclass(frozen=True)
class LocalPlanner(Planner[LocalT]):
    """Searches by ``aggregate_delta`` of the method, where that is less than amplification by shuffling."""

    def exceeds(self, _epsilon: float, _epsilon0: float, _n: int, _delta: float) -> bool:
        """Whether ``aggregate_delta`` is seen to exceed delta after a small part of its work."""
        return True

    def keeps(self, epsilon0: float, n: int, delta: float, target: float) -> bool:
        """Whether the sum of n reports with ``epsilon0``, all of them sent, is (target, delta)-private."""
        if epsilon0 <= target or delta_fmt22(target, epsilon0, n, tail=delta * 1e-4) <= delta:
            return True
        if self.exceeds(target, epsilon0, n, delta):
            return False
        return self.method.aggregate_delta(target, epsilon0, n) <= delta

    def seems_to_keep(self, epsilon0: float, n: int, delta: float, target: float) -> bool:
        """Whether ``keeps`` may hold, decided with a small part of its work."""
        if epsilon0 <= target or not self.exceeds(target, epsilon0, n, delta):
            return True
        return delta_fmt22(target, epsilon0, n, tail=delta * 1e-4) <= delta

    def largest_epsilon0(self, n: int, delta: float, epsilon: float, most: float = MAX_EPSILON0) -> float:
        """The largest local epsilon up to ``most`` with which the sum of n reports is (epsilon, delta)-private, rounded
        down. ``ValueError`` names what is out of range."""
        left = delta * (1 - self.method.TAIL_SHARE)
        return largest_epsilon0(
            self.keeps, n, left, epsilon, places=EPSILON_PLACES, seems_to_keep=self.seems_to_keep, most=most
        )


def local_planner_of(method: type[LocalT]) -> LocalPlanner[LocalT]:
    """The planner of a local randomizer. Raises ``TypeError`` for a method of another kind."""
    planner = planner_of(method)
    if not isinstance(planner, LocalPlanner):
        raise TypeError(f"the planner of {method.NAME} is none of local randomizers")
    return planner


def rounded_epsilon0(value: float) -> Decimal:
    """A local epsilon with ``EPSILON_PLACES`` decimals, not above ``value``."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-EPSILON_PLACES), rounding=ROUND_FLOOR)
