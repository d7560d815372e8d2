"""Planning shuffled counts: the least noise with which the totals hide every device."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TypeVar

from tacit.dp import shuffled_counts
from tacit.dp.binomial import binomial_above
from tacit.methods.base.statistics import Shape
from tacit.methods.planners.base import Planner
from tacit.methods.planners.registry import planner_of
from tacit.methods.shuffled import ShuffledCounts, Zsum
from tacit.methods.shuffled_few import TAIL_SHARE, Unbiased

RATE_PLACES = 12
"""Decimals of a noise rate that is searched."""
_SPARE = 2.0
"""Added to twice the target where a bound is chosen: claims are also computed for half of the devices."""
CountsT = TypeVar("CountsT", bound=ShuffledCounts)


@dataclass(frozen=True)
class ShuffledPlanner(Planner[CountsT]):
    """Searches the noise rate."""

    def epsilon_kept(self, shape: Shape, n: int, delta: float, of_half: float) -> float:
        """The epsilon of the totals of n devices, at ``delta``, with the least noise at which those of half of them are
        at most ``of_half``. ``ValueError`` where none is enough."""
        one = shape.moved == 1
        least = shuffled_counts.lambda_zsum if one else shuffled_counts.lambda_hist
        exact = shuffled_counts.epsilon_zsum if one else shuffled_counts.epsilon_hist
        half = max(1, n // 2)
        return exact(n, min(n / 2, least(of_half, delta, half) * n / half), delta)


@dataclass(frozen=True)
class ZsumPlanner(ShuffledPlanner[Zsum]):
    """Searches the noise rate alone."""

    def tuned(self, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Zsum:
        """The method with the least noise at which the totals of n devices are (epsilon, delta)-private."""
        return self.method(shape.statistic.name, shape.cells, _rate_for(shape, epsilon, n, delta))


@dataclass(frozen=True)
class UnbiasedPlanner(ShuffledPlanner[Unbiased]):
    """Searches the noise rate, and then the bound on a device's messages."""

    def tuned(self, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Unbiased:
        """The method with the least noise at which the totals of n devices are (epsilon, delta)-private, and the least
        bound whose cost fits into ``TAIL_SHARE`` of delta."""
        rate = _rate_for(shape, epsilon, n, delta * (1 - TAIL_SHARE))
        chance = TAIL_SHARE * delta * math.exp(-2 * float(epsilon) - _SPARE) / n
        k = shape.cells

        def rarely_exceeded(weight: int) -> bool:
            return binomial_above(weight, k, float(rate)) <= chance

        weight = bisect.bisect_left(range(1, k), x=True, key=rarely_exceeded) + 1
        return self.method(shape.statistic.name, k, rate, weight)


def shuffled_planner_of(method: type[CountsT]) -> ShuffledPlanner[CountsT]:
    """The planner of a method of shuffled counts. Raises ``TypeError`` for a method of another kind."""
    planner = planner_of(method)
    if not isinstance(planner, ShuffledPlanner):
        raise TypeError(f"the planner of {method.NAME} is none of shuffled counts")
    return planner


def _rate_for(shape: Shape, epsilon: Decimal, n: int, delta: float) -> Decimal:
    """The least rate with which n devices keep the target, rounded up. ``ValueError`` where none does."""
    least = shuffled_counts.lambda_zsum if shape.moved == 1 else shuffled_counts.lambda_hist
    rate = Decimal(repr(least(float(epsilon), delta, n))) / n
    return min(Decimal("0.5"), rate.quantize(Decimal(1).scaleb(-RATE_PLACES), rounding=ROUND_CEILING))
