"""Find the noise that a composition needs from the accountant's own answers, always erring on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from tacit.accounting.accountants import epsilon_pld
from tacit.accounting.events import Gaussian, Relation, Repeated, Sampled
from tacit.dp.gaussian import sigma_gaussian, sigma_subsampled

MAX_STEPS = 60


@lru_cache(maxsize=512)
def sigma_for(
    epsilon: float,
    delta: float,
    q: float,
    rounds: int,
    tolerance: float = 1e-4,
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """The least sigma, to a relative ``tolerance`` above, whose ``rounds``-fold Poisson-subsampled Gaussian of
    contributions up to 1 is (epsilon, delta) by ``relation``: PLD, or a closed form where there is one (q = 1, and one
    round by add/remove or deletion).

    The returned sigma was itself accounted for. ``ValueError`` names a bad parameter.
    """
    reach = relation.contributions
    if rounds == 1 and reach == 1:
        return sigma_subsampled(epsilon, delta, q)
    widest = sigma_gaussian(epsilon, delta, float(reach)) * math.sqrt(rounds)
    if q == 1:
        return widest

    def excess(log_sigma: float) -> float:
        event = Repeated(Sampled(Gaussian(math.exp(log_sigma)), q), rounds)
        return math.log(max(epsilon_pld(event, delta, relation), 1e-12) / epsilon)

    return math.exp(least(excess, math.log(sigma_subsampled(epsilon, delta, q)), math.log(widest), tolerance))


def least(excess: Callable[[float], float], low: float, high: float, width: float) -> float:
    """The least argument in [low, high] where a falling function is at most 0, to within ``width`` above.

    Secant steps inside a bracket (ln epsilon is nearly a line in ln sigma), each pushed past its guess by ``width / 2``
    to the side that is to be closed, and a halving after two steps on the same side.
    """
    low_value, high_value = excess(low), excess(high)
    if low_value <= 0:
        return low
    side = 0
    for _ in range(MAX_STEPS):
        if high - low <= width:
            break
        middle = 0.5 * (low + high)
        if abs(side) < 2 and math.isfinite(low_value):
            guess = low + (high - low) * low_value / (low_value - high_value)
            nudge = width / 2 if side <= 0 else -width / 2
            middle = min(max(guess + nudge, low + width / 4), high - width / 4)
        value = excess(middle)
        if value <= 0:
            high, high_value, side = middle, value, max(side, 0) + 1
        else:
            low, low_value, side = middle, value, min(side, 0) - 1
        side = 0 if abs(side) > 2 else side
    return high
