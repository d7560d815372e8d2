"""The distribution of a sum of independent bits with two probabilities."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial

from tacit.dp.binomial import binomial_window, log_pmf, window

_TAIL = 1e-20
_NEGLIGIBLE = 1e-18


def two_rates(high: int, s: float, low: int, s0: float) -> list[float]:
    """The distribution of ``Bin(high, s) + Bin(low, s0)``, 0 < s0, s < 1, on a window outside which at most 2e-20 of it
    lies.

    Its generating function G has ``(1-s+sz)(1-s0+s0z) G' = (high s (1-s0+s0z) + low s0 (1-s+sz)) G``, a recurrence of
    three terms. All are positive going up below one point and going down above it, so nothing cancels; each run begins
    with two sums.
    """
    if not high or not low:
        return binomial_window(high or low, s if high else s0, _TAIL)[1]
    n = high + low
    first, last = window(n, high * s + low * s0, high * s * (1 - s) + low * s0 * (1 - s0), _TAIL)
    none, both, mixed = (1 - s) * (1 - s0), s * s0, (1 - s) * s0 + s * (1 - s0)
    level = high * s * (1 - s0) + low * s0 * (1 - s)
    # beyond it level - mixed k is below 0: going up would subtract, going down adds
    turn = min(max(math.floor(level / mixed), first), last)
    at = partial(_sum_probability, high=high, s=s, low=low, s0=s0)
    rising = [at(k) for k in range(first, min(first + 2, turn + 1))]
    for k in range(first + 1, turn):
        rising.append(((level - mixed * k) * rising[-1] + both * (n - k + 1) * rising[-2]) / (none * (k + 1)))
    falling = [at(k) for k in range(last, max(last - 2, turn), -1)]
    for k in range(last - 1, turn + 1, -1):
        more = none * (k + 1) * falling[-2] + (mixed * k - level) * falling[-1]
        falling.append(more / (both * (n - k + 1)))
    return [*rising, *reversed(falling)]


def _sum_probability(k: int, high: int, s: float, low: int, s0: float) -> float:
    """``Pr[Bin(high, s) + Bin(low, s0) = k]``, from its largest term outwards."""
    odds = s * (1 - s0) / ((1 - s) * s0)
    begin, end = max(0, k - low), min(high, k)

    def growth(j: int) -> float:
        return odds * (high - j) * (k - j) / ((j + 1) * (low - k + j + 1))

    peak = begin + bisect_left(range(begin, end), x=True, key=lambda j: growth(j) < 1)
    largest = math.exp(log_pmf(peak, high, s) + log_pmf(k - peak, low, s0))
    total, term, j = largest, largest, peak
    while j < end and term > total * _NEGLIGIBLE:
        term *= growth(j)
        total, j = total + term, j + 1
    term, j = largest, peak
    while j > begin and term > total * _NEGLIGIBLE:
        j -= 1
        term /= growth(j)
        total += term
    return total
