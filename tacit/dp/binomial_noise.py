"""Noise that devices add in shares, exactly accounted for: sums of fair coin flips.

Each device scales its value by an integer ``scale`` and adds ``Bin(flips, 1/2)``; the servers see the sum. Over n
honest devices the noise is ``Bin(n flips, 1/2)``, whoever took part and however it was split: nothing is approximated,
a share is bounded (so that an encoding never overflows) and sampled by counting random bits. In units of the value its
standard deviation is ``sqrt(n flips) / (2 scale)``. A discrete Gaussian of the same small variance per device would be
no noise at all (``N(0, 0.01)`` rounded is zero), and its sum not a discrete Gaussian.

One device's step moves one cell by ``scale`` (a bounded sum; a histogram by deletion) or two cells in opposite
directions (a histogram by replacement). Both hockey sticks are exact sums up to the tails that are cut and added to
delta.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.binomial import binomial_window
from tacit.dp.cells import Cell, one_cell_delta, paired, two_cell_delta
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.solve import smallest_epsilon

_TAIL = 1e-20
MAX_FLIPS = 1 << 16
"""Most coin flips of one device's share."""
MAX_SCALE = 1 << 20
_SEARCH = 256
"""``noise_share`` looks for a scale that wastes less noise only up to this many flips."""
_GOOD_ENOUGH = 1.02
_MANY_FLIPS = 64
_HOPELESS = 3
_NO_SHARE = "no share of bounded size gives this epsilon and delta; more devices must contribute"


@dataclass(frozen=True, slots=True)
class NoiseShare:
    """What every device does: multiply by ``scale``, add ``Bin(flips, 1/2)``."""

    scale: int
    flips: int

    def standard_deviation(self, devices: int) -> float:
        """Standard deviation of the summed noise, in units of the value, when ``devices`` add their share."""
        return math.sqrt(devices * self.flips) / (2 * self.scale)

    def largest(self, maximum: int) -> int:
        """The largest number that a device with a value of at most ``maximum`` can send."""
        return self.scale * maximum + self.flips


@lru_cache(maxsize=8)
def _cell(total: int, step: int) -> Cell:
    """The noise of ``total`` flips, and the same moved up by ``step``."""
    _, noise = binomial_window(total, 0.5, _TAIL)
    return paired([*noise, *([0.0] * step)], [*([0.0] * step), *noise])


def delta_noise(epsilon: float, total: int, step: int, cells: int = 1) -> float:
    """delta(epsilon) of ``total`` flips where one device moves ``cells`` (1 or 2) cells by ``step``.

    ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    parameters.reports(total, "total")
    if not 1 <= parameters.reports(step, "step") <= MAX_SCALE:
        raise ValueError(f"step must be at most {MAX_SCALE}")
    if cells not in (1, 2):
        raise ValueError("cells must be 1 or 2")
    cell = _cell(total, step)
    # what the windows leave out: two tails of each of two cells, under either of two laws
    delta = one_cell_delta(cell, epsilon) if cells == 1 else two_cell_delta(cell, cell, epsilon)
    return min(1.0, delta + 8 * _TAIL)


@lru_cache(maxsize=64)
def epsilon_noise(total: int, step: int, delta: float, cells: int = 1) -> float:
    """Return the smallest epsilon with ``delta_noise <= delta``; infinite where there is none. Where a step is at least
    six standard deviations the result is infinite without summing, because no claim worth making is left and a hostile
    recipe must not cost its reader seconds."""
    parameters.failure_probability(delta)
    parameters.reports(total, "total")
    if step > _HOPELESS * math.sqrt(total):
        return math.inf
    cap = 60.0
    epsilon_found = smallest_epsilon(lambda epsilon: delta_noise(epsilon, total, step, cells), delta, cap)
    return math.inf if epsilon_found >= cap else epsilon_found


def noise_share(epsilon: float, delta: float, honest: int, *, step: int = 1, cells: int = 1) -> NoiseShare:
    """Return the share with which ``honest`` devices together reach (epsilon, delta), when one device moves a cell by
    ``step``.

    Further devices, whether they drop out or collude, only add noise. Among shares of few flips the function takes the
    first whose noise exceeds the least possible by under 2 %, or else the closest. Raises ``ValueError`` where no share
    of 65,536 flips is enough.
    """
    parameters.reports(honest, "honest")
    sigma = sigma_gaussian(epsilon, delta, step * math.sqrt(cells))
    least = max(1, math.ceil(4 * sigma**2 / honest * 0.9))
    if least >= _MANY_FLIPS:
        return NoiseShare(1, _fewest_flips(epsilon, delta, honest, step, cells, least))
    best: NoiseShare | None = None
    for flips in range(least, min(least + _SEARCH, MAX_FLIPS) + 1):
        share = _largest_scale(epsilon, delta, honest, flips, step, cells, sigma)
        if share is None:
            continue
        if best is None or share.standard_deviation(honest) < best.standard_deviation(honest):
            best = share
        if best.standard_deviation(honest) <= _GOOD_ENOUGH * sigma:
            break
    if best is None:
        raise ValueError(_NO_SHARE)
    return best


def _fewest_flips(epsilon: float, delta: float, honest: int, step: int, cells: int, least: int) -> int:
    """Return the fewest flips at scale 1: where they are many, a finer scale would gain nothing."""

    def holds(flips: int) -> bool:
        return delta_noise(epsilon, honest * flips, step, cells) <= delta

    most = min(2 * least, MAX_FLIPS, parameters.MAX_N // honest)
    if least > most or not holds(most):
        raise ValueError(_NO_SHARE)
    # more flips never reveal more: they are added independently
    return bisect_left(range(least, most + 1), x=True, key=holds) + least


def _largest_scale(
    epsilon: float, delta: float, honest: int, flips: int, step: int, cells: int, sigma: float
) -> NoiseShare | None:
    """Return the finest scale that still hides one step with ``flips`` per device."""
    total = honest * flips
    scale = min(MAX_SCALE // step, math.floor(math.sqrt(total) / (2 * sigma) * 1.02))
    while scale >= 1:
        if delta_noise(epsilon, total, scale * step, cells) <= delta:
            return NoiseShare(scale, flips)
        scale = min(scale - 1, math.floor(scale * 0.995))
    return None
