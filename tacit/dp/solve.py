"""Root finding on monotone functions whose result always lies on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

_RELATIVE_WIDTH = 1e-10
_AIM = 1e-10
"""How far below ln delta a search aims, so that it ends on the safe side."""
_CLOSE = 5e-10
"""A search may end this far below ln delta and this far above the root (relative)."""
_MOST_GUESSES = 24
"""After this many guesses the search only bisects, so that it ends whatever the function is."""
_ROOT_TWO = math.sqrt(2)
_STEP = 0.99
_WIDER = 4
"""Each step away from a guess is this many times the previous one."""
_SIGNIFICANT = 1e-6
"""ln delta must fall by at least this much for a slope to be more than rounding."""

Point = tuple[float, float]
"""epsilon, and ln delta(epsilon) minus the logarithm of the wanted delta."""


def smallest_epsilon(delta_of: Callable[[float], float], delta: float, cap: float) -> float:
    """The smallest epsilon in [0, cap] with ``delta_of(epsilon) <= delta``, rounded up by at most 1e-9 of it.

    ``delta_of`` is non-increasing. The returned epsilon was itself evaluated and satisfies the inequality;
    ``cap`` is returned unevaluated when nothing smaller does (the local guarantee holds without any delta). The first
    guess is the epsilon of the Gaussian mechanism with the same delta(0), the second follows its slope, further ones
    interpolate; those that lead beyond the cap are brought back by the rule that delta falls in proportion to what is
    left to it, and whatever else leaves the bracket becomes a bisection.
    """
    first = delta_of(0.0)
    if first <= delta:
        return 0.0
    low, high, target = 0.0, cap, math.log(delta)
    shift = _gaussian_shift(first)
    guess, seen, left = _gaussian_epsilon(shift, delta), [(0.0, math.log(first) - target)], _MOST_GUESSES
    while high - low > _RELATIVE_WIDTH * high:
        if not low < guess < high or left <= 0:
            guess = 0.5 * (low + high)
        value, left = delta_of(guess), left - 1
        low, high = (low, guess) if value <= delta else (guess, high)
        if value <= 0:  # nothing to take a logarithm of: nan lies in no bracket, so that the next guess is its middle
            guess = math.nan
            continue
        point = (guess, math.log(value) - target)
        if value <= delta and _is_close(seen, point):
            break
        seen = [*(seen[-2:] if len(seen) > 1 else _beside(point, shift)), point]
        # just above the wanted delta: the smallest step that counts, to the safe side
        guess = guess * (1 + _RELATIVE_WIDTH) if 0 < point[1] <= _CLOSE else _interpolate(seen)
        if high == cap and not guess < cap:
            guess = cap - (cap - point[0]) * math.exp(-point[1])
    return high


def smallest_epsilon_of_all(deltas_of: Iterable[Callable[[float], float]], delta: float, cap: float) -> float:
    """Return the smallest epsilon at which every function is at most ``delta``: ``smallest_epsilon`` of their maximum,
    but once the worst is found, the others cost one evaluation each."""
    largest = 0.0
    for delta_of in deltas_of:
        if largest < cap and (largest == 0 or delta_of(largest) > delta):
            largest = max(largest, smallest_epsilon(delta_of, delta, cap))
    return largest


def _gaussian_shift(first: float) -> float:
    """The distance, in standard deviations, of two normal distributions whose total variation is ``first``."""
    low, high = 0.0, 12.0
    # halvings enough for a guess: what is returned is tested with delta_of itself
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.erf(middle / (2 * _ROOT_TWO)) < first else (low, middle)
    return high


def _gaussian_delta(epsilon: float, shift: float) -> float:
    near, far = epsilon / shift - 0.5 * shift, epsilon / shift + 0.5 * shift
    return 0.5 * math.erfc(near / _ROOT_TWO) - 0.5 * math.exp(epsilon) * math.erfc(far / _ROOT_TWO)


def _gaussian_epsilon(shift: float, delta: float) -> float:
    low, high = 0.0, 0.5 * shift * shift + shift * math.sqrt(-2 * math.log(delta))
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _gaussian_delta(middle, shift) > delta else (low, middle)
    return high


def _beside(point: Point, shift: float) -> list[Point]:
    """A point close to ``point`` along the slope of the Gaussian mechanism; empty where that mechanism has no delta
    left."""
    at, beside = (_gaussian_delta(epsilon, shift) for epsilon in (point[0], _STEP * point[0]))
    return [(_STEP * point[0], point[1] + math.log(beside / at))] if 0 < at < beside else []


def _is_close(seen: list[Point], point: Point) -> bool:
    """Whether ``point``, on the safe side, is close enough to the root: little below the wanted delta, where delta is
    steep."""
    at, excess = point
    one, other = max(seen, key=lambda before: abs(before[1] - excess))
    fallen = abs(other - excess)
    return -excess <= _CLOSE and fallen > _SIGNIFICANT and -excess * abs(at - one) <= _CLOSE * at * fallen


def _interpolate(seen: list[Point]) -> float:
    """Where ln delta is just below the wanted one, by the curve through up to three points with epsilon as a polynomial
    in ln delta; NaN where two points have the same ln delta."""
    total = 0.0
    for at, value in seen:
        others = [other for epsilon, other in seen if epsilon != at]
        if value in others:
            return math.nan
        total += at * math.prod((-_AIM - other) / (value - other) for other in others)
    return total


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


def largest_where_both(
    cheap: Callable[[float], bool], dear: Callable[[float], bool], low: float, high: float, width: float
) -> float | None:
    """As ``largest_where`` of ``dear``, with the same result, where ``cheap`` is monotone too and holds wherever
    ``dear`` does: searching with ``cheap`` first shows where ``dear`` must be evaluated."""
    yes, no = -math.inf, math.inf

    def may_hold(value: float) -> bool:
        nonlocal no
        possible = cheap(value)
        no = no if possible else min(value, no)
        return possible

    def holds(value: float) -> bool:
        nonlocal yes, no
        if yes < value < no:
            yes, no = (value, no) if dear(value) else (yes, value)
        return value <= yes

    guess, step = largest_where(may_hold, low, high, width), width
    while guess is not None and guess >= low and not holds(guess):
        guess, step = guess - step, _WIDER * step
    return None if guess is None else largest_where(holds, low, high, width)
