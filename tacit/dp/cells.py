"""Counts that one device moves: exact hockey sticks of one cell, and of two that move in opposite directions.

Everything here is about log-concave counts, so that likelihood ratios are monotone and each hockey stick is a tail.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

_ROUNDING = 1e-10
"""Allowance for floating point, relative to the larger of the two terms whose difference is delta."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Distribution of one cell's count on one window: ``zero`` without the device's own bit, ``one`` with it.

    ``ratio`` is one/zero, non-decreasing; ``*_upto[i]`` is the mass below index i, ``*_from[i]`` the mass from i
    upwards.
    """

    zero: list[float]
    one: list[float]
    ratio: list[float]
    zero_upto: list[float] = field(repr=False)
    one_upto: list[float] = field(repr=False)
    zero_from: list[float] = field(repr=False)
    one_from: list[float] = field(repr=False)


def paired(zero: Sequence[float], one: Sequence[float]) -> Cell:
    """Make the cell of two distributions on the same window whose ratio one/zero does not fall."""
    # monotone in theory (log-concave counts); the running maximum undoes what rounding made fall, for bisection
    ratio = list(accumulate((b / a if a else math.inf for a, b in zip(zero, one, strict=True)), max))
    return Cell(
        zero=list(zero),
        one=list(one),
        ratio=ratio,
        zero_upto=[0.0, *accumulate(zero)],
        one_upto=[0.0, *accumulate(one)],
        zero_from=[*reversed(list(accumulate(reversed(zero)))), 0.0],
        one_from=[*reversed(list(accumulate(reversed(one)))), 0.0],
    )


def one_cell_delta(cell: Cell, epsilon: float) -> float:
    """The larger hockey stick of own bit 1 against own bit 0, in both directions."""
    bound = math.exp(epsilon)
    high = bisect_left(cell.ratio, bound)
    forward = cell.one_from[high] - bound * cell.zero_from[high]
    gross = cell.one_from[high]
    low = bisect_left(cell.ratio, 1 / bound)
    backward = cell.zero_upto[low] - bound * cell.one_upto[low]
    return max(forward, backward) + _ROUNDING * max(gross, cell.zero_upto[low])


def two_cell_delta(first: Cell, second: Cell, epsilon: float) -> float:
    """Hockey stick of (own bits 1, 0) against (0, 1) in two independent cells."""
    bound = math.exp(epsilon)
    total = gross = 0.0
    # limits rise with the first cell's ratio, so that the place in the second only moves up: linear work
    reach = 0
    # not a number at the end, which is within no limit
    ratios, zero_upto, one_upto = [*second.ratio, math.nan], second.zero_upto, second.one_upto
    start = bisect_left(first.ratio, bound * second.ratio[0] * (1 - 1e-12))  # below it, nothing is within any limit
    for ratio, zero, one in zip(first.ratio[start:], first.zero[start:], first.one[start:], strict=True):
        limit = ratio / bound
        while ratios[reach] <= limit:
            reach += 1
        gain = one * zero_upto[reach]
        gross += gain
        total += gain - bound * zero * one_upto[reach]
    return total + _ROUNDING * gross
