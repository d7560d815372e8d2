"""The theorems of Balcer and Cheu (2020) with their constants, and the exact numbers that they bound.

Logarithms are natural. A cell of n users has the noise ``lambda - Bin(n, lambda / n)``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate

from tacit.dp import parameters
from tacit.dp.binomial import binomial_window
from tacit.dp.shuffled_counts import paper_lambda

_TAIL = 1e-18
_NEGLIGIBLE = 1e-15
"""Relative; the float of a bound of the paper may miss an integer by that much."""


def least_users(epsilon: float, delta: float) -> int:
    """The least n for which Theorem 3.1 holds, ``(100 / epsilon^2) ln(2 / delta)``: then p is at least 1/2."""
    return math.ceil(2 * paper_lambda(epsilon, delta))


def require_enough_users(epsilon: float, delta: float, users: int) -> None:
    """Raise ``ValueError`` outside of what Theorem 3.1 is about: epsilon above 1, or fewer users than it asks for."""
    if not 0 < epsilon <= 1:
        raise ValueError("the paper's protocol takes an epsilon above 0 and up to 1 for each cell")
    least = least_users(epsilon, delta)
    if parameters.reports(users, "users") < least:
        raise ValueError(f"the paper's protocol needs {least} users for this epsilon and delta")


def zsum_error(epsilon: float, delta: float, users: int, beta: float) -> float:
    """alpha of Theorem 3.1, part ii: the error of a share that ``zsum`` exceeds with probability ``beta`` at most,
    ``50 ln(2/delta) / (epsilon^2 n) + sqrt(200 ln(2/delta) ln(2/beta)) / (epsilon n)``.

    ``ValueError`` for a beta below ``delta^25``, to which the theorem does not go, and for too few users.
    """
    require_enough_users(epsilon, delta, users)
    if not parameters.probability(beta, "beta") >= delta**25:
        raise ValueError("beta must be at least delta^25")
    spread = math.sqrt(200 * math.log(2 / delta) * math.log(2 / beta))
    return (paper_lambda(epsilon, delta) + spread / epsilon) / users


def hist_error(epsilon: float, delta: float, users: int, beta: float, nonempty: int | None = None) -> float:
    """alpha of Theorem 3.2, part iii, for the largest error of all shares: that of one cell at ``beta`` divided by the
    number of cells that are not empty (if unknown, n). ``epsilon`` and ``delta`` are those of one cell."""
    return zsum_error(epsilon, delta, users, beta / (nonempty or users))


def zsum_failure(alpha: float, users: int, noise: float) -> float:
    """The probability with which a share of ``zsum`` errs by more than ``alpha``, for the true count for which it is
    largest; too high by 1e-15 at most.

    A true count x is kept if fewer than x messages are missing, and then its error is that of the noise; else it is
    x. Of the counts above ``alpha n``, for which both can be too large, the least is erased the most often. Counts up
    to ``alpha n`` fail only where far too few messages are missing, with which every other count fails too.
    """
    low, masses = binomial_window(users, noise / users, _TAIL)
    below = [0.0, *accumulate(masses)]

    def up_to(missing: float) -> float:
        """Pr[Bin(n, noise / n) <= missing]."""
        return below[min(max(math.floor(missing) - low + 1, 0), len(masses))]

    least = math.floor(alpha * users * (1 + _NEGLIGIBLE)) + 1
    few = up_to(noise - alpha * users - _NEGLIGIBLE * users)
    if least > users:
        return min(1.0, few + 2 * _TAIL)
    kept_and_close = up_to(min(least - 1, noise + alpha * users)) - few
    return min(1.0, max(0.0, 1 - kept_and_close) + 2 * _TAIL)


def zsum_error_reached(users: int, noise: float, beta: float) -> float:
    """The least alpha, in whole users, with ``zsum_failure`` at most ``beta``, as a share."""
    parameters.probability(beta, "beta")
    found = bisect_left(range(users + 1), x=True, key=lambda count: zsum_failure(count / users, users, noise) <= beta)
    return found / users


def pointer_chasing_rate(length: int, epsilon: float) -> float:
    """``l / e^epsilon``: non-interactive local protocols need some constant times this number of users to chase two
    pointers in permutations of ``length`` (l). The constant is not stated in the paper, nor in the sources it names."""
    return length / math.exp(parameters.epsilon("epsilon", epsilon))


def pointer_jumping_rate(height: int, epsilon: float) -> float:
    """``h^3 / (epsilon^2 ln h)`` for trees of ``height`` h >= 2 with h^4 children each: as for pointer chasing, but of
    sequentially interactive local protocols."""
    if height < 2 or not parameters.epsilon("epsilon", epsilon):
        raise ValueError("height must be at least 2, and epsilon above 0")
    return height**3 / (epsilon**2 * math.log(height))
