"""Pointer chasing and multi-party pointer jumping: problems that need many users locally, and few when shuffled.

Theory (Balcer and Cheu, 2020, Definitions 3.5 and 3.6; the problems are by M. Joseph, J. Mao and A. Roth). All users
together hold two permutations, or the labels of a tree, each user one part, drawn uniformly. Whoever identifies the
parts that occur can compute the answer. The domain, all possible parts, is huge, which costs nothing with zsum.

Everything counts from 0. ``category`` is the paper's bijection of the domain to ``[d]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, Protocol

from tacit.ports import Entropy
from tacit.uniform import uniform_below

MAX_LENGTH = 1 << 20
Permutation = tuple[int, ...]


class Pointers(NamedTuple):
    """One user's part of a pointer-chasing problem: the first (0) or the second (1) permutation."""

    which: int
    permutation: Permutation


@dataclass(frozen=True, slots=True)
class PointerChasing:
    """``steps``: k, at least 1; ``length``: l, the numbers that are permuted, 1 to 2^20."""

    steps: int
    length: int

    def __post_init__(self) -> None:
        if self.steps < 1 or not 1 <= self.length <= MAX_LENGTH:
            raise ValueError("steps must be at least 1, and length from 1 to 2^20")

    @property
    def categories(self) -> int:
        """The size of the domain, ``2 l!``; for small lengths."""
        return 2 * math.factorial(self.length)

    @property
    def log_categories(self) -> float:
        """Natural logarithm of the number of categories."""
        return math.log(2) + math.lgamma(self.length + 1)

    def instance(self, entropy: Entropy) -> tuple[Pointers, Pointers]:
        """Two uniformly random permutations."""
        return Pointers(0, shuffled(self.length, entropy)), Pointers(1, shuffled(self.length, entropy))

    def answer(self, parts: Iterable[Pointers]) -> int | None:
        """The k-th number of ``a[0], b[a[0]], a[b[a[0]]], ...``; None unless each permutation is there once."""
        found = sorted(parts)
        if [part.which for part in found] != [0, 1]:
            return None
        at = 0
        for step in range(self.steps):
            at = found[step % 2].permutation[at]
        return at

    def category(self, part: Pointers) -> int:
        """The category of a part. ``ValueError`` for what is no permutation of this length."""
        if part.which not in (0, 1) or sorted(part.permutation) != list(range(self.length)):
            raise ValueError(f"a part is 0 or 1 and a permutation of {self.length} numbers")
        left, rank = list(range(self.length)), 0
        for number in part.permutation:
            place = left.index(number)
            rank = rank * len(left) + place
            del left[place]
        return part.which * math.factorial(self.length) + rank

    def part(self, category: int) -> Pointers:
        """The part of a category. ``ValueError`` for one outside the domain."""
        if not 0 <= category < self.categories:
            raise ValueError("no such category")
        which, rank = divmod(category, math.factorial(self.length))
        places = []
        for base in range(1, self.length + 1):
            rank, place = divmod(rank, base)
            places.append(place)
        left = list(range(self.length))
        return Pointers(which, tuple(left.pop(place) for place in reversed(places)))


class Labels(Protocol):
    """The labels of the nodes of one level of a tree, each below the number of branches."""

    def __getitem__(self, node: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class HashedLabels:
    """Labels of a level that is too large to hold, computed from a seed."""

    seed: bytes = field(repr=False)
    branches: int

    def __getitem__(self, node: int, /) -> int:
        name = node.to_bytes((node.bit_length() + 8) // 8, "big")
        return int.from_bytes(blake2b(name, key=self.seed, digest_size=24).digest(), "big") % self.branches


class Level(NamedTuple):
    """One user's part of a pointer-jumping problem: a level of the tree, the root's is 0, and its labels."""

    level: int
    labels: Labels


@dataclass(frozen=True, slots=True)
class PointerJumping:
    """``branches``: s, the children of every node, from 2 to 2^63; ``height``: h, the levels with labels, 1 to 128."""

    branches: int
    height: int

    def __post_init__(self) -> None:
        if not 2 <= self.branches <= 1 << 63 or not 1 <= self.height <= 128:
            raise ValueError("branches must be from 2 to 2^63, and height from 1 to 128")

    @property
    def categories(self) -> int:
        """The size of the domain, the sum of ``s^(s^i)`` over all levels i; for small trees."""
        return self._categories_above(self.height)

    def instance(self, entropy: Entropy) -> tuple[Level, ...]:
        """Uniformly random labels of every level."""
        return tuple(Level(level, HashedLabels(entropy(32), self.branches)) for level in range(self.height))

    def answer(self, parts: Iterable[Level]) -> tuple[int, ...] | None:
        """The labels on the path from the root to a leaf; None unless each level is there once."""
        found = sorted(parts, key=lambda part: part.level)
        if [part.level for part in found] != list(range(self.height)):
            return None
        node, path = 0, []
        for part in found:
            path.append(part.labels[node])
            node = node * self.branches + path[-1]
        return tuple(path)

    def category(self, level: int, labels: Sequence[int]) -> int:
        """The category of a level with all its labels. ``ValueError`` for what is none."""
        size = self.branches**level
        if len(labels) != size or not all(0 <= label < self.branches for label in labels):
            raise ValueError(f"level {level} has {size} labels below {self.branches}")
        number = 0
        for label in labels:
            number = number * self.branches + label
        return self._categories_above(level) + number

    def part(self, category: int) -> Level:
        """The level of a category. ``ValueError`` for one outside the domain."""
        for level in range(self.height):
            size = self.branches**level
            if 0 <= category < self.branches**size:
                powers = (self.branches ** (size - 1 - at) for at in range(size))
                return Level(level, tuple(category // power % self.branches for power in powers))
            category -= self.branches**size
        raise ValueError("no such category")

    def _categories_above(self, level: int) -> int:
        """Number of categories of levels 0 to ``level`` - 1, which come first in the domain."""
        return sum(int(self.branches ** (self.branches**above)) for above in range(level))


def shuffled(length: int, entropy: Entropy) -> Permutation:
    """A uniformly random permutation of the numbers below ``length``."""
    numbers = list(range(length))
    for at in range(length - 1, 0, -1):
        other = uniform_below(at + 1, entropy)
        numbers[at], numbers[other] = numbers[other], numbers[at]
    return tuple(numbers)
