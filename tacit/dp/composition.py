"""Composition of k mechanisms of which only (epsilon, delta) is known: the optimal bound.

The worst k-fold composition of (epsilon, delta)-mechanisms is that of k randomised responses, each of which fails
openly with probability delta (P. Kairouz, S. Oh, P. Viswanath, The Composition Theorem for Differential Privacy,
Theorem 3.3). Its total delta at epsilon' is ``1 - (1 - delta)^k (1 - H)`` with
``H = sum_l C(k, l) max(e^((k-l) epsilon) - e^(epsilon' + l epsilon), 0) / (1 + e^epsilon)^k``.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.solve import smallest_epsilon

MAX_FOLD = 100_000


def delta_composed(total_epsilon: float, epsilon: float, delta: float, count: int) -> float:
    """Total delta at ``total_epsilon`` of ``count`` (epsilon, delta)-mechanisms. ``ValueError`` names a bad
    parameter."""
    parameters.epsilon("total_epsilon", total_epsilon)
    step = _step(epsilon)
    if not 0 <= parameters.finite("delta", delta) < 1:
        raise ValueError("delta must be at least 0 and below 1")
    if parameters.reports(count, "count") > MAX_FOLD:
        raise ValueError(f"count must be at most {MAX_FOLD}")
    hockey = _randomised_responses(total_epsilon, step, count)
    # rounding may take H to 1, where there is no logarithm
    return -math.expm1(count * math.log1p(-delta) + math.log1p(-min(hockey, 1 - 1e-16)))


@lru_cache(maxsize=64)
def epsilon_composed(epsilon: float, delta: float, count: int, total_delta: float) -> float:
    """The smallest total epsilon at ``total_delta``. Raises ``ValueError`` where the steps' own deltas exceed it."""
    parameters.failure_probability(total_delta, "total_delta")
    spent = -math.expm1(count * math.log1p(-delta))
    if spent > total_delta:
        raise ValueError("total_delta is below the sum of the steps' deltas")
    return smallest_epsilon(
        lambda total: delta_composed(total, epsilon, delta, count), total_delta, count * _step(epsilon)
    )


def _randomised_responses(total_epsilon: float, epsilon: float, count: int) -> float:
    """Compute H. Every term is positive and computed from its logarithm, so only two exponentials can cancel."""
    scale = count * math.log1p(math.exp(epsilon))
    terms = []
    for low in range(count + 1):
        # it falls with every step: once it is not above 0, all further terms are 0
        gap = (count - 2 * low) * epsilon - total_epsilon
        if gap <= 0:
            break
        ways = math.lgamma(count + 1) - math.lgamma(low + 1) - math.lgamma(count - low + 1)
        terms.append(math.exp(ways + (count - low) * epsilon - scale) * -math.expm1(-gap))
    return math.fsum(terms)


def _step(epsilon: float) -> float:
    if parameters.epsilon("epsilon", epsilon) == 0:
        raise ValueError("epsilon must be above 0")
    return epsilon
