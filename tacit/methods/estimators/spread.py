"""The likely spread of values in a range when only their mean is known.

A release of a sum gives the mean of the values and nothing about their spread. Error bars use the largest spread that a
mean allows (Bhatia and Davis: all values at either end); it holds for all data and is 1.3 to 3.6 times too wide for
ordinary data. Reported beside it is the spread of the maximum-entropy distribution on the range with this mean, an
exponential cut off at both ends: the distribution that assumes nothing beyond the range and the mean. It costs no
privacy, as it is computed from what is released anyway. It is an estimate, not a bound.
"""

from __future__ import annotations

import math

_STEEPEST = 500.0
_FLAT = 1e-3
_STEPS = 60


def typical_variance(mean: float, low: float, high: float) -> float:
    """The variance of the maximum-entropy distribution on [low, high] with this mean (clipped to the range first)."""
    width = high - low
    share = min(max((mean - low) / width, 0.0), 1.0)
    return width * width * _unit_variance(_steepness(min(share, 1 - share)))


def _steepness(share: float) -> float:
    """lambda >= 0 of the density proportional to e^(-lambda x) on [0, 1] with mean ``share``, at most 1/2."""
    low, high = 0.0, _STEEPEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _unit_mean(middle) > share else (low, middle)
    return low


def _unit_mean(steepness: float) -> float:
    return 0.5 - steepness / 12 if steepness < _FLAT else 1 / steepness - 1 / math.expm1(steepness)


def _unit_variance(steepness: float) -> float:
    if steepness < _FLAT:
        return 1 / 12
    return 1 / steepness**2 - 1 / (4 * math.sinh(steepness / 2) ** 2)
