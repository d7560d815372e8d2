"""The epsilon of many independent rounds with one discrete loss: an upper bound by a tilted, cyclic convolution.

With ``M(t) = sum_i p_i e^(t l_i)`` the masses ``p_i e^(t l_i) / M(t)`` are a distribution; if S is the sum of T of its
losses, ``P(L = x) = M(t)^T e^(-t x) Pr[S = x]`` (H. Cramer's tilting). At the order t of the Chernoff bound S lies
around the epsilon that is looked for, so that the rounding of the transform is small against delta, not only against 1.
The grid is cyclic: what wraps around only adds to a point. Sums above the window are paid for from delta, by their own
Chernoff bound.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import add, mul, sub

from tacit.dp.repeated.losses import Loss

_BUTTERFLY_ROUNDING = 8 * 2.0**-53
"""Bound on the relative rounding of one butterfly: a complex product, its factor and a sum have under 8 units."""

POINTS = 1 << 14
"""Number of points of the grid on which losses are added up."""
_BEYOND = 1e-4
"""Share of delta for sums above the window."""
_ROUNDING = 1e-6
"""Share of delta for the rounding of sums and exponents; that of a transform is counted where it occurs."""
_REACH = 8.0
"""The window begins so many standard deviations of the tilted sum below its mean."""
_STEPS = 40
_LARGEST = 700.0
"""No exponent is larger: the mass is then above every delta all the same."""
_UP, _UP_RELATIVE = 1e-11, 1e-9
"""What a result is rounded up by."""


def epsilon_of(loss: Loss, rounds: int, delta: float) -> float:
    """Return an epsilon at ``delta`` of ``rounds`` rounds; infinite where infinite losses alone exceed delta."""
    left = (1 - _ROUNDING) * delta - loss.ever_infinite(rounds)
    if left <= 0:
        return math.inf
    order = _best(lambda order: _chernoff(loss, rounds, order, left))
    least = _chernoff(loss, rounds, order, left)
    if least > 0:
        least = min(least, _epsilon_on_grid(loss, rounds, order, left))
    return max(0.0, least) * (1 + _UP_RELATIVE) + _UP


def _chernoff(loss: Loss, rounds: int, order: float, delta: float) -> float:
    """The epsilon at ``delta`` by ``max (1 - e^-x) e^(-order x) = order^order / (1 + order)^(1 + order)``."""
    constant = order * math.log(order) - (1 + order) * math.log1p(order)
    return _above(loss, rounds, order, delta) + constant / order


def _above(loss: Loss, rounds: int, order: float, chance: float) -> float:
    """A value that the sum reaches with probability ``chance`` at most."""
    return (rounds * loss.log_moment(order) - math.log(chance)) / order


def _best(bound: Callable[[float], float]) -> float:
    """The order with the least bound, by golden section; the bound of every order holds."""
    low, high = -6.0, 20.0
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(math.exp(left)) <= bound(math.exp(right)):
            high = right
        else:
            low = left
    return math.exp(0.5 * (low + high))


def _epsilon_on_grid(loss: Loss, rounds: int, order: float, delta: float) -> float:
    """The epsilon at ``delta`` on a grid from below the tilted sum to where little is left; infinite where that is too
    much for delta."""
    mean, variance = _tilted_moments(loss, order)
    bottom = rounds * mean - _REACH * math.sqrt(rounds * variance)
    # an order of its own: the window ends where far less than delta lies above it
    steeper = _best(lambda order: _above(loss, rounds, order, _BEYOND * delta))
    top = _above(loss, rounds, steeper, _BEYOND * delta)
    if not bottom < top:
        return math.inf
    width = (top - bottom) / (POINTS - 2)
    first, spread = math.floor(bottom / width), loss.split(width)
    # of the loss on the grid: to split a mass spreads it, and that makes its moments larger
    beyond = math.exp(min(0.0, rounds * spread.log_moment(steeper) - steeper * (first + POINTS) * width))
    if beyond >= delta:
        return math.inf
    grid, shift = [0.0] * POINTS, spread.log_moment(order)
    for value, mass in zip(spread.values, spread.masses, strict=True):
        grid[round(value / width) % POINTS] += mass * math.exp(order * value - shift)
    scale = rounds * shift
    chances = fold(grid, rounds)
    return _root(chances, first, width, lambda value: min(_LARGEST, scale - order * value), delta - beyond)


def _tilted_moments(loss: Loss, order: float) -> tuple[float, float]:
    """Mean and variance of one loss under the tilted distribution."""
    shift = loss.log_moment(order)
    weights = [mass * math.exp(order * value - shift) for value, mass in zip(loss.values, loss.masses, strict=True)]
    mean = math.fsum(weight * value for weight, value in zip(weights, loss.values, strict=True))
    return mean, math.fsum(weight * (value - mean) ** 2 for weight, value in zip(weights, loss.values, strict=True))


def _root(
    chances: Sequence[float], first: int, width: float, log_weight: Callable[[float], float], delta: float
) -> float:
    """Where ``E[max(1 - e^(epsilon - L), 0)]`` over the losses L of the window is ``delta``: between two points it is
    linear in e^epsilon. Not below the window."""
    at_least = reduced = 0.0  # E[1] and E[e^(x - L)] over the losses L from x upwards, x one point above ``place``
    shrink = math.exp(-width)
    for place in range(first + len(chances) - 1, first - 1, -1):
        if at_least - shrink * reduced > delta:
            return (place + 1) * width + math.log((at_least - delta) / reduced)
        chance = chances[place % len(chances)] * math.exp(log_weight(place * width))
        at_least, reduced = at_least + chance, shrink * reduced + chance
    return first * width


@lru_cache(maxsize=16)
def _factors(size: int) -> list[complex]:
    """``exp(-2 pi i k / size)`` for k below half of ``size``."""
    return [cmath.rect(1.0, -2 * math.pi * k / size) for k in range(size // 2)]


def transform(values: list[complex]) -> list[complex]:
    """Return ``sum_j values[j] exp(-2 pi i j k / n)`` for every k; n is a power of two."""
    size = len(values)
    if size == 1:
        return values
    if size == 2:
        return [values[0] + values[1], values[0] - values[1]]
    even, odd = transform(values[::2]), transform(values[1::2])
    turned = list(map(mul, _factors(size), odd))
    return [*map(add, even, turned), *map(sub, even, turned)]


def fold(masses: list[float], count: int) -> list[float]:
    """Upper bounds of the cyclic ``count``-fold convolution of non-negative masses whose sum is 1.

    No entry of a transform differs from the true one by more than ``rounding = 8 u log2(n)`` times the sum of sizes (W.
    Gentleman, G. Sande, Fast Fourier Transforms; u the unit of rounding), here 1. A power differs by at most ``count``
    times that and its own rounding, and the second transform divides the sum of n such errors by n.
    """
    size = len(masses)
    spectrum = transform([complex(mass) for mass in masses])
    # conjugated, so that the same transform leads back: its result is size times the sums, which are real
    powers = [(value**count).conjugate() for value in spectrum]
    rounding = _BUTTERFLY_ROUNDING * size.bit_length()
    allowance = (2 * count + 4) * rounding
    return [max(0.0, value.real / size) + allowance for value in transform(powers)]
