"""The accountant backwards: parameters that keep a wanted epsilon. Every answer was tested."""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.amplification import delta_fmt22
from tacit.dp.claim import RAPPOR_EXACT, RR_EXACT, SHUFFLE_FMT22
from tacit.dp.rr_exact import delta_one_cell, delta_two_cells, rappor_flip, rr_flip
from tacit.dp.sampling import amplify_visible
from tacit.dp.solve import largest_where


def _keeps(mechanism: str, epsilon0: float, n: int, delta: float, target: float) -> bool:
    """Whether n reports at ``epsilon0`` are (target, delta)-private."""
    if epsilon0 <= target:
        return True
    if delta_fmt22(target, epsilon0, n, tail=delta * 1e-4) <= delta:
        return True
    if mechanism == RR_EXACT:
        return delta_one_cell(target, rr_flip(epsilon0), n) <= delta
    if mechanism == RAPPOR_EXACT:
        return delta_two_cells(target, rappor_flip(epsilon0), n) <= delta
    return False


def _check(mechanism: str, delta: float, target_epsilon: float) -> float:
    if mechanism not in (SHUFFLE_FMT22, RR_EXACT, RAPPOR_EXACT):
        raise ValueError(f"mechanism {mechanism!r} is not known")
    parameters.failure_probability(delta)
    target = parameters.finite("target_epsilon", target_epsilon)
    if not parameters.MIN_EPSILON0 <= target <= parameters.MAX_EPSILON0:
        raise ValueError(f"target_epsilon must be from {parameters.MIN_EPSILON0:g} to {parameters.MAX_EPSILON0:g}")
    return target


@lru_cache(maxsize=1024)
def largest_epsilon0(mechanism: str, n: int, delta: float, target_epsilon: float, *, places: int = 4) -> float:
    """The largest local epsilon0 whose n reports stay within ``target_epsilon``, no sampling claimed.

    Rounded down to ``places`` decimals (never below ``target_epsilon``, where no amplification is needed) and
    then tested. ``mechanism`` as in ``tacit.dp.claim``; for ``rappor-exact`` without a weight bound.
    """
    target = _check(mechanism, delta, target_epsilon)
    parameters.reports(n)

    def holds(epsilon0: float) -> bool:
        return _keeps(mechanism, epsilon0, n, delta, target)

    found = largest_where(holds, target, parameters.MAX_EPSILON0, 0.25 * 10.0**-places)
    if found is None:
        return target
    scale = float(10**places)
    rounded = math.floor(found * scale) / scale
    while rounded > target and not holds(rounded):
        rounded = math.floor(rounded * scale - 0.5) / scale
    return max(rounded, target)


def smallest_n(mechanism: str, epsilon0: float, delta: float, target_epsilon: float) -> int:
    """The least number of reports at ``epsilon0`` that stays within ``target_epsilon``, no sampling claimed.

    ``ValueError`` when even 1e9 reports do not.
    """
    target = _check(mechanism, delta, target_epsilon)
    parameters.local_epsilon(epsilon0)
    low, high = 0, 1
    while not _keeps(mechanism, epsilon0, high, delta, target):
        if high >= parameters.MAX_N:
            raise ValueError("target_epsilon cannot be met by any supported n")
        low, high = high, min(2 * high, parameters.MAX_N)
    while high - low > 1:
        middle = (low + high) // 2
        if _keeps(mechanism, epsilon0, middle, delta, target):
            high = middle
        else:
            low = middle
    return high


def largest_sampling_rate(epsilon: float, n: int, delta: float, target_epsilon: float) -> float | None:
    """The largest rate q at which a mechanism of ``epsilon`` becomes ``target_epsilon`` by sampling.

    The batch of n reports is visible (P17b). 1.0 when ``epsilon`` needs no help, None when no rate is enough;
    rounded down by at most 1e-6.
    """
    target = _check(SHUFFLE_FMT22, delta, target_epsilon)
    parameters.epsilon("epsilon", epsilon)
    if epsilon <= target:
        return 1.0

    def holds(sampling_rate: float) -> bool:
        sampled = amplify_visible(epsilon, sampling_rate, n, delta)
        return sampled is not None and sampled <= target

    return largest_where(holds, 1e-9, 1.0, 1e-6)
