"""Heavy hitters of a large domain: devices are split over the levels of a prefix tree, and each reports one prefix.

Theory. Items are strings of ``bits`` bits. Level i belongs to the prefixes of ``levels[i]`` bits
(``tacit.methods.affine``); every device reports its item's prefix of one level, chosen by public randomness, with its
whole epsilon. The server counts the supports of every prefix of the first level, keeps the best ones, counts the
supports of all their extensions at the next level, and so on (PEM of T. Wang, N. Li, S. Jha, "Locally Differentially
Private Heavy Hitter Identification", 2019, with affine hashing as its oracle). Splitting devices costs the error a
factor of the square root of the number of levels; splitting epsilon would cost the number of levels.

Because a transform counts 2^16 extensions as cheaply as a few, steps are wide: 16 bits each where the domain allows.

Estimates are the last level's, scaled to all reports. They are unbiased for a fixed item and not clipped; those that
were chosen because they are large are too large on average.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tacit.methods.affine import AffineHashing, level_of, seed_of
from tacit.succinct.supports import Reports, count_supports

MAX_TOP = 1000
"""Most items of a ranking."""
KEEP = 64
"""How many prefixes are extended at each level."""
_NORMAL = NormalDist()


class Collected:
    """The reports of one recipe, kept by level until the search: nine bytes each."""

    def __init__(self, randomizer: AffineHashing) -> None:
        self.randomizer = randomizer
        self.levels = [Reports(randomizer.hash_bits) for _ in randomizer.levels]

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    def add(self, public: bytes, value: int) -> None:
        """Keep one report with its 16 public bytes. ``ValueError`` for a value that no report can have."""
        self.levels[level_of(public, len(self.levels))].add(seed_of(public), value)


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


def search(
    collected: Collected, top: int, *, keep: int = KEEP, false_positive_rate: float = 0.05, confidence: float = 0.95
) -> Ranking:
    """The ``top`` best items. ``ValueError`` for a top or keep outside 1 to 1000, rates outside (0, 1), or a level
    without reports."""
    if not 1 <= top <= MAX_TOP or not 1 <= keep <= MAX_TOP:
        raise ValueError(f"top and keep must be from 1 to {MAX_TOP}")
    if not 0 < false_positive_rate < 1 or not 0 < confidence < 1:
        raise ValueError("rates must be above 0 and below 1")
    if not all(map(len, collected.levels)):
        raise ValueError("there is a level without reports")
    randomizer, total = collected.randomizer, len(collected)
    prefixes, before, cuts, candidates = [0], 0, [], 1
    found: list[tuple[int, int]] = []
    for bits, reports in zip(randomizer.levels, collected.levels, strict=True):
        wanted, step = top if bits == randomizer.bits else keep, bits - before
        best = _best(count_supports(reports, prefixes, before, step), wanted + 1)
        cuts.append(_cut(best, wanted, reports, randomizer, total))
        found = [((prefixes[at] << step) | last, count) for count, at, last in best[:wanted]]
        candidates, before, prefixes = len(prefixes) << step, bits, [prefix for prefix, _ in found]
    last = len(collected.levels[-1])
    hitters = tuple(_hitter(item, count, last, total / last, randomizer) for item, count in found)
    z = _NORMAL.inv_cdf(1 - false_positive_rate / (candidates + 1))
    threshold = z * randomizer.stderr(0, last) * total / last
    return Ranking(hitters, threshold, false_positive_rate, _others_below(cuts, total, confidence), confidence)


def _hitter(item: int, supports: int, reports: int, scale: float, randomizer: AffineHashing) -> Hitter:
    estimate = randomizer.count(supports, reports)
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
    cut = randomizer.count(best[wanted][0], len(reports)) if len(best) > wanted else -math.inf
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
