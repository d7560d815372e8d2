"""What one additional message reveals when k others each send one with probability p: ``{1 + Bin(k, p), Bin(k, p)}``.

The likelihood ratio at j messages is ``j (1 - p) / ((k - j + 1) p)``, which grows with j, so both hockey sticks are
tails. ``p`` need not be small: where everybody sends, one additional message is hidden as little as where nobody does.
More devices never reveal more (their messages are added independently of the one in question).
"""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.binomial import log_pmf
from tacit.dp.solve import smallest_epsilon

MAX_EPSILON = 60.0
_ROUNDING = 1e-11
"""Allowance for floating point, relative to the gross terms."""
_NEGLIGIBLE = 1e-17


def delta_binomial_shift(epsilon: float, trials: int, p: float) -> float:
    """The larger hockey stick of {Bin(trials, p), 1 + Bin(trials, p)}, in both directions.

    ``trials`` from 0 to 1e9, 0 < p < 1. ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    parameters.probability(p, "p")
    if trials == 0:
        return 1.0
    parameters.reports(trials, "trials")
    growth, gained = math.exp(epsilon), math.expm1(epsilon)
    # the likelihood ratio passes e^epsilon at ``first`` and e^-epsilon at ``last``. ``Pr[Bin >= first - 1] - e^epsilon
    # Pr[Bin >= first]``: all but one term of the first tail cancels, which leaves the edge and a multiple of the rest
    first = min(math.floor((trials + 1) * p * growth / (1 - p + p * growth)), trials) + 1
    last = max(math.ceil((trials + 1) * p / (growth * (1 - p) + p)), 1) - 1
    more = _stick(first - 1, _upper(first, trials, p), gained, trials, p)
    fewer = _stick(last, _lower(last - 1, trials, p), gained, trials, p)
    return min(1.0, max(more, fewer, 0.0))


@lru_cache(maxsize=256)
def epsilon_binomial_shift(trials: int, p: float, delta: float) -> float:
    """The smallest epsilon with ``delta_binomial_shift <= delta``; infinite where none up to 60 will do."""
    parameters.failure_probability(delta)
    smallest = smallest_epsilon(lambda epsilon: delta_binomial_shift(epsilon, trials, p), delta, MAX_EPSILON)
    return math.inf if smallest >= MAX_EPSILON else smallest


def _stick(edge: int, beyond: float, gained: float, trials: int, p: float) -> float:
    """``Pr[edge] - (e^epsilon - 1) Pr[beyond]``, rounded up."""
    at, lost = _pmf(edge, trials, p), gained * beyond
    return at - lost + _ROUNDING * (at + lost)


def _pmf(k: int, trials: int, p: float) -> float:
    return math.exp(log_pmf(k, trials, p)) if 0 <= k <= trials else 0.0


def _upper(k: int, trials: int, p: float) -> float:
    """Pr[Bin(trials, p) >= k] for k above the mean, summed upwards."""
    # the terms that are left out here and below would be subtracted: without them delta is too large, never too small
    total, term, odds = 0.0, _pmf(k, trials, p), p / (1 - p)
    while term > total * _NEGLIGIBLE:
        total += term
        term *= (trials - k) * odds / (k + 1)
        k += 1
    return total


def _lower(k: int, trials: int, p: float) -> float:
    """Pr[Bin(trials, p) <= k] for k below the mean, summed downwards."""
    total, term, odds = 0.0, _pmf(k, trials, p), (1 - p) / p
    while term > total * _NEGLIGIBLE:
        total += term
        term *= k * odds / (trials - k + 1)
        k -= 1
    return total
