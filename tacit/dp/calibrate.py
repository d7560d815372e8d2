"""The accountant run backwards: parameters that keep a wanted epsilon. Every returned value was tested."""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.dp import parameters
from tacit.dp.solve import largest_where_both

Keeps = Callable[[float, int, float, float], bool]
"""``keeps(epsilon0, n, delta, target)``: whether n reports of local epsilon ``epsilon0`` are (target, delta)-private,
without a bound on the report's weight."""


def _check(delta: float, target_epsilon: float) -> float:
    parameters.failure_probability(delta)
    target = parameters.finite("epsilon", target_epsilon)
    if not parameters.MIN_EPSILON0 <= target <= parameters.MAX_EPSILON0:
        limits = f"{parameters.MIN_EPSILON0:g} to {parameters.MAX_EPSILON0:g}"
        raise parameters.ParameterError("epsilon", f"must be from {limits}")
    return target


def largest_epsilon0(
    keeps: Keeps,
    n: int,
    delta: float,
    target_epsilon: float,
    *,
    places: int = 4,
    seems_to_keep: Keeps | None = None,
    most: float = parameters.MAX_EPSILON0,
) -> float:
    """Return the largest local epsilon0 up to ``most`` whose n reports stay within ``target_epsilon``, no sampling
    claimed.

    A result below ``most`` is rounded down to ``places`` decimals (never below ``target_epsilon``, where no
    amplification is needed) and then tested. ``seems_to_keep`` must hold wherever ``keeps`` does; it saves work and
    does not change the result.
    """
    target = _check(delta, target_epsilon)
    parameters.reports(n)
    width, place = 0.25 * 10.0**-places, 10.0**-places

    def holds(epsilon0: float) -> bool:
        return keeps(epsilon0, n, delta, target)

    def seems_to_hold(epsilon0: float) -> bool:
        return (seems_to_keep or keeps)(epsilon0, n, delta, target)

    beyond = most + place + width  # rounding down does not lead below ``most`` from here
    if most <= target or (beyond < parameters.MAX_EPSILON0 and holds(beyond)):
        return most
    largest = largest_where_both(seems_to_hold, holds, target, parameters.MAX_EPSILON0, width)
    if largest is None:
        return min(target, most)
    scale = float(10**places)
    rounded = math.floor(largest * scale) / scale
    while rounded > target and not holds(rounded):
        # half a place more than needed, so that the product's rounding cannot give the same value again
        rounded = math.floor(rounded * scale - 0.5) / scale
    return min(max(rounded, target), most)
