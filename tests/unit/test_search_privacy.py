"""A search in a tiny population, enumerated exactly: from each device's text to its message or silence in two rounds.

Three devices hold any text of a tiny domain, none, or one outside of it. Their coins, their randomised answers, and the
candidates of round 1, which the driver takes from the release of round 0, are followed through every outcome. The law
of what an adversary sees is then compared between two values of one device.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from infra.lab.kit.recipes import RecipeKit, changed
from tacit.dp.donation import slot_share
from tacit.methods.krr import Krr
from tacit.operations.prefix_rounds import progress
from tacit.recipe.candidates import asked_prefixes
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import PrefixSearch
from tacit.recipe.model import Question, Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series

DEVICES, ROUNDS, RATE = 3, 2, 0.5
VALUES = ("aa", "ab", "bb", "b", None, "zz")
"""Texts of the domain, no text, and one outside the domain."""
OTHERS = [("aa", "aa"), ("aa", "bb"), ("bb", None)]
KEEPS = 0.9
"""Rate of false positives with which two reports of one prefix suffice for it to be kept."""
Place = int | None
Histogram = tuple[int, ...]


def tiny_series() -> Series:
    """Two rounds, of a first letter and of whole texts; round 1 has room for the extensions of one prefix."""
    encoder = asked_prefixes(
        PrefixSearch(kind="prefixes", length=2, alphabet="ab", levels=(2, 4), candidates=3), "no value"
    )
    question = Question(text="Which?", metric="word", encoder=encoder, statistic="histogram")
    kit = RecipeKit()
    recipe = kit.recipe(name="tiny", question=question, population=2_000, rate=Decimal(1), randomizer=Krr.NAME)
    series = propose_series(recipe, Shape(ROUNDS, ROUNDS, recipe.interval.start, 600, per_epoch=4))
    assert float(series.probe.rate) == RATE
    return series


SERIES = tiny_series()
METHOD = randomizer_of(SERIES.probe)
OWN, OTHER = map(float, METHOD.output_probabilities())  # type: ignore[attr-defined]


@functools.cache
def round_0() -> Recipe:
    following = progress(SERIES, []).following
    assert following is not None
    return SERIES.round(0, SERIES.window(0), following.text())


@functools.cache
def round_1(released: Histogram) -> Recipe | None:
    """The round that the driver makes after this release; None where nothing passes, or nothing was released."""
    if not sum(released):
        return None
    document = {
        "recipe_hash": round_0().hash_text,
        "report_count": sum(released),
        "buckets": [{"count": count} for count in released],
    }
    following = progress(SERIES, [(round_0(), [document])], KEEPS).following
    return None if following is None else SERIES.round(1, SERIES.window(1), following.text())


def messages(recipe: Recipe, values: Sequence[str | None]) -> dict[tuple[int, ...], float]:
    """The law of the messages of devices with these values, in their order."""
    candidates = recipe.question.round_input
    assert candidates is not None
    return _messages(candidates, tuple(values))


@functools.cache
def _messages(candidates: str, values: tuple[str | None, ...]) -> dict[tuple[int, ...], float]:
    encoder = encoder_of(SERIES.probe.question.model_copy(update={"round_input": candidates}))
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for value in values:
        own = encoder.encode(value)
        assert isinstance(own, int), "the encoder is total"
        chances = [OWN if cell == own else OTHER for cell in range(METHOD.cells)]
        law = {(*sent, cell): p * chance for sent, p in law.items() for cell, chance in enumerate(chances)}
    return law


def counted(sent: Sequence[int]) -> Histogram:
    return tuple(sent.count(cell) for cell in range(METHOD.cells))


Seen = Callable[[tuple[Place, ...], tuple[int, ...], tuple[int, ...]], object]


def everything(chosen: tuple[Place, ...], first: tuple[int, ...], second: tuple[int, ...]) -> object:
    """Both aggregators with the relay: who sent what in which round."""
    return chosen, first, second


def with_relay(chosen: tuple[Place, ...], first: tuple[int, ...], second: tuple[int, ...]) -> object:
    """One aggregator with the relay: who sent in which round, and the sums."""
    return chosen, counted(first), counted(second)


def sums(chosen: tuple[Place, ...], first: tuple[int, ...], second: tuple[int, ...]) -> object:
    """One aggregator, or the analyst: the sums."""
    return (len(first), len(second)), counted(first), counted(second)


def who(chosen: tuple[Place, ...], first: tuple[int, ...], second: tuple[int, ...]) -> object:
    """An observer who sees messages and no contents."""
    return chosen


@functools.cache
def law_of(seen: Seen, values: tuple[str | None, ...]) -> dict[Any, float]:
    """The law of what is seen of devices with these values."""
    chances: dict[Place, float] = {at: slot_share(RATE, at) for at in range(ROUNDS)}
    chances[None] = 1 - sum(chances.values())
    law: dict[Any, float] = defaultdict(float)
    for chosen in itertools.product(chances, repeat=DEVICES):
        drawn = math.prod(chances[at] for at in chosen)
        held = [[value for value, at in zip(values, chosen, strict=True) if at == one] for one in range(ROUNDS)]
        for first, p in messages(round_0(), held[0]).items():
            recipe = round_1(counted(first))
            later = {(): 1.0} if recipe is None else messages(recipe, held[1])
            for second, q in later.items():
                law[seen(chosen, first, second)] += drawn * p * q
    return law


def worst_ratio(seen: Seen) -> float:
    """The largest ratio of two laws at one view, over two values of one device and what the others hold."""
    worst = 1.0
    for others in OTHERS:
        laws = [law_of(seen, (value, *others)) for value in VALUES]
        for one, two in itertools.permutations(laws, 2):
            assert one.keys() == two.keys()
            worst = max(worst, *(one[view] / two[view] for view in one))
    return worst


def test_the_driver_follows_what_was_released() -> None:
    """Otherwise the enumeration below would not be of rounds that depend on each other."""
    released = (counts for counts in itertools.product(range(3), repeat=METHOD.cells) if sum(counts) <= DEVICES)
    found = {None if recipe is None else recipe.question.round_input for recipe in map(round_1, released)}
    assert len(found) == 3, "one prefix is kept, the other, or none"


def test_who_sends_and_when_does_not_depend_on_the_text_or_on_having_one() -> None:
    law = law_of(who, ("aa", "aa", "bb"))
    for value in VALUES:
        assert law_of(who, (value, "aa", "bb")) == pytest.approx(law)


def test_whoever_sees_every_message_of_both_rounds_learns_one_report_at_most() -> None:
    """epsilon0 of one report, as the series states it for both aggregators with the relay; it is reached."""
    worst = math.log(worst_ratio(everything))
    stated = float(SERIES.claim.epsilon["both_aggregators_with_relay"])
    assert worst <= stated + 1e-9
    assert worst == pytest.approx(float(METHOD.local_epsilon), abs=1e-6)


def of_batch(size: int) -> float:
    """e^epsilon of the sum of one batch, over all values of one device and of the others, in either round."""
    recipes = [
        round_0(),
        *(one for one in (round_1((2, 0, 0, 0, 0, 0)), round_1((0, 2, 0, 0, 0, 0))) if one is not None),
    ]
    worst = 1.0
    for recipe, others in itertools.product(recipes, itertools.combinations_with_replacement(VALUES, size - 1)):
        laws = []
        for value in VALUES:
            law: dict[Histogram, float] = defaultdict(float)
            for sent, p in messages(recipe, (value, *others)).items():
                law[counted(sent)] += p
            laws.append(law)
        worst = max(worst, *(one[at] / two[at] for one, two in itertools.permutations(laws, 2) for at in one))
    return worst


def test_whoever_sees_the_sums_and_who_sent_learns_what_one_batch_tells() -> None:
    assert worst_ratio(with_relay) <= max(of_batch(size) for size in range(1, DEVICES + 1)) * (1 + 1e-9)


def test_at_every_size_the_bounds_of_a_series_hold_though_the_second_question_follows_from_the_first() -> None:
    steps = {0: 1.0, **{size: of_batch(size) for size in range(1, DEVICES + 1)}}
    for others in OTHERS:
        laws = [law_of(sums, (value, *others)) for value in VALUES]
        for one, two in itertools.permutations(laws, 2):
            for view in one:
                (first, second), *_ = view
                whole = 1 + (first + second) / DEVICES * (max(steps[first], steps[second]) - 1)
                left = DEVICES - first
                slots = (1 + first / DEVICES * (steps[first] - 1)) * (
                    1 + (second / left if left else 0) * (steps[second] - 1)
                )
                assert one[view] / two[view] <= min(whole, slots) * (1 + 1e-9)


def test_a_round_outside_the_enumeration_is_no_round() -> None:
    """The recipes of the enumeration are rounds of the series, as devices check them."""
    found = round_1((2, 0, 0, 0, 0, 0))
    assert found is not None
    assert SERIES.mismatch(round_0()) is SERIES.mismatch(found) is None
    assert SERIES.mismatch(changed(found, "question.text", "Else?")) is not None
    assert Fraction(SERIES.probe.sampling.rate) == Fraction(RATE)
