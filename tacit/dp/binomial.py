"""Binomial probabilities to full double precision, and windows outside which a known mass lies.

``log_pmf`` is the saddle-point form of C. Loader, "Fast and accurate computation of binomial probabilities"
(2000): the large terms cancel on paper, not in floating point. Windows come from Bernstein's inequality,
which holds for every sum of independent 0/1 variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_STIRLING = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188)
_BEYOND = 1e-9
"""Share of a tail's mass that lies beyond where its sum begins, at most."""
_NEGLIGIBLE = 1e-19
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _stirling_error(n: int) -> float:
    """ln(n!) minus Stirling's main term, n >= 1."""
    # so small, the terms that the series leaves out are not negligible; the definition loses little yet
    if n <= 15:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TWO_PI
    square = 1 / (n * n)
    total = 0.0
    for index, coefficient in enumerate(reversed(_STIRLING)):
        sign = 1 if (len(_STIRLING) - 1 - index) % 2 == 0 else -1
        total = total * square + sign * coefficient
    return total / n


def _deviance(x: float, mean: float) -> float:
    """x ln(x / mean) + mean - x without cancellation when x is near mean (both > 0)."""
    difference = x - mean
    if abs(difference) < 0.1 * (x + mean):
        v = difference / (x + mean)
        total = difference * v
        term = 2 * x * v
        for j in range(1, 1000):
            term *= v * v
            updated = total + term / (2 * j + 1)
            if updated == total:
                break
            total = updated
        return total
    return x * math.log(x / mean) + mean - x


def log_pmf(k: int, n: int, p: float) -> float:
    """ln Pr[Bin(n, p) = k] for 0 <= k <= n and 0 < p < 1; relative error of the probability about 1e-13."""
    if k == 0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    main = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    main -= _deviance(k, n * p) + _deviance(n - k, n * (1 - p))
    return main + 0.5 * math.log(n / (2 * math.pi * k * (n - k)))


def deviation(variance: float, tail: float) -> float:
    """Return t with Pr[X - E X >= t] <= tail and Pr[X - E X <= -t] <= tail, where X is a sum of independent 0/1
    variables of the given total variance (Bernstein)."""
    # Bernstein: exp(-t^2 / (2 (variance + t / 3))) = tail, solved for t
    log_tail = -math.log(tail)
    return log_tail / 3 + math.sqrt(log_tail * log_tail / 9 + 2 * variance * log_tail)


def window(n: int, mean: float, variance: float, tail: float) -> tuple[int, int]:
    """Inclusive bounds (low, high) in [0, n]; at most ``2 * tail`` of the mass lies outside."""
    t = deviation(variance, tail)
    return max(0, math.floor(mean - t)), min(n, math.ceil(mean + t))


def binomial_window(n: int, p: float, tail: float) -> tuple[int, list[float]]:
    """(low, probabilities of low, low+1, ...) of Bin(n, p); at most ``2 * tail`` of the mass is left out."""
    if n == 0:
        return 0, [1.0]
    low, high = window(n, n * p, n * p * (1 - p), tail)
    mode = min(max(int((n + 1) * p), low), high)
    centre = math.exp(log_pmf(mode, n, p))
    odds = p / (1 - p)
    below, value = [], centre
    for k in range(mode, low, -1):
        value *= k / ((n - k + 1) * odds)
        # below the smallest double: so is all that lies beyond
        if value == 0.0:
            low = k
            break
        below.append(value)
    above, value = [], centre
    for k in range(mode, high):
        value *= (n - k) * odds / (k + 1)
        if value == 0.0:
            break
        above.append(value)
    return low, [*reversed(below), centre, *above]


def rarely_reached(trials: int, p: float, chance: float) -> int:
    """The least s above the mean with ``Pr[Bin(trials, p) >= s] <= chance``, summed downwards from where almost nothing
    lies beyond."""
    tail = chance * _BEYOND
    first = min(trials, math.ceil(trials * p + deviation(trials * p * (1 - p), tail)))
    for k in range(first, int(trials * p), -1):
        tail += math.exp(log_pmf(k, trials, p))
        if tail > chance:
            return k + 1
    return int(trials * p) + 1


def binomial_above(limit: int, n: int, p: float) -> float:
    """Pr[Bin(n, p) > limit] for 0 < p < 1, summed away from the mode so that tiny values keep their digits; relative
    error about 1e-12."""
    if limit < 0:
        return 1.0
    if limit >= n:
        return 0.0
    odds = p / (1 - p)
    if limit + 1 > n * p:
        return _sum_terms(math.exp(log_pmf(limit + 1, n, p)), ((n - k) * odds / (k + 1) for k in range(limit + 1, n)))
    return 1 - _sum_terms(math.exp(log_pmf(limit, n, p)), (k / ((n - k + 1) * odds) for k in range(limit, 0, -1)))


def _sum_terms(term: float, ratios: Iterable[float]) -> float:
    """The sum of terms that fall geometrically or faster, from the largest one on."""
    total = term
    for ratio in ratios:
        term *= ratio
        if term <= total * _NEGLIGIBLE:
            break
        total += term
    return total
