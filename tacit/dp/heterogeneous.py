"""Composition of mechanisms of which only their different (epsilon_i, delta_i) are known: light upper bounds.

The worst composition is that of independent randomised responses, each of which fails openly with probability delta_i
(J. Murtagh, S. Vadhan, The Complexity of Computing the Optimal Composition of Differential Privacy, Theorem 1.5, after
P. Kairouz, S. Oh, P. Viswanath). Its privacy loss is a sum of independent +-epsilon_i, and computing it exactly is
#P-hard. Three upper bounds of its epsilon at a total delta, of which the smallest is returned:

* addition, which needs no delta beyond the steps' own;
* Chernoff: with P the loss's distribution, ``H(epsilon) <= c(t) e^(-t epsilon) prod_i E_P[e^(t L_i)]`` for every t > 0,
  with ``c(t) = t^t / (1 + t)^(1 + t)``, the largest value of ``(1 - e^-x) e^(-t x)`` (C. Canonne, G. Kamath,
  T. Steinke, The Discrete Gaussian for Differential Privacy, Proposition 12); t runs over a fixed list;
* as many steps, all of the largest epsilon, composed exactly (``tacit.dp.composition``): a randomised response is a
  post-processing of one of a larger epsilon.

Each of them grows with every further step and with every epsilon_i and delta_i, and so does the smallest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.composition import MAX_FOLD, epsilon_composed

Step = tuple[float, float]
"""(epsilon, delta) of one mechanism."""

_ORDERS = tuple(0.01 * 1.08**power for power in range(210))
_CONSTANTS = tuple(order * math.log(order) - (1 + order) * math.log1p(order) for order in _ORDERS)
"""ln c(t) for every order t."""
_STEPS_KEPT = 4096


def slack_of(steps: Sequence[Step], total_delta: float) -> float:
    """Return the delta that ``total_delta`` leaves for the randomised responses: ``1 - (1 - total_delta) / prod(1 -
    delta_i)``. Negative where the steps' own deltas exceed it. ``ValueError`` names what is out of range."""
    parameters.failure_probability(total_delta, "total_delta")
    for _, delta in steps:
        if not 0 <= parameters.finite("delta", delta) < 1:
            raise ValueError("delta must be at least 0 and below 1")
    slack = -math.expm1(math.log1p(-total_delta) - math.fsum(math.log1p(-delta) for _, delta in steps))
    # deltas that add up to no more than total_delta leave at least 0; rounding may say less than nothing
    within = math.fsum(delta for _, delta in steps) <= total_delta
    return max(slack, 0.0) if within else slack


def epsilon_heterogeneous(steps: Sequence[Step], total_delta: float) -> float:
    """An upper bound of the composition's epsilon at ``total_delta``; infinite where the steps' own deltas exceed it.
    ``ValueError`` names what is out of range."""
    slack = slack_of(steps, total_delta)
    if slack < 0:
        return math.inf
    counts = Counter(parameters.epsilon("epsilon", epsilon) for epsilon, _ in steps)
    counts.pop(0.0, None)
    if not counts:
        return 0.0
    epsilons = [math.fsum(epsilon * count for epsilon, count in counts.items())]
    if slack >= parameters.MIN_DELTA:
        epsilons.append(_chernoff(counts, slack))
        if counts.total() <= MAX_FOLD:
            epsilons.append(epsilon_composed(max(counts), 0.0, counts.total(), slack))
    return min(epsilons)


def _chernoff(counts: Counter[float], slack: float) -> float:
    total = [0.0] * len(_ORDERS)
    for epsilon, count in counts.items():
        total = [sum_ + count * term for sum_, term in zip(total, log_moments(epsilon), strict=True)]
    return chernoff(total, slack)


def chernoff(moments: Sequence[float], slack: float) -> float:
    """The Chernoff bound of a composition whose responses' ``log_moments`` add up to ``moments``."""
    rest = math.log(slack)
    bounds = (
        (moment + constant - rest) / order for order, constant, moment in zip(_ORDERS, _CONSTANTS, moments, strict=True)
    )
    return max(0.0, min(bounds))


@lru_cache(maxsize=_STEPS_KEPT)
def log_moments(epsilon: float) -> tuple[float, ...]:
    """``ln E_P[e^(t L)]`` of one randomised response, for every order t."""
    # e^(t epsilon) (1 + e^(-(2 t + 1) epsilon)) / (1 + e^-epsilon), in which no exponential overflows
    scale = math.log1p(math.exp(-epsilon))
    return tuple(order * epsilon + math.log1p(math.exp(-(2 * order + 1) * epsilon)) - scale for order in _ORDERS)
