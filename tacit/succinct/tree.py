"""Heavy hitters of a large domain: devices are split over the levels of a prefix tree, and each reports one prefix.

Theory. Items are strings of ``bits`` bits. Level i belongs to the prefixes of ``levels[i]`` bits
(``tacit.methods.base.affine``); every device reports its item's prefix of one level, chosen by public randomness, with
its whole epsilon. The server counts the supports of every prefix of the first level, keeps the best ones, counts the
supports of all their extensions at the next level, and so on (PEM of T. Wang, N. Li, S. Jha, "Locally Differentially
Private Heavy Hitter Identification", 2019, with affine hashing as its oracle). With S levels, splitting devices costs
the error a factor of the square root of (2S + 1) / 3; splitting epsilon would cost S.

Because a transform counts 2^16 extensions as cheaply as a few, steps are wide: 16 bits each where the domain allows.

Estimates are the last level's, scaled to all reports. They are unbiased for a fixed item and not clipped; those that
were chosen because they are large are too large on average.
"""

from __future__ import annotations

import itertools
import math
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, Self

from tacit.dp.binomial import rarely_reached
from tacit.methods.base.affine import PUBLIC_SIZE, SEED_SIZE, AffineHashing, level_of, share_of_last
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.affine import AffineEstimator
from tacit.succinct.supports import Reports, count_supports

MAX_TOP = 1000
"""Most items of a ranking."""
KEEP = 64
"""How many prefixes are extended at each level."""
FALSE_POSITIVE_RATE = 0.05
"""Largest probability with which a ranking has any answer that no device has."""
CONFIDENCE = 0.95
"""Probability with which the bound on all other answers holds."""
RECORD_SIZE = PUBLIC_SIZE + 1
_ROUNDS = 60


class Collected:
    """The reports of one recipe, kept by level until the search: nine bytes each."""

    def __init__(self, randomizer: AffineHashing) -> None:
        self.randomizer = randomizer
        self.levels = [Reports(randomizer.hash_bits) for _ in randomizer.levels]

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    def add(self, records: bytes) -> None:
        """Keep reports, each its 16 public bytes and its value, one after another. ``ValueError`` for a value that no
        report can have."""
        seeds, values = _words(records, 0), records[PUBLIC_SIZE::RECORD_SIZE]
        count = len(self.levels)
        levels = [level_of(word, count) for word in _words(records, SEED_SIZE)]
        for at, reports in enumerate(self.levels):
            mine = [level == at for level in levels]
            reports.add(array("Q", itertools.compress(seeds, mine)), bytes(itertools.compress(values, mine)))


class Prefixes(Protocol):
    """A domain, as far as a search has to know it: which prefixes its items have."""

    def holds(self, prefix: int, bits: int) -> bool:
        """Whether an item of the domain begins with these bits."""
        ...

    def ends(self, prefix: int, bits: int) -> bool:
        """Whether only one item can begin with them, whose further bits are 0: its text has ended."""
        ...


class EveryPrefix:
    """The domain of all items."""

    def holds(self, _prefix: int, _bits: int) -> bool:
        """True: some item begins with any bits."""
        return True

    def ends(self, _prefix: int, _bits: int) -> bool:
        """False: an item may go on after any bits."""
        return False


EVERY: Final = EveryPrefix()


class Level(NamedTuple):
    """One level of a search: its reports, how many candidates were compared at the most, and the largest number of
    supports of a candidate that was not kept (0 if all were)."""

    reports: int
    candidates: int
    cut: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a search finds: ``items`` with their ``supports`` at the last level, most supports first, and the levels.
    ``outside``: how many reports of all levels support the item of texts outside the domain, whose bits are 0 (None: it
    was not counted)."""

    items: tuple[int, ...]
    supports: tuple[int, ...]
    levels: tuple[Level, ...]
    outside: int | None = None

    def document(self) -> dict[str, Any]:
        """What the analyzer releases, as JSON: items, supports, levels, and ``outside`` where it was counted."""
        outside = {} if self.outside is None else {"outside": self.outside}
        return {"items": self.items, "supports": self.supports, "levels": self.levels, **outside}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Strict inverse of ``document``. ``ValueError`` for anything else."""
        needed = {"items", "supports", "levels"}
        if not isinstance(document, dict) or not needed <= set(document) <= {*needed, "outside"}:
            raise ValueError("a search must have the members items, supports and levels")
        outside = document.get("outside")
        items, supports, levels = (_rows(document[name]) for name in ("items", "supports", "levels"))
        if len(items) > MAX_TOP or not all(map(_is_whole, (*items, *supports))):
            raise ValueError(f"a search must have at most {MAX_TOP} items, and whole numbers")
        if any(len(level) != len(Level._fields) or not all(map(_is_whole, level)) for level in map(_rows, levels)):
            raise ValueError("a level must have three whole numbers")
        if outside is not None and not _is_whole(outside):
            raise ValueError("outside must be a whole number")
        return cls(tuple(items), tuple(supports), tuple(Level(*level) for level in levels), outside)

    def first(self, count: int) -> Found:
        """The first ``count`` items; the next one is then the last level's cut."""
        if count >= len(self.items):
            return self
        last = self.levels[-1]._replace(cut=self.supports[count])
        return Found(self.items[:count], self.supports[:count], (*self.levels[:-1], last), self.outside)

    def __post_init__(self) -> None:
        if not self.levels or any(level.reports < 1 for level in self.levels):
            raise ValueError("every level must have reports")
        if len(self.items) != len(self.supports) or len(set(self.items)) != len(self.items):
            raise ValueError("items must be distinct, and have one number of supports each")
        if any(not 0 <= level.cut <= level.reports or not level.candidates > 0 for level in self.levels):
            raise ValueError("a level's cut must lie between 0 and its reports")
        if self.outside is not None and self.outside > sum(level.reports for level in self.levels):
            raise ValueError("no more reports can support an item than there are")
        falling = (self.levels[-1].reports, *self.supports, 0)
        if any(more < less for more, less in itertools.pairwise(falling)):
            raise ValueError("supports must fall, from the last level's reports at most")


def search(collected: Collected, top: int, keep: int = KEEP, domain: Prefixes = EVERY) -> Found:
    """The ``top`` best items of a domain, of which ``keep`` prefixes are extended at each level: those that no item of
    the domain has take no place, and one that has ended has one extension. ``ValueError`` for numbers outside 1 to
    1000, or a level without reports."""
    if not 1 <= top <= MAX_TOP or not 1 <= keep <= MAX_TOP:
        raise ValueError(f"top and keep must be from 1 to {MAX_TOP}")
    if not all(map(len, collected.levels)):
        raise ValueError("there is a level without reports")
    randomizer, prefixes, before = collected.randomizer, [0], 0
    best: list[tuple[int, int]] = []
    levels, outside = [], 0
    for bits, reports in zip(randomizer.levels, collected.levels, strict=True):
        ((zero,),) = count_supports(reports, [0], bits, 0)
        outside += zero
        wanted, step = top if bits == randomizer.bits else keep, bits - before
        going = [one for one in prefixes if not domain.ends(one, before)]
        ended = [one << step for one in prefixes if domain.ends(one, before)]
        counts = count_supports(reports, going, before, step) if going else []
        found = _best(counts, wanted + 1, lambda at, last: domain.holds(going[at] << step | last, bits))  # noqa: B023
        best = [(count, going[at] << step | last) for count, at, last in found]
        best += [(row[0], one) for one, row in zip(ended, count_supports(reports, ended, bits, 0), strict=True)]
        best.sort(key=lambda one: (-one[0], one[1]))
        cut = best[wanted][0] if len(best) > wanted else 0
        best = best[:wanted]
        levels.append(Level(len(reports), (len(going) << step) + len(ended), cut))
        prefixes, before = [prefix for _, prefix in best], bits
    return Found(tuple(prefixes), tuple(count for count, _ in best), tuple(levels), outside)


def expected_threshold(randomizer: AffineHashing, reports: float, design: SampleDesign) -> tuple[float, float]:
    """The threshold at ``FALSE_POSITIVE_RATE``, and the standard error of a rare item, as expected from this many
    reports and the usual number of candidates."""
    *_, before, last = (0, 0, *randomizer.levels)
    level = Level(
        max(1, round(reports * share_of_last(len(randomizer.levels)))), (KEEP if before else 1) << (last - before), 0
    )
    found = Found((), (), (level,) * len(randomizer.levels))
    return threshold(found, randomizer, design, FALSE_POSITIVE_RATE), _empty_error(level, randomizer, design)


def threshold(found: Found, randomizer: AffineHashing, design: SampleDesign, false_positive_rate: float) -> float:
    """An estimate that items which no device has reach with this probability at most, over all candidates of the last
    level together. Exact: such an item is supported by each report with probability 1/g, and by each independently."""
    last = found.levels[-1]
    least = rarely_reached(last.reports, 1 / randomizer.values, false_positive_rate / last.candidates)
    none, every = AffineEstimator(randomizer).estimate([0, last.reports], last.reports, design).values
    return none + least * (every - none) / last.reports


def others_below(found: Found, randomizer: AffineHashing, design: SampleDesign, confidence: float) -> float:
    """A number of devices: with probability ``confidence``, no item with more is missing in ``found``.

    Such an item falls below the cut of some level. An item of a share x of all devices is supported by a report with
    probability ``1/g + x (p - 1/g)``, and Hoeffding's inequality in the form of Chernoff bounds the chance that no more
    than the cut of N reports support it; there are at most 1/x such items."""

    gain = AffineEstimator(randomizer).gain

    def missed(share: float) -> float:
        chances = (at_most(level.cut, level.reports, 1 / randomizer.values + share * gain) for level in found.levels)
        return sum(chances) / share

    return least_share(missed, confidence) * sum(level.reports for level in found.levels) / design.rate


def least_share(missed: Callable[[float], float], confidence: float) -> float:
    """The least share, from 0 to 1, of which ``missed`` is at most 1 - ``confidence``. It bounds the probability that
    an item of that share is not found, and falls."""
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if missed(middle) <= 1 - confidence else (middle, high)
    return high


def at_most(cut: int, trials: int, mean: float) -> float:
    """A bound on the probability that at most ``cut`` of ``trials`` independent events happen, of which each happens
    with probability ``mean`` on average (W. Hoeffding, "Probability Inequalities for Sums of Bounded Random
    Variables", 1963, theorem 1)."""
    share = cut / trials
    if share >= mean:
        return 1.0
    near = share * math.log(share / mean) if share else 0.0
    far = (1 - share) * math.log((1 - share) / (1 - mean)) if mean < 1 else math.inf
    return math.exp(-trials * (near + far))


def _empty_error(level: Level, randomizer: AffineHashing, design: SampleDesign) -> float:
    """The standard error of the estimate of an item that no device has."""
    return AffineEstimator(randomizer).estimate([level.reports // randomizer.values], level.reports, design).stderrs[0]


def _words(records: bytes, start: int) -> array[int]:
    """The eight bytes from ``start`` on of every record, as integers."""
    big_endian = bytearray(8 * (len(records) // RECORD_SIZE))
    for at in range(8):
        big_endian[at::8] = records[start + at :: RECORD_SIZE]
    found = array("Q", bytes(big_endian))
    if sys.byteorder == "little":
        found.byteswap()
    return found


def _best(supports: Sequence[array[int]], wanted: int, holds: Callable[[int, int], bool]) -> list[tuple[int, int, int]]:
    """The ``wanted`` largest (supports, index of the prefix, last bits) that are candidates, or all if they are fewer,
    largest first; ties by the candidate."""
    asked = wanted
    while True:
        found = _largest(supports, asked)
        held = [one for one in found if holds(*one[1:])]
        if len(held) >= wanted or len(found) < asked:
            return held[:wanted]
        asked *= 4


def _largest(supports: Sequence[array[int]], wanted: int) -> list[tuple[int, int, int]]:
    """The ``wanted`` largest of all. Only blocks are looked through whose largest number is one of the ``wanted``
    largest of all blocks."""
    size = max(1, sum(map(len, supports)) // (16 * wanted))
    peaks = [
        (max(row[start : start + size]), at, start)
        for at, row in enumerate(supports)
        for start in range(0, len(row), size)
    ]
    least = sorted(peaks)[-wanted][0] if len(peaks) >= wanted else 0
    chosen = sorted(
        (-count, at, last)
        for peak, at, start in peaks
        if peak >= least
        for last, count in enumerate(supports[at][start : start + size], start)
        if count >= least
    )
    return [(-count, at, last) for count, at, last in chosen[:wanted]]


def _rows(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("a search must have lists")  # noqa: TRY004
    return list(value)


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0
