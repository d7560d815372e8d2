"""Heavy hitters of a large domain: devices are split over the levels of a prefix tree, and each reports one prefix.

Theory. The domain is all strings of ``domain_bits`` bits. Level i belongs to the prefixes of ``levels[i]`` bits; every
device reports its item's prefix of one level, chosen by public randomness, with its whole epsilon. The server counts
the supports of every prefix of the first level, keeps the best ``keep``, counts the supports of all their extensions at
the next level, and so on (PEM of Wang, Li, Jha, "Locally Differentially Private Heavy Hitter Identification", 2019,
with ``tacit.succinct.affine`` as the oracle). Splitting devices costs the error a factor of the square root of the
number of levels; splitting epsilon would cost the number of levels.

Because a transform counts 2^16 extensions as cheaply as a few, steps are wide: 16 bits each where the domain allows.

Estimates are the last level's, scaled to all reports. They are unbiased for a fixed item and not clipped; those that
were chosen because they are large are too large on average.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from tacit.succinct.affine import MAX_BITS, AffineHashing
from tacit.succinct.supports import Reports, count_supports, seed_in

PUBLIC_SIZE = 16
"""Bytes of public randomness of a report: eight for the hash function, eight for the level."""
MAX_KEEP = 1024
WIDEST_STEP = 16
DEFAULT_KEEP = 64
_NORMAL = NormalDist()


def default_levels(domain_bits: int) -> tuple[int, ...]:
    """Prefix lengths with as few steps of at most 16 bits as possible, all as equal as possible."""
    if not 1 <= domain_bits <= MAX_BITS:
        raise ValueError(f"domain_bits must be from 1 to {MAX_BITS}")
    steps = -(-domain_bits // WIDEST_STEP)
    return tuple(domain_bits * at // steps for at in range(1, steps + 1))


@dataclass(frozen=True, slots=True)
class Tree:
    """What device and server agree on. ``levels``: prefix lengths in bits, rising, the last one the domain's; ``keep``:
    prefixes that are extended, 1 to 1024. ``ValueError`` names a parameter that is out of range."""

    randomizer: AffineHashing
    levels: tuple[int, ...]
    keep: int = DEFAULT_KEEP

    def __post_init__(self) -> None:
        steps = [after - before for before, after in zip((0, *self.levels), self.levels, strict=False)]
        if not self.levels or self.levels[-1] > MAX_BITS or any(not 1 <= step <= WIDEST_STEP for step in steps):
            raise ValueError(f"levels must rise in steps of 1 to {WIDEST_STEP} bits, up to {MAX_BITS} bits")
        if not 1 <= self.keep <= MAX_KEEP:
            raise ValueError(f"keep must be from 1 to {MAX_KEEP}")

    @property
    def domain_bits(self) -> int:
        """Bits of an item."""
        return self.levels[-1]

    def level_of(self, public: bytes) -> int:
        """The level of the report with these 16 public bytes: each has the same chance."""
        if len(public) != PUBLIC_SIZE:
            raise ValueError(f"a report's public randomness must have {PUBLIC_SIZE} bytes")
        return int.from_bytes(public[8:], "big") * len(self.levels) >> 64

    def prefix_of(self, item: int, level: int) -> int:
        """What a device with ``item`` reports at ``level``. ``ValueError`` for an item outside the domain."""
        if not 0 <= item < 1 << self.domain_bits:
            raise ValueError(f"an item must have {self.domain_bits} bits")
        return item >> (self.domain_bits - self.levels[level])


class Collected:
    """The reports of one recipe, kept by level until the search: nine bytes each."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.levels = [Reports(tree.randomizer.hash_bits) for _ in tree.levels]

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    def add(self, public: bytes, value: int) -> None:
        """Keep one report with its 16 public bytes. ``ValueError`` for a value that no report can have."""
        self.levels[self.tree.level_of(public)].add(seed_in(public), value)


@dataclass(frozen=True, slots=True)
class Hitter:
    """An item of the domain, the estimated number of devices that have it, and the estimate's standard error."""

    item: int
    estimate: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """The result of a search. ``hitters``: best first. ``threshold``: an estimate that an item which no device has
    passes with a probability of at most ``false_positive_rate``, over all candidates of the last level together.
    ``others_below``: with probability ``confidence``, every item that is not among ``hitters`` has fewer devices."""

    hitters: tuple[Hitter, ...]
    threshold: float
    false_positive_rate: float
    others_below: float
    confidence: float
    candidates: int = field(default=0)


def search(collected: Collected, top: int, *, false_positive_rate: float = 0.05, confidence: float = 0.95) -> Ranking:
    """The ``top`` best items. ``ValueError`` for a top outside 1 to 1024, rates outside (0, 1), or no report at a
    level."""
    tree = collected.tree
    if not 1 <= top <= MAX_KEEP or not 0 < false_positive_rate < 1 or not 0 < confidence < 1:
        raise ValueError(f"top must be from 1 to {MAX_KEEP}, and rates between 0 and 1")
    if not all(map(len, collected.levels)):
        raise ValueError("there is a level without reports")
    prefixes, before, cuts = [0], 0, []
    for level, bits in enumerate(tree.levels):
        reports = collected.levels[level]
        wanted = top if bits == tree.domain_bits else tree.keep
        supports = count_supports(reports, prefixes, before, bits - before)
        best = _best(supports, wanted + 1)
        cuts.append(_cut(best, wanted, reports, tree.randomizer, len(collected)))
        found = [((prefixes[at] << (bits - before)) | last, count) for count, at, last in best[:wanted]]
        candidates, before, prefixes = len(prefixes) << (bits - before), bits, [prefix for prefix, _ in found]
    last = collected.levels[-1]
    scale = len(collected) / len(last)
    hitters = tuple(_hitter(item, count, len(last), scale, tree.randomizer) for item, count in found)
    z = _NORMAL.inv_cdf(1 - false_positive_rate / (candidates + 1))
    threshold = z * tree.randomizer.stderr(0, len(last)) * scale
    below = _others_below(cuts, len(collected), confidence)
    return Ranking(hitters, threshold, false_positive_rate, below, confidence, candidates)


def _hitter(item: int, supports: int, reports: int, scale: float, randomizer: AffineHashing) -> Hitter:
    estimate = randomizer.estimate(supports, reports)
    return Hitter(item, estimate * scale, randomizer.stderr(estimate, reports) * scale)


def _best(supports: Sequence[array[int]], wanted: int) -> list[tuple[int, int, int]]:
    """The ``wanted`` largest (supports, index of the prefix, last bits), largest first; ties by the candidate."""
    least = _floor(supports, wanted)
    chosen = [(-count, at, last) for at, last, count in _at_least(supports, least)]
    return [(-count, at, last) for count, at, last in sorted(chosen)[:wanted]]


def _floor(supports: Sequence[array[int]], wanted: int) -> int:
    """A number of supports that at least ``wanted`` candidates have, if there are so many: the ``wanted``-th largest of
    the largest of blocks."""
    size = max(1, sum(map(len, supports)) // (4 * wanted))
    peaks = sorted((max(row[at : at + size]) for row in supports for at in range(0, len(row), size)), reverse=True)
    return peaks[wanted - 1] if len(peaks) >= wanted else min(min(row) for row in supports)


def _at_least(supports: Sequence[array[int]], least: int) -> Iterator[tuple[int, int, int]]:
    for at, row in enumerate(supports):
        for last, count in enumerate(row):
            if count >= least:
                yield at, last, count


def _cut(
    best: Sequence[tuple[int, int, int]], wanted: int, reports: Reports, randomizer: AffineHashing, total: int
) -> tuple[float, float]:
    """The estimate, scaled to ``total`` reports, from which on a candidate is kept at one level, and the standard error
    of an item with about so many devices."""
    scale = total / len(reports)
    cut = randomizer.estimate(best[wanted][0], len(reports)) if len(best) > wanted else -math.inf
    return cut * scale, randomizer.stderr(max(cut, 0.0), len(reports)) * scale


def _others_below(cuts: Sequence[tuple[float, float]], total: int, confidence: float) -> float:
    """A number of devices: no item with more is lost at any level, with probability ``confidence``. At most total / x
    items have x devices, and each has a chance at each level to fall below the cut; the sum of all chances is bounded.
    """
    below = float(total)
    for _ in range(20):
        items = max(1.0, total / max(below, 1.0))
        z = _NORMAL.inv_cdf(1 - (1 - confidence) / (items * len(cuts)))
        below = min(total, max(max(cut, 0.0) + z * stderr for cut, stderr in cuts))
    return below
