"""Heavy hitters in rounds: which prefixes a released round keeps, what the next one asks, and the ranking at the end.

Every device of a series with donation answers in one round at most, so the rounds split the devices over the levels of
a prefix tree, as ``tacit.succinct.tree`` does by public randomness. A round is a histogram of its candidates; nothing
but the log and the releases says where a search is, so it can be taken up by anybody who reads both.

*Threshold.* A candidate that no device has is counted by each of n reports with the same probability, independently:
its count is binomial. It reaches the round's threshold with probability alpha / C at most, over C candidates with alpha
(exact). *The rest.* An item of a share x of all devices that is not in the ranking fell, in some round, below the
largest count of a candidate that was not carried on. Reports of a round are a uniform sample of the devices, so the
inequality of Hoeffding bounds that chance, and there are at most 1/x such items (``others_below``). Both hold whatever
candidates earlier results led to, because no device is in two rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.dp.binomial import rarely_reached
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.result import MOST_ITEMS, Item, Ranked
from tacit.models.forms import form_of
from tacit.operations.series_rounds import Asked, index_of, published_rounds, series_called
from tacit.recipe.asking import asked_until
from tacit.recipe.candidates import Candidates, candidates_of, extensions, label_of, most_candidates
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import StringEncoder
from tacit.recipe.encoder_specs import Prefixes
from tacit.recipe.model import Recipe
from tacit.recipe.series import Ended, Series
from tacit.succinct.tree import CONFIDENCE, FALSE_POSITIVE_RATE, at_most, least_share
from tacit.time_format import format_utc


@dataclass(frozen=True, slots=True)
class Level:
    """A released round: its candidates with their randomised ``counts`` among ``reports``. A report counts a candidate
    that its device does not have with probability ``empty``, and one that it has with ``gain`` more. ``least``: the
    count that all candidates without devices reach with the rate of false positives at most, together. ``outside``: the
    count of texts that the domain does not hold (None: they are not told from devices without a text)."""

    candidates: Candidates
    counts: tuple[int, ...]
    reports: int
    empty: float
    gain: float
    least: int
    outside: int | None = None

    @property
    def passing(self) -> list[int]:
        """The places of candidates that reach the threshold, those with the largest counts first."""
        found = [place for place, count in enumerate(self.counts) if count >= self.least]
        return sorted(found, key=lambda place: (-self.counts[place], place))

    def cut(self, kept: set[int]) -> int:
        """The largest count of a candidate that is not ``kept``; 0 if all are."""
        pairs = zip(self.candidates.prefixes, self.counts, strict=True)
        return max((count for prefix, count in pairs if prefix not in kept), default=0)

    def share(self, count: float) -> float:
        """The share of devices from which ``count`` is expected; it is not clipped, so noise may take it below 0 or
        above 1."""
        return (count / self.reports - self.empty) / self.gain

    def expected(self, share: float) -> float:
        """The count that is expected of a candidate which this share of the devices have: the inverse of ``share``."""
        return self.reports * (self.empty + share * self.gain)

    def stderr(self, count: float) -> float:
        """The standard error of ``share``, sampling included."""
        ones = count / self.reports
        return float((ones * (1 - ones) / self.reports) ** 0.5 / self.gain)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is. ``levels``: the released rounds in their order; ``kept``: the labels that each of them keeps,
    best first; ``following``: the candidates of the next round to publish; ``ranked``: the result, when there is none.
    While the last published round is not released, both are None."""

    levels: tuple[Level, ...]
    kept: tuple[tuple[str, ...], ...]
    published: int
    following: Candidates | None = None
    ranked: Ranked | None = None


def search_encoder(series: Series) -> Prefixes:
    """The encoder of a series that searches for prefixes. Raises ``UsageError`` for any other series."""
    spec = series.probe.question.encoder
    if not isinstance(spec, Prefixes):
        raise UsageError(f"series {series.name} asks for no prefixes; tacit series round makes its rounds")
    form = form_of(series.probe.model)
    if series.donation is None or series.rounds != len(spec.levels) or series.donation.slots < series.rounds:
        raise UsageError(
            f"series {series.name} must have donation slots for its {len(spec.levels)} rounds, one for each level: "
            "no device may be in two of them"
        )
    if not form.proves or not randomizer_of(series.probe).IS_LOCAL:
        raise UsageError(f"series {series.name}: only reports that hide their answers by themselves can be judged")
    if spec.missing is None:  # a dummy counts a candidate more often than another device's answer does
        raise UsageError(
            f"series {series.name}: devices without a text need a category, which --missing ignore leaves out"
        )
    return spec


def rounds_of(log: LiveLog, name: str) -> tuple[Series, list[Recipe]]:
    """The newest series of ``log`` that is called ``name`` or whose hash begins with it, and its rounds from 0 on, up
    to the first that is not published. Raises ``UsageError`` if there is none."""
    found = series_called(log, name)
    if found is None:
        raise UsageError(f"the log shows no series called {name}; publish it first: tacit series publish")
    rounds = enumerate(one.recipe for one in published_rounds(log, found.series))
    unbroken = itertools.takewhile(lambda place: place[0] == index_of(place[1]), rounds)
    return found.series, [recipe for _, recipe in unbroken]


def progress(series: Series, rounds: Sequence[Asked], false_positives: float = FALSE_POSITIVE_RATE) -> Progress:
    """Where the search of ``series`` is after its published ``rounds``, those from 0 on. Raises ``UsageError`` for a
    series that searches for nothing, and for releases that are not those of their rounds."""
    spec = search_encoder(series)
    levels = tuple(_level(recipe, found, false_positives) for recipe, found in rounds if found)
    kept = tuple(_kept_labels(spec, level) for level in levels)
    if len(levels) < len(rounds):
        return Progress(levels, kept, len(rounds))
    following = _following(spec, levels) if len(levels) < series.rounds else None
    ranked = None if following is not None else _ranking(series, spec, levels, false_positives)
    return Progress(levels, kept, len(rounds), following, ranked)


def next_round(series: Series, found: Progress, now: float, ended: Ended | None = None) -> Recipe | None:
    """The recipe of the round that follows on the released ones; None where the search is over, or the round that was
    published last is not released. Raises ``UsageError`` if devices cannot decide about it at ``now`` (POSIX seconds)
    any more, and where the log shows that the series was ``ended``."""
    if found.following is None:
        return None
    if ended is not None:
        raise UsageError(f"entry {ended.index} of the log has ended {series.name}: no round follows")
    index = found.published
    recipe = series.round(index, series.window(index), found.following.text())
    until = asked_until(recipe.interval)
    if now >= until:
        raise UsageError(
            f"round {index} of {series.name} was to be published before {format_utc(until)}, until when devices "
            "decide; "
            "begin a new series, with a longer window or pause"
        )
    return recipe


def _level(recipe: Recipe, found: Sequence[Mapping[str, Any]], false_positives: float) -> Level:
    """A round as its releases show it; their batches hold different reports."""
    candidates = candidates_of(recipe.question)
    method, cells = randomizer_of(recipe), randomizer_of(recipe).cells
    rows = [[row["count"] for row in one.get("buckets", ())] for one in found]
    if candidates is None or any(one["recipe_hash"] != recipe.hash_text for one in found):
        raise UsageError(f"a release is not of {recipe.name}, or that round has no candidates")
    if any(len(row) != cells for row in rows):
        raise UsageError(f"the releases of {recipe.name} do not have the {cells} counts of its encoder")
    reports = sum(one["report_count"] for one in found)
    spec, every = recipe.question.encoder, tuple(map(sum, zip(*rows, strict=True)))
    level = level_of(candidates, every[: len(candidates.prefixes)], reports, method, design_of(recipe), false_positives)
    if not isinstance(spec, Prefixes) or spec.outside is None:
        return level
    return replace(level, outside=every[spec.candidates + 1])


def level_of(
    candidates: Candidates,
    counts: tuple[int, ...],
    reports: int,
    method: Method,
    design: SampleDesign,
    false_positives: float = FALSE_POSITIVE_RATE,
) -> Level:
    """The level of a round with these counts of ``candidates`` among so many ``reports``, randomised by ``method`` and
    sampled by ``design``. ``false_positives``: the rate at which ``least`` is set."""
    one, none, *_ = estimator_of(method).estimate([reports, *[0] * (method.cells - 1)], reports, design).values
    empty = none / (none - one)
    gain = reports / (one - none) / design.rate / (1 - method.reject_probability)
    least = rarely_reached(reports, empty, false_positives / len(candidates.prefixes))
    return Level(candidates, counts, reports, empty, gain, least)


def _kept_labels(spec: Prefixes, level: Level) -> tuple[str, ...]:
    found = level.candidates
    return tuple(label_of(spec, found.prefixes[place], found.bits) for place in level.passing)


def _following(spec: Prefixes, levels: Sequence[Level]) -> Candidates | None:
    """The next round's candidates: all extensions of the best prefixes that pass, as many as it may ask of; None where
    no prefix passes, and the search is over."""
    if not levels:
        bits = spec.levels[0]
        every = extensions(spec, 0, 0, bits, most_candidates(spec, bits))
        if every is None:
            raise UsageError(f"the {bits} bits of round 0 have more prefixes than a round may ask of")
        return Candidates(bits, tuple(every))
    last, bits = levels[-1], spec.levels[len(levels)]
    room, chosen = most_candidates(spec, bits), list[int]()
    for place in last.passing:
        more = extensions(spec, last.candidates.prefixes[place], last.candidates.bits, bits, room - len(chosen))
        if more is None:
            break
        chosen += more
    return Candidates(bits, tuple(sorted(chosen))) if chosen else None


def _ranking(series: Series, spec: Prefixes, levels: Sequence[Level], false_positives: float) -> Ranked:
    last, strings = levels[-1], StringEncoder(spec)
    rate, method = float(series.probe.rate), randomizer_of(series.probe)
    asked = (1 - (1 - rate) ** len(levels)) * (1 - method.reject_probability)
    devices = sum(level.reports for level in levels) / asked
    whole = last.candidates.bits == spec.bits
    places = last.passing[:MOST_ITEMS] if whole else []
    found = [(strings.text(last.candidates.prefixes[place]), last.counts[place]) for place in places]
    items = tuple(
        Item(text, devices * last.share(count), devices * last.stderr(count)) for text, count in found if text
    )
    listed = {last.candidates.prefixes[place] for place in places if strings.text(last.candidates.prefixes[place])}
    below = devices * others_below(spec, levels, listed, CONFIDENCE)
    outside = _outside(levels, devices)
    return Ranked(items, below, CONFIDENCE, devices * last.share(last.least), false_positives, outside)


def _outside(levels: Sequence[Level], devices: float) -> tuple[float, float] | None:
    """How many of so many devices have a text outside the domain, and the standard error, from all rounds: each asks
    devices of its own, drawn from all alike. None where they are not counted."""
    counts = [level.outside for level in levels if level.outside is not None]
    if len(counts) < len(levels):
        return None
    total = replace(levels[-1], reports=sum(level.reports for level in levels))
    return devices * total.share(sum(counts)), devices * total.stderr(sum(counts))


def others_below(spec: Prefixes, levels: Sequence[Level], listed: set[int], confidence: float) -> float:
    """A share of the devices: with probability ``confidence``, no text of the domain outside ``listed``, the items of
    the last of ``levels``, has more. What a round carried on is read from the candidates of the one after it; texts for
    which the first round had no candidate are not bounded (1.0)."""
    every = extensions(spec, 0, 0, spec.levels[0], spec.candidates)
    if every is None or set(every) - set(levels[0].candidates.prefixes):
        return 1.0
    carried = [_carried_prefixes(spec, one, after) for one, after in itertools.pairwise(levels)]
    cuts = [level.cut(kept) for level, kept in zip(levels, [*carried, listed], strict=True)]

    def missed(share: float) -> float:
        chances = (
            at_most(cut, level.reports, min(1.0, level.empty + share * level.gain))
            for level, cut in zip(levels, cuts, strict=True)
        )
        return sum(chances) / share

    return least_share(missed, confidence)


def _carried_prefixes(spec: Prefixes, level: Level, after: Level) -> set[int]:
    """The prefixes of a round all of whose extensions the next one asks of."""
    asked, found, longer = set(after.candidates.prefixes), level.candidates, after.candidates.bits
    more = ((one, extensions(spec, one, found.bits, longer, len(asked))) for one in found.prefixes)
    return {one for one, extended in more if extended is not None and asked.issuperset(extended)}
