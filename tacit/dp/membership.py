"""What the size of a batch tells about whether one device is of the audience (SA2 5.5).

Replacing a device of the audience by one outside it changes the number of reports from m ~ Bin(X, q) to Bin(X - 1, q),
and nothing else that is not covered by the recipe's claim. The two densities have the ratio ``(1 - q) X / (X - m)``,
which only grows with m, so that everything outside two binomial tails of weight delta lies between two values of it.
About ``5 sqrt(q / ((1 - q) X))`` at delta = 1e-6: small where many devices are asked at a rate away from 1, and without
bound at q = 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from tacit.dp import parameters


def membership_epsilon(audience: int, sampling_rate: float, delta: float) -> float:
    """epsilon at ``delta`` of the batch size of ``audience`` devices that join with probability q, when one device more
    or less is of the audience; larger audiences have a smaller one. Infinite at q = 1. ``ValueError`` names a bad
    parameter."""
    q = parameters.rate(sampling_rate)
    parameters.failure_probability(delta)
    if audience < 1:
        raise ValueError("audience must be at least 1")
    if q >= 1:
        return math.inf
    kept = (1 - q) * audience
    last = bisect_left(range(audience + 1), x=True, key=lambda m: _rarely(m, audience, q, delta, above=True)) - 1
    first = bisect_left(range(audience), x=True, key=lambda m: not _rarely(m, audience - 1, q, delta, above=False))
    more = math.inf if last >= audience else math.log(kept / (audience - last))
    return max(0.0, more, math.log((audience - first) / kept))


def _rarely(m: int, devices: int, q: float, delta: float, *, above: bool) -> bool:
    """Whether Chernoff's bound puts Pr[Bin(devices, q) >= m] (or <= m) at ``delta`` or less."""
    if devices < 1 or (m <= q * devices if above else m >= q * devices):
        return False
    share = m / devices
    divergence = share * math.log(share / q) if share > 0 else 0.0
    divergence += (1 - share) * math.log((1 - share) / (1 - q)) if share < 1 else 0.0
    return devices * divergence >= -math.log(delta)
