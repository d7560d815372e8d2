"""Amplification by shuffling: the numerical "clones" bound.

Among n reports of an epsilon0-LDP randomizer each of the other n - 1 is, with probability r, a clone that is
equally likely to be either of the two neighbouring inputs' outputs (V. Feldman, A. McMillan, K. Talwar). With
``C ~ Bin(n-1, r)``, ``A ~ Bin(C, 1/2)``, ``D ~ Ber(e^epsilon0 / (e^epsilon0 + 1))`` the view is at most as
telling as ``(A + D, C - A + 1 - D)`` against the same with D flipped:

* ``fmt21``: r = e^-epsilon0        (Hiding Among the Clones, arXiv 2012.12803)
* ``fmt22``: r = 2/(e^epsilon0 + 1) (Stronger Privacy Amplification by Shuffling), tighter; the one to use.

Given C = c the likelihood ratio grows with A + D, so the hockey stick is a tail of Bin(c, 1/2):
``alpha b(c, t-1) - (e^epsilon - 1) S(c, t)`` with b the probability, S the upper tail, t the first count
whose ratio exceeds e^epsilon and ``alpha = (e^epsilon0 - e^epsilon) / (e^epsilon0 + 1)``. The sum over c runs
downwards, where b and S follow from their predecessors by stable one-step recurrences: O(width of C) in all.
Cut tails of C are added to delta in full, and a rounding allowance on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.binomial import log_pmf, window
from tacit.dp.solve import smallest_epsilon

_TAIL = 1e-20
_LOG_NEGLIGIBLE = -600.0
"""Start where probabilities are still far from the smallest double: a zero would carry on to all below."""
_ROUNDING = 1e-11
"""Allowance for floating point, relative to the gross terms; the recurrences lose less than 1e-12."""
_BELOW_ONE = 1 - 2**-52
"""The largest double below 1: a share of a whole number that stays below it in floating point."""


def _upper_tail(c: int, k: int, first: float) -> float:
    """Pr[Bin(c, 1/2) >= k] for k > c/2, summed upwards from ``first`` = Pr[Bin(c, 1/2) = k]."""
    total, term = 0.0, first
    while k <= c and term > total * 1e-17:
        total += term
        term *= (c - k) / (k + 1)
        k += 1
    return total


def _clones_delta(epsilon: float, epsilon0: float, n: int, r: float, tail: float) -> float:
    if epsilon >= epsilon0:
        return 0.0
    growth = math.expm1(epsilon)
    alpha = (math.exp(epsilon0) - math.exp(epsilon)) / (math.exp(epsilon0) + 1)
    # With x = j / (c - j + 1) the ratio at A + D = j is (e^epsilon0 x + 1) / (x + e^epsilon0). It exceeds e^epsilon
    # above x = (e^(epsilon + epsilon0) - 1) / (e^epsilon0 - e^epsilon), which is above j = share (c + 1).
    share = min(math.expm1(epsilon + epsilon0) / (math.expm1(epsilon0) * (2 + growth)), _BELOW_ONE)
    low, c = window(n - 1, (n - 1) * r, (n - 1) * r * (1 - r), tail)
    while c > low and log_pmf(c, n - 1, r) < _LOG_NEGLIGIBLE:
        c -= 1
    t = int(share * (c + 1)) + 1
    weight = math.exp(log_pmf(c, n - 1, r)) if n > 1 else 1.0
    at = math.exp(log_pmf(t - 1, c, 0.5)) if c > 0 else 1.0
    above = _upper_tail(c, t, at * (c - t + 1) / t)
    odds = (1 - r) / r
    gained = lost = 0.0
    for count in range(c, low, -1):
        gained += weight * at
        lost += weight * above
        weight *= count * odds / (n - count)
        # Pascal's rule: S(c, t) = S(c-1, t) + b(c-1, t-1) / 2, and the last term is ``shared``. As share is below 1, t
        # falls by 1 at most.
        previous = int(share * count) + 1
        shared = at * (count - t + 1) / count
        if previous == t:
            above -= shared
            at = 2 * shared
        else:
            above += shared
            at *= 2 * (t - 1) / count
        t = previous
    gross = alpha * (gained + weight * at)
    return gross - growth * (lost + weight * above) + _ROUNDING * gross + 2 * tail


def _bound(r_of: Callable[[float], float], epsilon: float, epsilon0: float, n: int, tail: float) -> float:
    parameters.epsilon("epsilon", epsilon)
    parameters.local_epsilon(epsilon0)
    parameters.reports(n)
    return min(1.0, _clones_delta(epsilon, epsilon0, n, r_of(epsilon0), tail))


def _r_fmt22(epsilon0: float) -> float:
    return 2 / (math.exp(epsilon0) + 1)


def _r_fmt21(epsilon0: float) -> float:
    return math.exp(-epsilon0)


def delta_fmt22(epsilon: float, epsilon0: float, n: int, *, tail: float = _TAIL) -> float:
    """Upper bound on delta(epsilon) of n shuffled epsilon0-LDP reports, 2022 bound.

    ``tail`` is the mass cut on either side of C; twice it is added to the result. ``ValueError`` names a bad
    parameter.
    """
    return _bound(_r_fmt22, epsilon, epsilon0, n, tail)


def delta_fmt21(epsilon: float, epsilon0: float, n: int, *, tail: float = _TAIL) -> float:
    """As ``delta_fmt22`` by the 2021 bound; looser, kept to compare with published figures."""
    return _bound(_r_fmt21, epsilon, epsilon0, n, tail)


@lru_cache(maxsize=256)
def epsilon_fmt22(epsilon0: float, n: int, delta: float) -> float:
    """The smallest epsilon with ``delta_fmt22(epsilon) <= delta``, at most epsilon0."""
    parameters.failure_probability(delta)
    return smallest_epsilon(lambda epsilon: delta_fmt22(epsilon, epsilon0, n, tail=delta * 1e-4), delta, epsilon0)


@lru_cache(maxsize=64)
def epsilon_fmt21(epsilon0: float, n: int, delta: float) -> float:
    """The smallest epsilon with ``delta_fmt21(epsilon) <= delta``, at most epsilon0."""
    parameters.failure_probability(delta)
    return smallest_epsilon(lambda epsilon: delta_fmt21(epsilon, epsilon0, n, tail=delta * 1e-4), delta, epsilon0)
