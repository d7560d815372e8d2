"""The fast Fourier transform of lists whose length is a power of two, with a bound on its rounding."""

from __future__ import annotations

import cmath
import math
from functools import lru_cache

_ROUNDING = 8 * 2.0**-53
"""Bound on the relative rounding of one butterfly: a complex product, its factor and a sum have under 8 units."""


@lru_cache(maxsize=2)
def _factors(size: int) -> list[complex]:
    """``exp(-2 pi i k / size)`` for k below half of ``size``."""
    return [cmath.rect(1.0, -2 * math.pi * k / size) for k in range(size // 2)]


def transform(values: list[complex]) -> list[complex]:
    """Return ``sum_j values[j] exp(-2 pi i j k / n)`` for every k; n is a power of two."""
    return _transform(values, _factors(len(values)))


def _transform(values: list[complex], factors: list[complex]) -> list[complex]:
    if len(values) == 1:
        return values
    if len(values) == 2:
        return [values[0] + values[1], values[0] - values[1]]
    even, odd = _transform(values[::2], factors[::2]), _transform(values[1::2], factors[::2])
    turned = [factor * value for factor, value in zip(factors, odd, strict=True)]
    return [a + b for a, b in zip(even, turned, strict=True)] + [a - b for a, b in zip(even, turned, strict=True)]


def folded(masses: list[float], count: int) -> list[float]:
    """Upper bounds of the cyclic ``count``-fold convolution of non-negative masses whose sum is 1.

    No entry of a transform differs from the true one by more than ``rounding = 8 u log2(n)`` times the sum of sizes (W.
    Gentleman, G. Sande, Fast Fourier Transforms; u the unit of rounding), here 1. A power differs by at most ``count``
    times that and its own rounding, and the second transform divides the sum of n such errors by n.
    """
    size = len(masses)
    spectrum = transform([complex(mass) for mass in masses])
    powers = [(value**count).conjugate() for value in spectrum]
    rounding = _ROUNDING * size.bit_length()
    allowance = (2 * count + 4) * rounding
    return [max(0.0, value.real / size) + allowance for value in transform(powers)]
