"""Who is behind a release: how many devices were asked, how many contributions that should bring, and which devices the
estimates describe.

A device *answers* if it sends whenever its coin says so. One that is switched off, met the recipe too late, or whose
reports are lost is silent, and nothing in a batch shows which devices these are or what they hold. Estimates are
unbiased for the devices that answered; from ``m`` contributions, a uniform sample of them, their number is estimated as
``A = m / s`` with variance ``A (1-s)/s`` (s: the probability of sending, dummies and rejection included). Intervals of
an estimate hold for these devices only: silence need not be independent of the answer, so no scaling turns them into a
statement about the population.

Where the number of asked devices N is known, two more statements are possible.

*Warning.* Had everybody answered, m would be binomial with N and s. Counts outside ``[low, high]`` occur by chance with
probability ``FALSE_ALARM`` at most, summed exactly. With importance sampling the probability is between that of the
default answer and that of the others; where a cell shows how many devices have it, A is estimated with them and its
standard error bounds the chance (normal approximation), elsewhere the two binomials do.

*Interval for all N.* Each silent device adds between ``least`` and ``most`` to a total (0 and 1 in a histogram or a
count), which bounds the population's total without any assumption on who is silent (C. Manski, "Nonparametric Bounds on
Treatment Effects", 1990): from ``T + least (N - A)`` to ``T + most (N - A)``, T the total of those who answered. With
estimates in their place the ends have variance ``Var T - 2 e T k + e^2 A k``, ``k = (1-s)/s``, e the added value: a
device adds to T only if it sends, so its covariance with A is k times what it adds in expectation. With importance
sampling the two standard deviations are added, which never underestimates. 1.96 standard errors beyond either end give
an interval that misses with probability 0.05 at most (normal approximation), however many are silent, and needs no test
whether any are. Where devices without a value add to T and have no category of their own, T is too large by an unknown
amount, and there is no such interval (P34).

A share is an estimate divided by A, a ratio: to first order ``Var(T - p A) / A^2``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.dp.binomial import binomial_window
from tacit.errors import UsageError
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import STATISTICS, Statistic
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.figures import NORMAL_95
from tacit.recipe.cautions import cautions
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe

FALSE_ALARM = 1e-3
"""Largest probability with which a full response is reported as incomplete or excessive."""
NORMAL_FALSE_ALARM = 3.2905267
"""A normal number exceeds this many standard errors, in either direction, with probability ``FALSE_ALARM``."""
MOST_ASKED = 10**10
"""Largest number of asked devices that may be stated, more than there are people: the bounds are summed over a range
that grows with its square root."""
_LEFT_OUT = 1e-12
"""Mass of a binomial that its window may leave out, on each side."""


@dataclass(frozen=True, slots=True)
class Asked:
    """From ``least`` to ``most`` devices were asked, as stated by the ``recipe`` or the ``analyst``."""

    least: int
    most: int
    by: str

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise UsageError("the number of asked devices must be at least 1")
        if self.most > MOST_ASKED:
            raise UsageError(f"the number of asked devices must be at most {MOST_ASKED:,}")


@dataclass(frozen=True, slots=True)
class Number:
    """An estimate and its standard error."""

    value: float
    stderr: float


def asked_by(recipe: Recipe) -> Asked | None:
    """How many devices the recipe asks according to itself: the whole numbers whose expected contributions, rounded up,
    are the stated ones. None where that cannot be derived: for rounds of a series (a device of an earlier round is not
    asked again), importance sampling (the number depends on answers), batches that close at B (the stated number is
    then B, and never less comes), and more than ``MOST_ASKED`` devices."""
    expected = recipe.batch.expected_contributions
    unknown = recipe.series is not None or recipe.sampling.importance is not None or _closes_at_b(recipe)
    if unknown or expected <= recipe.batch.min_batch_size or not 0 < recipe.rate <= 1:
        return None
    rate = Fraction(recipe.rate)
    sends = rate + (1 - rate) * recipe.sampling.dummy_rate
    least, most = math.floor((expected - 1) / sends) + 1, math.floor(expected / sends)
    return Asked(least, most, "recipe") if least <= most <= MOST_ASKED else None


def with_response(document: Mapping[str, Any], recipe: Recipe, asked: Asked | None = None) -> dict[str, Any]:
    """Return a result document of ``recipe`` with the members ``response`` and ``warnings`` and, in its rows,
    ``share``, ``share_stderr``, ``population_low`` and ``population_high`` where they can be computed. ``asked``: by
    default what the recipe states.

    ``UsageError`` for batches that close at B, whose number of contributions says nothing about who answered.
    """
    if asked is not None and _closes_at_b(recipe):
        raise UsageError(
            "its batches close at B contributions, so the number of asked devices says nothing of one batch"
        )
    known = asked or asked_by(recipe)
    buckets = document.get("buckets", ())
    found = _Response.of(recipe, document)
    response = found.document(known)
    holds = known is not None and response.get("verdict") != "more" and not biased_by_missing(recipe)
    rows = zip(buckets, found.shares(), found.populations(known if holds else None), strict=True)
    shown = {"buckets": [_without(row) | share | whole for row, share, whole in rows]} if buckets else {}
    result = {**document, **shown, "response": response}
    return {**result, "warnings": cautions(result)}


def missing_adds(recipe: Recipe) -> tuple[float, ...] | None:
    """What each device without a value adds in expectation to each row (for a mean: the value with which it counts);
    None where it has a category, and all zero where it adds nothing."""
    question = recipe.question
    if isinstance(question.encoder, Occurrences) and not STATISTICS[question.statistic].is_one_hot:
        return (0.0,)  # a device without a value has watched nothing
    if isinstance(encoder_of(question).encode(None), int):
        return None
    return tuple(estimator_of(randomizer_of(recipe)).missing_adds(design_of(recipe)))


def biased_by_missing(recipe: Recipe) -> bool:
    """Whether results are biased by devices without a value, by an amount that cannot be derived from them."""
    if isinstance(recipe.question.encoder, Occurrences):
        return False
    adds = missing_adds(recipe)
    return adds is not None and (STATISTICS[recipe.question.statistic].is_ratio or any(abs(one) > 1e-9 for one in adds))


_ADDED = frozenset({"share", "share_stderr", "population_low", "population_high"})


def _without(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _ADDED}


def _closes_at_b(recipe: Recipe) -> bool:
    return recipe.batch.close == "at_B"


@dataclass(frozen=True, slots=True)
class _Response:
    """One batch: the estimates of its rows as totals (for a mean: of its sum), and what a device may add to a row. A
    ranked result has no rows of counts, so that only the number of contributions says who answered."""

    randomizer: Method
    design: SampleDesign
    statistic: Statistic
    counted: int
    totals: Estimate
    least: float
    most: float

    @classmethod
    def of(cls, recipe: Recipe, document: Mapping[str, Any]) -> _Response:
        randomizer, design = randomizer_of(recipe), design_of(recipe)
        estimator = estimator_of(randomizer).of_totals()
        rows, counted = document.get("buckets", ()), document["report_count"]
        if not rows or "unlisted" in document:  # not all cells are listed, but those that are have totals already
            totals = Estimate(tuple(row["estimate"] for row in rows), tuple(row["stderr"] for row in rows))
        else:
            totals = estimator.estimate([row["count"] for row in rows], counted, design)
        statistic = STATISTICS[recipe.question.statistic]
        return cls(randomizer, design, statistic, counted, totals, *estimator.adds_between)

    @property
    def sends(self) -> tuple[float, float]:
        """The probabilities of sending anything: for devices with the default answer, and for all others."""
        default, rest = (
            self.design.sends(rate * (1 - self.randomizer.reject_probability))
            for rate in (self.design.rate_of(self.design.default), self.design.rate)
        )
        return default, rest

    @property
    def answered(self) -> Number | None:
        """How many devices answered; None where the number of the default's devices is not known."""
        default, rest = self.sends
        if self.design.is_uniform:
            return Number(self.counted / rest, math.sqrt(self.counted * (1 - rest)) / rest)
        if not self.statistic.counts_devices or not self.totals.values:
            return None
        if not self.statistic.is_one_hot:  # the only row counts those who say yes: the others are in no row
            own, held, other = (rest, default, 0) if self.design.default == 0 else (default, rest, 0)
        else:
            own, held, other = default, rest, self.design.default or 0
        row, error = self.totals.values[other], self.totals.stderrs[other]
        value = (self.counted - (own - held) * row) / held
        spread = self.counted * (1 - min(own, held))
        return Number(max(0.0, value), (math.sqrt(spread) + abs(own - held) * error) / held)

    def shares(self) -> list[dict[str, float]]:
        """For each row, its share of the devices that answered."""
        answered = self.answered
        if not self.statistic.counts_devices or answered is None or answered.value <= 0:
            return [{} for _ in self.totals.values]
        found = []
        for value, error in zip(self.totals.values, self.totals.stderrs, strict=True):
            share = value / answered.value
            wide = self._combine_errors(Number(value, error), answered, -min(max(share, 0.0), 1.0))
            found.append({"share": share, "share_stderr": wide / answered.value})
        return found

    def populations(self, asked: Asked | None) -> list[dict[str, float]]:
        """For each row, the 95 % interval for everybody who was asked, whatever the silent devices hold."""
        answered = self.answered
        if asked is None or answered is None:
            return [{} for _ in self.totals.values]
        return [
            self._population(Number(value, error), answered, asked)
            for value, error in zip(self.totals.values, self.totals.stderrs, strict=True)
        ]

    def _population(self, total: Number, answered: Number, asked: Asked) -> dict[str, float]:
        sizes = (asked.least, asked.most)
        ends = [
            pick(total.value + edge * (size - answered.value) for size in sizes)
            + side * NORMAL_95 * self._combine_errors(total, answered, -edge)
            for edge, side, pick in ((self.least, -1, min), (self.most, 1, max))
        ]
        floor, ceiling = min(self.least * size for size in sizes), max(self.most * size for size in sizes)
        low, high = (min(max(end, floor), ceiling) for end in ends)
        if self.statistic.is_ratio:
            low, high = min(low / size for size in sizes), max(high / size for size in sizes)
        return {"population_low": low, "population_high": max(low, high)}

    def _combine_errors(self, total: Number, answered: Number, factor: float) -> float:
        """The standard error of ``total + factor answered``."""
        if not self.design.is_uniform:
            return total.stderr + abs(factor) * answered.stderr
        spread = (1 - self.sends[1]) / self.sends[1]
        low, high = sorted((self.least * answered.value, self.most * answered.value))
        inside = min(max(total.value, low), high)
        return math.sqrt(max(0.0, total.stderr**2 + factor * spread * (2 * inside + factor * answered.value)))

    def document(self, asked: Asked | None) -> dict[str, Any]:
        """The result's member ``response``: how many answered, and how many were expected."""
        answered = self.answered
        found: dict[str, Any] = {"estimates_are_of": "devices that answered", "counted": self.counted}
        if answered is not None:
            found["answered"] = {"estimate": answered.value, "stderr": answered.stderr}
        if asked is None:
            return {**found, "verdict": "unknown"}
        low, high = self._full(asked)
        verdict = "fewer" if self.counted < low else "more" if self.counted > high else "expected"
        found["asked"] = {"least": asked.least, "most": asked.most, "by": asked.by}
        found["expected"] = {**self._expected_members(asked), "low": low, "high": high, "false_alarm": FALSE_ALARM}
        return {**found, "verdict": verdict}

    def _expected_members(self, asked: Asked) -> dict[str, float]:
        """The expected number of contributions if everybody who was asked answered, and the actual number as a share of
        it; empty where that depends on unknown answers."""
        answered = self.answered
        if answered is None or answered.value <= 0:
            return {}
        each = self.sends[1] if self.design.is_uniform else self.counted / answered.value
        expected = each * (asked.least + asked.most) / 2
        return {"contributions": expected, "share": self.counted / expected}

    def _full(self, asked: Asked) -> tuple[int, int]:
        """The least and the most contributions that a full response brings, except with the probability of a false
        alarm."""
        default, rest = self.sends
        answered = self.answered
        if self.design.is_uniform or answered is None or answered.value <= 0:
            few, many = sorted((default, rest))
            return _lower(asked.least, few, FALSE_ALARM / 2), _upper(asked.most, many, FALSE_ALARM / 2)
        each, error = self.counted / answered.value, NORMAL_FALSE_ALARM * answered.stderr
        return max(0, math.ceil(each * (asked.least - error))), math.floor(each * (asked.most + error))


def _lower(n: int, p: float, tail: float) -> int:
    """The largest k with Pr[Bin(n, p) < k] <= ``tail``."""
    if p >= 1:
        return n
    low, probabilities = binomial_window(n, p, _LEFT_OUT)
    below = _LEFT_OUT
    for place, one in enumerate(probabilities):
        below += one
        if below > tail:
            return low + place
    return n


def _upper(n: int, p: float, tail: float) -> int:
    """The smallest k with Pr[Bin(n, p) > k] <= ``tail``."""
    return n if p >= 1 else n - _lower(n, 1 - p, tail)


def stated_asked(devices: int) -> Asked:
    """The number of asked devices as stated by the analyst. Raises ``UsageError``."""
    return Asked(devices, devices, "analyst")
