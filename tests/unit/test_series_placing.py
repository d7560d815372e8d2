"""Slots and times of a series: on free slots, with rounds that share out what is left of an epoch."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, RecipeKit
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.operations.series_drafting import _Span, drafted_series, on_free_slots
from tacit.recipe.model import Recipe
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import Survey

KIT = RecipeKit()
RECIPE = KIT.recipe(name="training", population=20_000, rate=Decimal(1), epsilon=Decimal("0.5"))
SLOTS = 8
BEGIN = EPOCH * EPOCH_SECONDS


def shape(rounds: int, per_epoch: int) -> Shape:
    return Shape(rounds, rounds, RECIPE.interval.start, 600, per_epoch)


def log_of(*recipes: Recipe) -> LiveLog:
    leaves = [KIT.directory_leaf(epoch, SLOTS) for epoch in (EPOCH, EPOCH + 1)]
    return LiveLog.from_leaves(enumerate([*leaves, *map(KIT.recipe_leaf, recipes)]))


def placed_from(log: LiveLog, rounds: int, per_epoch: int, slots: int = SLOTS) -> int:
    return on_free_slots(RECIPE, shape(rounds, per_epoch), log, slots).token.slot


def test_a_series_keeps_the_slot_of_its_recipe_while_that_is_free_for_every_round() -> None:
    assert on_free_slots(RECIPE, shape(3, 3), log_of(), SLOTS) is RECIPE
    with pytest.raises(UsageError, match=r"no 9 in a row are free.*--slots-per-epoch"):
        placed_from(log_of(), 9, 9)


def test_a_series_of_a_recipe_that_is_published_takes_the_first_slots_that_are_free_in_all_its_epochs() -> None:
    own = RECIPE.token.slot
    taken = log_of(RECIPE)
    first = placed_from(taken, 3, 3)
    assert own not in range(first, first + 3)
    beside = KIT.recipe(name="other", token=RECIPE.token.model_copy(update={"slot": first + 1}))
    assert {own, first + 1}.isdisjoint(range(placed_from(log_of(RECIPE, beside), 3, 3), first + 9))
    later = RECIPE.token.model_copy(update={"epoch": EPOCH + 1, "slot": first})
    assert placed_from(log_of(RECIPE, KIT.recipe(name="later", token=later)), 2, 1) != first
    with pytest.raises(UsageError, match="a recipe of a later epoch"):
        placed_from(taken, 3, 3, slots=own + 1)


def test_a_series_keeps_off_the_slots_that_another_one_assigns() -> None:
    series = propose_series(RECIPE, shape(3, 3))
    leaves = [KIT.directory_leaf(EPOCH, SLOTS), KIT.series_leaf(series)]
    log = LiveLog.from_leaves(enumerate(leaves))
    first = placed_from(log, 2, 2)
    assert set(range(first, first + 2)).isdisjoint(range(RECIPE.token.slot, RECIPE.token.slot + 3))


def slots_of(span: _Span) -> set[tuple[str, int, int]]:
    """The slots of a span, counted one by one."""
    places = (divmod(index, span.per_epoch) for index in range(span.rounds))
    return {(span.issuer, span.epoch + epochs, span.slot + place) for epochs, place in places}


def test_two_series_share_a_slot_exactly_if_one_of_their_rounds_has_one_of_the_other() -> None:
    spans = [
        _Span(issuer, epoch, slot, per_epoch, rounds)
        for issuer, epoch, slot, per_epoch, rounds in product("ab", range(3), range(3), (1, 2, 3), range(1, 8))
    ]
    for one in (span for span in spans if span.issuer == "a"):
        own = slots_of(one)
        for other in spans:
            assert one.meets(other) == (not own.isdisjoint(slots_of(other))), (one, other)


def drafted(start: int, duration: int) -> list[int]:
    """The seconds after the epoch's beginning at which the rounds of a search of three levels begin."""
    asked = {
        "name": "words", "metric": "word", "population": 20_000, "rate": "1", "start": start, "duration": duration,
        "encoder": {"kind": "prefixes", "length": 4, "alphabet": "abc", "levels": [3, 5, 8]},
    }  # fmt: skip
    found = drafted_series(Survey.from_body(asked), KIT.parties(), log_of(), KIT.policy, EPOCH_SECONDS, NOW)
    assert found.series is not None
    return [found.series.window(index).start - BEGIN for index in range(found.series.rounds)]


def test_the_rounds_of_a_search_share_out_what_is_left_of_their_epoch() -> None:
    third = EPOCH_SECONDS // 3
    assert drafted(BEGIN, 600) == [0, third, 2 * third]
    late = 3_000
    period = (EPOCH_SECONDS - late) // 3 // 60 * 60
    assert drafted(BEGIN + late, 60) == [late, late + period, late + 2 * period]


def test_a_search_that_does_not_fit_into_what_is_left_has_a_round_in_each_epoch() -> None:
    late = EPOCH_SECONDS - 700
    assert drafted(BEGIN + late, 600) == [late, late + EPOCH_SECONDS, late + 2 * EPOCH_SECONDS]
