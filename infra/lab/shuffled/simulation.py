"""Populations of the shuffled model, simulated cell by cell: work for each cell or category, not for each user.

The messages that are missing from a cell are ``Bin(n, lambda / n)``, whatever the users' values are, and those of two
cells are independent. A draw inverts the distribution function, so that one table serves every cell. Its law is the
binomial one up to rounding: less than 1e-12 in total variation (tails of 1e-18 each, sums of doubles, 64 random bits).
Users who run ``Hist`` for themselves withhold messages with the same probability up to 2^-128.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from infra.lab.shuffled.protocols import Zsum
from tacit.dp.binomial import binomial_window
from tacit.ports import Entropy

_TAIL = 1e-18
_WORD = 1 << 64


def words(count: int, entropy: Entropy) -> array[int]:
    """Return ``count`` uniform integers below 2^64."""
    found = array("Q", entropy(8 * count))
    if sys.byteorder == "big":
        found.byteswap()
    return found


class Lost:
    """A sampler of how many noise messages are missing from a cell."""

    def __init__(self, cell: Zsum) -> None:
        self.cell = cell
        self._low, masses = binomial_window(cell.users, cell.noise / cell.users, _TAIL)
        total = sum(masses)
        self._below = [min(int(mass / total * _WORD), _WORD) for mass in accumulate(masses)]
        self._last = len(masses) - 1

    def draw(self, cells: int, entropy: Entropy) -> list[int]:
        """The missing messages of so many independent cells."""
        low, below, last = self._low, self._below, self._last
        return [low + min(bisect_right(below, word), last) for word in words(cells, entropy)]

    def totals(self, counts: Sequence[int], entropy: Entropy) -> list[int]:
        """The messages that the analyzer counts in cells with these true counts (0 to n)."""
        users = self.cell.users
        return [count + users - lost for count, lost in zip(counts, self.draw(len(counts), entropy), strict=True)]

    def shares(self, counts: Sequence[int], entropy: Entropy) -> list[float]:
        """What ``Hist`` makes of them: the estimated shares."""
        return [self.cell.share_of(total) for total in self.totals(counts, entropy)]


def uniform_counts(users: int, values: int, entropy: Entropy) -> list[int]:
    """How many of ``users`` have each of 1 to 128 equally likely ``values``, drawn exactly."""
    if not 1 <= values <= 128:
        raise ValueError("values must be from 1 to 128")
    usable = 256 - 256 % values
    table, refused = bytes(at % values for at in range(256)), bytes(range(usable, 256))
    counts: Counter[int] = Counter()
    left = users
    while left:
        drawn = entropy(left).translate(table, refused)
        counts.update({value: drawn.count(value) for value in range(values)})
        left -= len(drawn)
    return [counts[value] for value in range(values)]
