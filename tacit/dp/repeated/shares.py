"""Many rounds of noise shares: the sum of n devices' coin flips in each, whose hockey-stick curve is exact.

A histogram by replacement moves two cells in opposite directions. Where the flips are many, its curve is that of two
independent losses of one cell each (a reflection makes the second like the first), both made discrete first: ``H2(a) <=
p + sum_i p_i H1(a e^-l_i)`` costs the same whatever the number of flips is. A vector's curve is a closed form
(``tacit.dp.vector_noise``), of whose delta a millionth in each round is for its tails.

``share_for_rounds`` looks for the share with which many rounds keep a total.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

from tacit.dp import parameters
from tacit.dp.binomial_noise import MAX_FLIPS, MAX_SCALE, NoiseShare, delta_noise
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.repeated.losses import Curve, Loss, loss_of
from tacit.dp.repeated.rounds import epsilon_sampled_rounds, epsilon_visible_rounds
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import vector_curve

_FEW_FLIPS = 1 << 14
"""Up to so many flips two cells are summed exactly."""
_LARGEST_STEP = 2.0
"""No epsilon is given where a step exceeds this many standard deviations: rounds of so little noise are worth none."""
_NEGLIGIBLE = 1e-6
"""Share of a round's delta that may count as infinite in one cell, or that pays for the tails of a vector."""
_ROUNDING = 1e-12
_TRIES = 12
"""Most shares of which ``share_for_rounds`` computes the total."""
_AIM, _CLOSE = 0.997, 0.99
"""Shares of the wanted epsilon: what a search aims at, and where it ends."""
_WIDEST = 64
"""Among so many numbers of flips the one is taken that wastes least noise."""
_LARGEST_GAIN = 0.02
"""Flips are finer until a vector's gain is at most this share of its step in standard deviations."""


@lru_cache(maxsize=64)
def epsilon_share_rounds(step: NoiseStep, n: int, rounds: int, delta: float, rate: float | None = None) -> float:
    """An epsilon at ``delta`` of ``rounds`` rounds with the noise of n devices each, by replacement.

    ``rate``: in each round every device tosses a coin of that rate, and the sizes of batches of n or more are seen
    (P17b); None: who takes part is seen. Infinite where there is no bound of this kind: for too little noise."""
    parameters.failure_probability(delta)
    total = n * step.flips + step.batch_flips
    if total > parameters.MAX_N:
        return math.inf
    base = _curve(step, n, total, _NEGLIGIBLE * delta / rounds)
    if base is None:
        return math.inf
    if rate is None:
        return epsilon_sampled_rounds(base, 1.0, rounds, delta)
    return epsilon_visible_rounds(base, rate, n, rounds, delta)


def _curve(step: NoiseStep, n: int, total: int, negligible: float) -> Curve | None:
    """The curve of one round of n devices; None where a step is too large for the noise."""
    if step.vector is not None:
        curve = vector_curve(total, step.vector, step.scale, negligible, n * step.excess)
        return None if max(curve.tau, curve.gain) > _LARGEST_STEP else curve
    moved = step.scale * step.maximum
    # the standard deviation of the flips is sqrt(total) / 2
    if 2 * moved > _LARGEST_STEP * math.sqrt(total):
        return None
    return _cells_curve(total, moved, step.cells, negligible)


def _cells_curve(total: int, moved: int, cells: int, negligible: float) -> Curve:
    def one(epsilon: float) -> float:
        return delta_noise(epsilon, total, moved)

    if cells == 1:
        return one
    if total <= _FEW_FLIPS:
        return lambda epsilon: delta_noise(epsilon, total, moved, cells)
    return twice(loss_of(one, one, negligible))


def twice(loss: Loss) -> Curve:
    """The curve of two independent losses like ``loss``."""
    pairs = list(zip(loss.values, loss.masses, strict=True))
    upwards = [*reversed(list(accumulate(mass for _, mass in reversed(pairs)))), 0.0]
    reduced = [*reversed(list(accumulate(mass * math.exp(-value) for value, mass in reversed(pairs)))), 0.0]

    def other(epsilon: float) -> float:
        at = bisect_right(loss.values, epsilon)
        return max(0.0, upwards[at] - math.exp(epsilon) * reduced[at]) + _ROUNDING * upwards[at] + loss.infinite

    return lambda epsilon: loss.infinite + math.fsum(mass * other(epsilon - value) for value, mass in pairs)


@lru_cache(maxsize=64)
def share_for_rounds(
    step: NoiseStep, n: int, rounds: int, epsilon: float, delta: float, rate: float | None = None
) -> NoiseShare:
    """The share with which ``rounds`` rounds of n devices' noise keep (epsilon, delta) in total, by
    ``epsilon_share_rounds`` with the same ``rate``: claim (a) of a series; None: claim (b). Of ``step`` only what a
    replacement moves counts, not its scale and flips. The noise is at most about a hundredth more than what that total
    needs, where shares so fine exist. ``ValueError`` where no share of bounded size is enough."""
    if parameters.epsilon("epsilon", epsilon) == 0:
        raise ValueError("epsilon must be above 0")
    parameters.reports(n)
    aimed = _AIM * epsilon
    noise, seen = _first_guess(step, n, rounds, epsilon, delta, rate), list[tuple[float, float]]()
    best: NoiseShare | None = None
    most = max(2.0, min(MAX_FLIPS, parameters.MAX_N // n) // 2 * 2)
    for _ in range(_TRIES):
        # A first guess, or four times too little noise, may be beyond the most that there is, where less would do.
        share = _share_of(min(noise, most), step, n, _NEGLIGIBLE * delta / rounds)
        spent = epsilon_share_rounds(replace(step, scale=share.scale, flips=share.flips), n, rounds, delta, rate)
        made = share.flips / share.scale**2
        if spent <= epsilon and (best is None or made < best.flips / best.scale**2):
            best = share
        enough = spent <= epsilon
        if (enough and spent >= _CLOSE * epsilon) or (seen and seen[-1][0] == made) or (made >= most and not enough):
            break
        noise = 4 * made if math.isinf(spent) else made * (spent / aimed) ** _power(seen, made, spent)
        seen = [] if math.isinf(spent) else [(made, spent)]
    if best is None:
        raise ValueError("no share of bounded size keeps this total of epsilon and delta; more devices must contribute")
    return best


def _power(seen: list[tuple[float, float]], made: float, found: float) -> float:
    """The power of 1/epsilon by which noise grows, from two shares; at first 2, as for known participants."""
    if not seen or seen[-1][1] == found:
        return 2.0
    return min(3.0, max(0.5, math.log(seen[-1][0] / made) / math.log(found / seen[-1][1])))


def _first_guess(step: NoiseStep, n: int, rounds: int, epsilon: float, delta: float, rate: float | None) -> float:
    """Flips over the square of the scale that a Gaussian needs whose rounds add up as in the central limit: ``1 /
    sigma^2 = r^2 rounds (e^(1/s^2) - 1)`` for one of s (J. Dong, A. Roth, W. Su, Gaussian Differential Privacy,
    section 5)."""
    whole = 1 / sigma_gaussian(epsilon, delta) ** 2
    r = 1.0 if rate is None else rate
    per_round = whole / (r * r * rounds)
    square = step.cells * step.maximum**2 if step.vector is None else step.vector.squares
    return 4 * square / (n * (per_round if r == 1 else math.log1p(per_round)))


def _share_of(noise: float, step: NoiseStep, n: int, tail: float) -> NoiseShare:
    """The share with the least flips over the square of its scale that is at least ``noise``."""
    least = max(1, math.ceil(noise))
    while step.vector is not None and least < _WIDEST and n * least <= parameters.MAX_N:
        curve = vector_curve(n * least, step.vector, max(1, math.isqrt(int(least / noise))), tail)
        if curve.gain <= _LARGEST_GAIN * curve.tau:
            break
        least *= 2
    most = min(least + _WIDEST, MAX_FLIPS, parameters.MAX_N // n)
    every = 1 if step.vector is None else 2  # of vectors, so that the middle of the flips is a whole number
    least += least % every
    if least > most:
        raise ValueError("no share of bounded size keeps this total of epsilon and delta; more devices must contribute")
    tried = range(least, most + 1, every)
    shares = [NoiseShare(min(MAX_SCALE, math.isqrt(int(flips / noise))), flips) for flips in tried]
    return min(shares, key=lambda share: (share.flips / share.scale**2, share.flips))
