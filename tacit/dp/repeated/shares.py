"""Many rounds of noise shares: the sum of n devices' coin flips in each, whose hockey-stick curve is exact.

A histogram by replacement moves two cells in opposite directions. Where the flips are many, its curve is that of two
independent losses of one cell each (a reflection makes the second like the first), both made discrete first: ``H2(a) <=
p + sum_i p_i H1(a e^-l_i)`` costs the same whatever the number of flips is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from tacit.dp import parameters
from tacit.dp.binomial_noise import delta_noise
from tacit.dp.repeated.losses import Curve, Loss, loss_of
from tacit.dp.repeated.rounds import epsilon_sampled_rounds, epsilon_visible_rounds
from tacit.dp.reports import NoiseStep

_FEW_FLIPS = 1 << 14
"""Up to so many flips two cells are summed exactly."""
_LARGEST_STEP = 2.0
"""No epsilon is given where a step exceeds this many standard deviations: rounds of so little noise are worth none."""
_NEGLIGIBLE = 1e-6
"""Share of a round's delta that may count as infinite in one cell."""
_ROUNDING = 1e-12


@lru_cache(maxsize=64)
def epsilon_share_rounds(step: NoiseStep, n: int, rounds: int, delta: float, rate: float | None = None) -> float:
    """An epsilon at ``delta`` of ``rounds`` rounds with the noise of n devices each, by replacement.

    ``rate``: in each round every device tosses a coin of that rate, and the sizes of batches of n or more are seen
    (P17b); None: who takes part is seen. Infinite where there is no bound of this kind: for vectors, and for too little
    noise."""
    total = n * step.flips + step.batch_flips
    moved = step.scale * step.maximum
    if step.vector is not None or total > parameters.MAX_N or 2 * moved > _LARGEST_STEP * math.sqrt(total):
        return math.inf
    base = _curve(total, moved, step.cells, _NEGLIGIBLE * delta / rounds)
    if rate is None:
        return epsilon_sampled_rounds(base, 1.0, rounds, delta)
    return epsilon_visible_rounds(base, rate, n, rounds, delta)


def _curve(total: int, moved: int, cells: int, negligible: float) -> Curve:
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
