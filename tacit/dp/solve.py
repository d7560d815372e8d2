"""Root finding on monotone functions that never crosses to the unsafe side."""

from __future__ import annotations

import math
from collections.abc import Callable

_RELATIVE_WIDTH = 1e-7


def smallest_epsilon(delta_of: Callable[[float], float], delta: float, cap: float) -> float:
    """The smallest epsilon in [0, cap] with ``delta_of(epsilon) <= delta``, rounded up by at most 1e-7 of it.

    ``delta_of`` is non-increasing. The returned epsilon was itself evaluated and satisfies the inequality;
    ``cap`` is returned unevaluated when nothing smaller does (the local guarantee holds without any delta).
    """
    low, low_value = 0.0, delta_of(0.0)
    if low_value <= delta:
        return 0.0
    high, high_value = cap, 0.0
    target, side = math.log(delta), 0
    while high - low > _RELATIVE_WIDTH * high:
        middle = 0.5 * (low + high)
        slope = math.log(low_value) - math.log(high_value) if high_value > 0 else 0.0
        if slope > 0 and side < 2:
            guess = low + (high - low) * (math.log(low_value) - target) / slope
            middle = min(max(guess, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
        value = delta_of(middle)
        safe = value <= delta
        side = 0 if side >= 2 else side + 1
        if safe:
            high, high_value = middle, value
        else:
            low, low_value = middle, value
    return high


def largest_where(holds: Callable[[float], bool], low: float, high: float, width: float) -> float | None:
    """The largest value in [low, high], to within ``width`` below, where a monotone predicate still holds.

    None when it does not even hold at ``low``. The returned value was tested.
    """
    if not holds(low):
        return None
    if holds(high):
        return high
    while high - low > width:
        middle = 0.5 * (low + high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
