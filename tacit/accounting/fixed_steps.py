"""The privacy loss distribution of many different (epsilon_i, delta_i) steps that are all fixed beforehand.

Only an (epsilon, delta) by replacement is known of each step. The worst composition of such claims is that of
randomised responses with losses +-epsilon_i (see ``tacit.dp.heterogeneous``), so its distribution is a sum of two-point
distributions. It is kept on a grid, with losses rounded up, and composed by shifting and adding, without a Fourier
transform and its rounding noise. ``tacit.accounting.accountants`` computes the same with dp-accounting and serves as
the tests' oracle; this module composes a thousand different claims in a second.

No account uses it: whoever chooses a step after seeing what the others told exceeds this epsilon
(``tacit.ledger.filter``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tacit.dp.heterogeneous import Step, epsilon_heterogeneous, slack_of
from tacit.dp.parameters import MIN_DELTA

GRID = 1e-4
"""Spacing of the loss grid; doubled until a distribution has at most ``CELLS`` cells, halved while it has few."""
CELLS = 1 << 17
FEW = 1 << 15
FINEST = 8
"""The grid is halved at most this often."""
DEVIATIONS = 9.5
"""The distribution is kept this many standard deviations to both sides of its mean."""
AT_ONCE = 32
"""How many equal responses are composed in one step."""
MOST_EXPONENT = 700.0
"""The largest x for which e^x is computed; above it the result overflows a double."""
NEGLIGIBLE = 1e-18
"""Probability that one composition may cut off. What is cut off above counts as an infinite loss; what is cut off below
counts as the smallest loss kept."""


class Losses:
    """The loss distribution of a composition of randomised responses: ``mass[i]`` at ``(low + i) * grid``."""

    def __init__(self, counts: Counter[float]) -> None:
        import numpy as np

        self._np = np
        deviation = math.sqrt(sum(count * epsilon * epsilon for epsilon, count in counts.items()))
        self.grid = _grid(2 * DEVIATIONS * deviation)
        self.mass: Any = np.ones(1)
        self.low = 0
        self.infinite = 0.0
        cells: Counter[int] = Counter()
        for epsilon, count in counts.items():
            cells[math.ceil(epsilon / self.grid - 1e-9)] += count
        for steps, count in sorted(cells.items()):
            for done in range(0, count, AT_ONCE):
                self._respond(steps, min(AT_ONCE, count - done))
        positions = (self.low + np.arange(len(self.mass))) * self.grid
        self._tail = np.concatenate([np.cumsum(self.mass[::-1])[::-1], [0.0]])
        self._discounted = np.concatenate([np.cumsum((self.mass * np.exp(-positions))[::-1])[::-1], [0.0]])

    def _respond(self, steps: int, count: int) -> None:
        """Compose with ``count`` responses whose loss is +-``steps`` cells."""
        up = 1 / (1 + math.exp(-steps * self.grid))
        size = len(self.mass)
        composed = self._np.zeros(size + 2 * steps * count)
        for ups in range(count + 1):
            weight = math.comb(count, ups) * up**ups * (1 - up) ** (count - ups)
            composed[2 * steps * ups : 2 * steps * ups + size] += weight * self.mass
        self.mass, self.low = composed, self.low - steps * count
        self._cut()

    def _cut(self) -> None:
        above = self._np.cumsum(self.mass[::-1])
        last = len(self.mass) - int(self._np.searchsorted(above, NEGLIGIBLE, side="right"))
        if last < len(self.mass):
            self.infinite += float(self.mass[last:].sum())
            self.mass = self.mass[:last]
        first = int(self._np.searchsorted(self._np.cumsum(self.mass), NEGLIGIBLE, side="right"))
        if first:
            kept = self.mass[first:].copy()
            kept[0] += float(self.mass[:first].sum())
            self.mass, self.low = kept, self.low + first

    def hockey_stick(self, epsilon: float) -> float:
        """``E[max(0, 1 - e^(epsilon - L))]``, for an epsilon of either sign."""
        at = min(max(math.floor(epsilon / self.grid) + 1 - self.low, 0), len(self.mass))
        less = math.exp(epsilon) * float(self._discounted[at]) if epsilon < MOST_EXPONENT else 0.0  # never too small
        value = float(self._tail[at]) - less
        return max(0.0, value) + self.infinite


def _grid(span: float) -> float:
    """A power of two times ``GRID``: grids are nested, so that a further step never lowers the rounded result."""
    grid = GRID
    while span > CELLS * grid:
        grid *= 2
    for _ in range(FINEST):
        if span > FEW * grid:
            break
        grid /= 2
    return grid


@lru_cache(maxsize=16)
def _losses(counts: frozenset[tuple[float, int]]) -> Losses:
    return Losses(Counter(dict(counts)))


def compose_fixed(steps: Sequence[Step], delta: float) -> float:
    """The epsilon at ``delta`` by replacement of steps that are fixed beforehand; infinite where their own deltas
    exceed ``delta``. Never above the light bound. ``ValueError`` names what is out of range."""
    light = epsilon_heterogeneous(steps, delta)
    slack = slack_of(steps, delta)
    if slack < MIN_DELTA or len(steps) < 2:
        return light
    return min(light, _solve(steps, slack))


def _solve(steps: Sequence[Step], slack: float) -> float:
    """Return the smallest epsilon at which the responses' hockey-stick divergence is at most ``slack``, rounded up by
    at most 1e-7."""
    counts = Counter(epsilon for epsilon, _ in steps if epsilon > 0)
    losses = _losses(frozenset(counts.items()))
    low, high = 0.0, math.fsum(epsilon * count for epsilon, count in counts.items())
    if losses.hockey_stick(0.0) <= slack:
        return 0.0
    while high - low > 1e-7 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if losses.hockey_stick(middle) <= slack else (middle, high)
    return high
