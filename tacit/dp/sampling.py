"""Amplification by sampling, with the batch size in plain view (design rule P17b).

Aggregators see how many reports m a batch holds. Given m the contributors are a uniform subset of the N eligible
devices, so by replacement the factor is m/N, not the nominal rate q. By a Chernoff bound ``m <= q N (1 + sqrt(3
ln(1/d') / (q N)))`` except with probability d'; a released batch has m >= B, which gives ``q_eff = q (1 + sqrt(3
ln(1/d') / B))``. With q alone the formula is the limit of large B.

That step needs q N >= B, and nobody knows N. For smaller N, a batch that fills all the same is itself the failure
event: over all N the chance of ``m >= B and m > q_eff N`` is largest at N = B / q_eff (``excess_bound``). Where B and q
are both small, that chance exceeds d', and then it is what delta must cover.
"""

from __future__ import annotations

import math

from tacit.dp import parameters

SPLIT = 10
"""delta / SPLIT is spent on the deviation of the batch size."""
_CLOSE = 1e-9
"""How far above the least rate ``seen_rate`` may be, as a share of it; and below 1, as a share of what is not taken."""


def amplify(epsilon: float, sampling_rate: float) -> float:
    """``ln(1 + q (e^epsilon - 1))``: epsilon of a mechanism run on a random sample of rate q.

    The delta that goes with it is q times the mechanism's. ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    q = parameters.rate(sampling_rate)
    if epsilon > parameters.MAX_EPSILON0:
        raise ValueError(f"epsilon must be at most {parameters.MAX_EPSILON0:g}")
    return min(epsilon, math.log1p(q * math.expm1(epsilon)))


def q_eff(sampling_rate: float, n: int, delta_prime: float) -> float:
    """The sampling rate that may be claimed when a batch of n reports is visible.

    Holds except with probability ``delta_prime``. A result above 1 means that no amplification may be claimed.
    """
    q = parameters.rate(sampling_rate)
    parameters.reports(n)
    parameters.probability(delta_prime, "delta_prime")
    return q * (1 + math.sqrt(-3 * math.log(delta_prime) / n))


def excess_bound(sampling_rate: float, n: int, effective: float) -> float:
    """Chernoff bound, for every number of eligible devices N, on Pr[m >= n and m > effective N], m ~ Bin(N, q).

    ``exp(-(n / effective) KL(effective || q))``; ``effective`` is above q and below 1.
    """
    q = parameters.rate(sampling_rate)
    parameters.reports(n)
    if not q < effective < 1:
        raise ValueError("effective must be above the sampling rate and below 1")
    more = effective - q
    divergence = effective * math.log1p(more / q) + (1 - effective) * math.log1p(-more / (1 - q))
    return math.exp(-n / effective * divergence)


def seen_rate(sampling_rate: float, n: int, chance: float) -> float | None:
    """The least rate, rounded up, that bounds m/N of a batch of m >= n reports whatever N is, except with a probability
    of at most ``chance``: that whose own ``excess_bound`` is no larger. None where there is none below 1.

    ``excess_bound`` covers every N by itself: for ``e N < n`` the failure is ``m >= n``, at most ``exp(-N KL(n/N ||
    q))``, which grows with N; otherwise it is ``m > e N``, at most ``exp(-N KL(e || q))``, which falls with N; both end
    in ``exp(-(n/e) KL(e || q))``. It falls with e, as ``KL(e || q) / e`` grows: KL is convex and 0 at q.
    """
    q = parameters.rate(sampling_rate)
    parameters.probability(chance, "chance")
    low, high = q, 1 - (1 - q) * _CLOSE
    if q >= 1 or excess_bound(q, n, high) > chance:
        return None
    while high - low > _CLOSE * low:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess_bound(q, n, middle) <= chance else (middle, high)
    return high


def amplify_visible(epsilon: float, sampling_rate: float, n: int, delta: float) -> float | None:
    """epsilon after sampling at total failure probability ``delta``, the batch of n being visible.

    The mechanism before sampling runs at the same ``delta``. None when ``q_eff delta + max(delta/10, excess_bound) <=
    delta`` does not hold, that is, when sampling may not be claimed (always for q = 1).
    """
    parameters.failure_probability(delta)
    reserve = delta / SPLIT
    effective = q_eff(sampling_rate, n, reserve)
    if sampling_rate >= 1 or effective * delta + reserve > delta:
        return None
    # the step to q_eff needs q N >= B; this bound holds for every N
    if effective * delta + excess_bound(sampling_rate, n, effective) > delta:
        return None
    return amplify(epsilon, effective)
