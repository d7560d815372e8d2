"""What the number of messages alone tells, in a batch that need not fill, where answers decide how often devices send.

Both aggregators see how many messages came whether or not they are ever aggregated. One device sends with probability s
or s0, by its answer; of the other N - 1 honest devices a send with s and the rest with s0, independently. Aggregators
compare ``Ber(s) + S_a`` with ``Ber(s0) + S_a``. This holds at every N, 1 included, where it is what a relay learns.

*Which a.* It is unknown, so the worst one counts. Rates in between need no look: a coin of a probability between s0 and
s is a mixture of both, and hockey sticks are jointly convex. Nor does a larger N: what one more device sends is added
independently, which is processing of the view without it, so the worst case over all N from a least one on is at that
one, and a bound at fewer devices is a bound. The same argument bounds every a from a1 to a2 by a1 devices of s and
N - 1 - a2 of s0. ``SPANS`` such spans cover all compositions; the two of equal rates, where variance and therefore
cover are smallest, stand by themselves. Up to SPANS + 1 devices every composition is looked at, beyond that the result
is at most 1/SPANS above the worst one, and exact where that is one of the two.

*One composition.* S_a is a sum of independent bits, hence log-concave: ``S_a[k-1]/S_a[k]`` grows with k, the likelihood
ratio with it, and both hockey sticks are tails (``tacit.dp.cells``).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

from tacit.dp import parameters
from tacit.dp.cells import Cell, one_cell_delta, paired
from tacit.dp.solve import smallest_epsilon_of_all
from tacit.dp.two_rates import two_rates

SPANS = 64
MOST_DEVICES = 250_000
"""More devices are taken for so many: they tell less, and the sums take longer."""
_TAIL = 1e-20


def unfilled_epsilon(sends: float, least_sends: float, devices: int, delta: float) -> float:
    """epsilon at ``delta`` of the number of messages of ``devices`` (or more) honest devices, one of which sends with
    probability ``sends`` or with ``least_sends``, each other one with either. 0 where they are equal, infinite where
    one device is sure to send. ``ValueError`` names a bad parameter."""
    s, s0 = parameters.rate(sends, "sends"), parameters.rate(least_sends, "least_sends")
    if s0 > s:
        raise ValueError("least_sends must not be above sends")
    parameters.reports(devices, "devices")
    parameters.failure_probability(delta)
    if s == s0:
        return 0.0
    return math.inf if s == 1 else _epsilon(s, s0, min(devices, MOST_DEVICES), delta)


@lru_cache(maxsize=256)
def _epsilon(s: float, s0: float, devices: int, delta: float) -> float:
    # what the one device's coin tells whoever knows all others: no number of messages tells more
    cap = max(math.log(s / s0), math.log1p(-s0) - math.log1p(-s))
    deltas = (partial(_delta, s=s, s0=s0, high=high, low=low) for high, low in _spans(devices - 1))
    return smallest_epsilon_of_all(deltas, delta, cap)


def _delta(epsilon: float, s: float, s0: float, high: int, low: int) -> float:
    # for the 2e-20 at most that a window lacks of either law
    return min(1.0, one_cell_delta(_cell(s, s0, high, low), epsilon) + 4 * _TAIL)


def _spans(others: int) -> list[tuple[int, int]]:
    """(devices of s, devices of s0) that bound all compositions of ``others``, those of one rate alone first."""
    ends = [(0, others), (others, 0)] if others else [(0, 0)]
    width = math.ceil(max(1, others - 1) / SPANS)
    starts = range(1, others, width)
    return [*ends, *((start, others - min(start + width - 1, others - 1)) for start in starts)]


@lru_cache(maxsize=3 * (SPANS + 2))
def _cell(s: float, s0: float, high: int, low: int) -> Cell:
    """A search for a target asks for claims at B and at B/2 in turn; the cells of both depend on no noise."""
    others = two_rates(high, s, low, s0)
    stays, comes = [*others, 0.0], [0.0, *others]
    return paired(*([(1 - p) * one + p * more for one, more in zip(stays, comes, strict=True)] for p in (s0, s)))
