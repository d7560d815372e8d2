"""The encoder ``update``: its members, its vectors, and the rule about a round's model."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.learning import LEARNING, external, model_of, training_series
from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.errors import FieldError
from tacit.recipe.context import Context, Stage
from tacit.recipe.encoder import VectorEncoder, encoder_of
from tacit.recipe.encoder_specs import Update, Vector
from tacit.recipe.fields import parse_fields
from tacit.recipe.rounding import rounding_words
from tacit.recipe.series import Series
from tacit.rules import series_table
from tacit.rules.table import check

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"allow_unbounded_local": True})
SERIES = training_series(KIT)
PUBLISH = Context(Stage.PUBLISH, NOW)
RULE = "round-model"


def said(series: Series, round_input: str | None, context: Context = PUBLISH) -> list[str]:
    recipe = KIT.round(series, 0, round_input)
    return [refusal.detail for refusal in check(recipe, POLICY, context, only={RULE})]


def test_an_update_is_a_vector_of_the_models_entries() -> None:
    assert isinstance(LEARNING, Vector)
    assert LEARNING.length == 3 * 2 == LEARNING.training.parameters
    assert encoder_of(SERIES.probe.question).labels == ("0", "1", "2", "3", "4", "5")
    assert Series.decode(SERIES.encode()) == SERIES
    assert series_table.check(SERIES, POLICY, NOW) == []


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"length": 7}, "length"),
        ({"low": "-0.5"}, "low"),
        ({"training": {**LEARNING.training.model_dump(), "quantile": {"weight": "0.5"}}}, "length"),
        ({"length": 7, "training": {**LEARNING.training.model_dump(), "quantile": {"weight": 1}}}, "training"),
        ({"training": {**LEARNING.training.model_dump(), "architecture": {"kind": "deep"}}}, "training.architecture"),
    ],
)
def test_members_that_do_not_belong_together_are_refused(members: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as refused:
        parse_fields(Update, {**LEARNING.model_dump(exclude_none=True), **members})
    assert refused.value.field.startswith(field)


def test_a_vector_longer_than_the_norm_is_shrunk_and_anything_else_is_no_value() -> None:
    encoder = encoder_of(SERIES.probe.question)
    steps, zero = 100, 100
    one = encoder.encode([0.0, 0.25, -0.25, 0.0, 0.0, 0.004])
    assert one == (zero, zero + 25, zero - 25, zero, zero, zero)
    long = encoder.encode([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    assert isinstance(long, tuple)
    assert math.dist(long, (zero,) * 6) <= steps
    assert encoder.encode([0.0] * 5) is encoder.encode([math.nan] * 6) is encoder.encode(None) is None


def test_a_round_states_a_model_of_the_trainings_length() -> None:
    model = model_of(LEARNING, seed=1)
    assert said(SERIES, model.stated("0.5").text()) == []
    (short,) = said(SERIES, model.stated("0.5").text().replace(str(len(model.file)), str(len(model.file) + 4)))
    assert "a model of this architecture has 36" in short


def test_round_0_of_an_external_model_trains_the_one_that_the_series_names() -> None:
    first, other = model_of(LEARNING, seed=1), model_of(LEARNING, seed=2)
    series = training_series(KIT, spec=external(first))
    assert said(series, first.stated().text()) == []
    (why,) = said(series, other.stated().text())
    assert why.startswith(f"round 0 must train {first.stated().model}")
    later = KIT.round(series, 1, other.stated().text())
    assert check(later, POLICY, PUBLISH, only={RULE}) == [], "later models follow from releases, which no rule reads"


@pytest.mark.parametrize(
    ("round_input", "words"),
    [
        (None, "must state the round's model"),
        ("weights", "round_input"),
        ('{"bytes":36,"clip":"0.5"}', "model"),
        ('{"bytes":36,"clip":0,"model":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}', "clip"),
        ('{"bytes":36,"clip":"0.5","model":"AAAA"}', "model"),
        ('{"bytes":36, "clip":"0.5","model":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}', "round_input"),
    ],
)
def test_a_round_without_a_model_that_can_be_read_is_refused(round_input: str | None, words: str) -> None:
    (why,) = said(SERIES, round_input)
    assert words in why


def test_a_model_is_trained_in_a_series_only_and_a_draft_may_wait() -> None:
    alone = SERIES.probe
    assert check(alone, POLICY, Context(Stage.DRAFT, NOW), only={"round-model"}) == []
    assert "rounds of a series" in check(alone, POLICY, PUBLISH, only={"round-model"})[0].detail
    assert said(SERIES, None, Context(Stage.DRAFT, NOW)) == []


def test_a_recipe_says_how_an_update_is_rounded() -> None:
    words = rounding_words(SERIES.probe.question)
    assert words is not None
    assert words.startswith("the update is divided by the round's clip and shrunk to length 1; entries are rounded")


@given(
    st.lists(st.floats(-3, 3) | st.sampled_from([1e-320, -0.0, math.inf, -math.inf]), max_size=6),
    st.sampled_from(["0.01", "0.001", "0.125", "0.000000001"]),
)
def test_binary_numbers_are_rounded_as_their_decimal_texts_are(numbers: list[float], unit: str) -> None:
    assert_rounded_as_text([*numbers, *[0.0] * (6 - len(numbers))], unit)


@pytest.mark.parametrize("unit", ["0.01", "0.1", "0.125", "0.003"])
def test_binary_numbers_in_the_middle_of_two_steps_are_too(unit: str) -> None:
    """Where binary arithmetic alone would err: 1.015 / 0.01 is 101.49999999999999."""
    middles = [float(Decimal(unit) * (2 * step + 1) / 2) for step in range(-40, 500)]
    assert_rounded_as_text(middles, unit)


def assert_rounded_as_text(row: list[float], unit: str) -> None:
    """The encoder takes a short cut for most binary numbers, never to another step."""
    spec = Vector(kind="vector", length=len(row), low=-3, high=3, unit=unit, norm=300)
    encoder = VectorEncoder(spec)
    assert encoder.encode(row) == encoder.encode([Decimal(repr(number)) for number in row])
