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
from tacit.dp.solve import smallest_epsilon, smallest_epsilon_of_all
from tacit.dp.two_rates import two_rates

SPANS = 64
MOST_DEVICES = 250_000
"""Larger numbers of devices are computed as this many: more devices reveal less, and the sums would take longer."""
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
    # what the device's own coin reveals to an observer who knows all others; no number of messages reveals more
    cap = math.inf if s == 1 else max(math.log(s / s0), math.log1p(-s0) - math.log1p(-s))
    return math.inf if s == 1 else among_others((s, s0), (s, s0), devices - 1, delta, cap)


def among_others(
    either: tuple[float, float], rates: tuple[float, float], others: int, delta: float, cap: float, splits: int = 0
) -> float:
    """epsilon at ``delta``, at most ``cap``, of the number of messages when one device sends with one of the two
    probabilities ``either`` and ``others`` (or more) devices send with either of ``rates``, the larger one first.
    ``splits``: how often a span that seems worse than every known one is halved before it counts."""
    return _epsilon(either, rates, min(others, MOST_DEVICES - 1), delta, cap, splits)


@lru_cache(maxsize=256)
def _epsilon(
    either: tuple[float, float], rates: tuple[float, float], others: int, delta: float, cap: float, splits: int
) -> float:
    at = partial(_delta, either=either, rates=rates)
    if rates[0] == rates[1]:
        return smallest_epsilon(partial(at, high=others, low=0), delta, cap)
    ends, spans = _spans(others)
    smallest = smallest_epsilon_of_all((partial(at, high=high, low=others - high) for high in ends), delta, cap)
    while spans and smallest < cap:
        first, last = spans.pop()
        bound = partial(at, high=first, low=others - last)
        # no worse than what is known: one evaluation, and no search
        if bound(smallest) <= delta:
            continue
        if first < last and splits > 0:
            splits, middle = splits - 1, (first + last) // 2
            spans += [(first, middle), (middle + 1, last)]
        else:
            smallest = smallest_epsilon(bound, delta, cap)
    return smallest


def _delta(epsilon: float, either: tuple[float, float], rates: tuple[float, float], high: int, low: int) -> float:
    # covers the 2e-20 at most that a window leaves out of either distribution
    return min(1.0, one_cell_delta(_cell(either, rates, high, low), epsilon) + 4 * _TAIL)


def _spans(others: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Candidates for how many devices have the rate s: all or none, and the spans that cover all compositions in
    between."""
    width = math.ceil(max(1, others - 1) / SPANS)
    starts = range(1, others, width)
    return sorted({0, others}), [(start, min(start + width - 1, others - 1)) for start in starts]


@lru_cache(maxsize=3 * (SPANS + 2))
def _cell(either: tuple[float, float], rates: tuple[float, float], high: int, low: int) -> Cell:
    """The cell for one composition. Cached, because a search for a target asks for claims at B and at B/2 in turn and
    the cells of both are independent of any noise."""
    # ``paired`` wants a ratio that rises, so the smaller of ``either`` comes first below
    others = two_rates(high, rates[0], low, rates[1])
    stays, comes = [*others, 0.0], [0.0, *others]
    return paired(
        *([(1 - p) * one + p * more for one, more in zip(stays, comes, strict=True)] for p in reversed(either))
    )
