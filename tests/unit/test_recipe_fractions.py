"""Fractional units, ranges and edges: one spelling, exact rounding, refusals that say what to change."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.recipes import NOW, RecipeKit
from infra.lab.vectors.cast import cast
from tacit.errors import DecodeError
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.operations.outlook import outlook
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import design_of, randomizer_of, vdaf_spec
from tacit.recipe.encoder import MISSING, BucketEncoder, NumberEncoder, VectorEncoder, answer_label, labels
from tacit.recipe.encoder_specs import Number, Vector
from tacit.recipe.model import Question, Recipe
from tacit.recipe.quantity import PLACES, exact, in_words, parse_spoken, quantity
from tacit.recipe.rounding import coarse_words, rounding_words
from tacit.rules.table import check
from tacit.tlog.canonical import validate

KIT = RecipeKit()
PERMISSIVE = KIT.policy.model_copy(update={"allow_unbounded_local": True})


def question(statistic: str, **encoder: Any) -> Question:
    body = {"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic}
    return validate(Question, body, "question")


def number(**members: Any) -> Number:
    return Number(kind="number", **members)


SHARE = question("mean", kind="number", low=0, high=1, unit="0.01")
LOAD = question("sum", kind="number", low="-0.5", high="2.25", unit="0.25")
STEP = question("vector-sum", kind="vector", length=3, low=-1, high=1, unit="0.1", norm="1.5")
SPREAD = question("histogram", kind="buckets", edges=[0, "0.1", "0.25", 1])


KEPT = {
    "doctor-visits": "0wJMt8H1MDmnCtkgZtWSGEl1ahY3VoHkQbvOudcjMkU",
    "crashed": "Bl9tuaiGkX9SykqWmEyrz9eJjXen5HU199zaqQWFqXI",
    "languages": "rDq6pF-Rqcb-vWFXbXb0wSFUabyNVlaNjejE6UgPdsA",
    "spent": "sva1o9XV1ooMUSkIe3C2_qEDs5euWvlo1ob80LqfzSg",
    "update": "CCCMnowd47Oehk19yXTdXYMzBgjj39ymzXNApZYJnfU",
    "rare-visits": "DUdjEsiukao4SfWrwbwSz1iyu6AAby0rfFqWkXNsITs",
}
"""Hashes of recipes from before there were fractions; that of the vector since its flips are even."""


def test_recipes_of_whole_numbers_keep_the_hashes_that_they_had() -> None:
    published = cast().recipes
    assert {name: published[name].hash_text for name in KEPT} == KEPT


def test_a_fractional_number_has_one_spelling_and_a_whole_one_is_an_integer() -> None:
    recipe = KIT.recipe(question=SHARE, population=2000)
    assert recipe.body()["question"]["encoder"] == {"kind": "number", "low": 0, "high": 1, "unit": "0.01"}
    assert Recipe.decode(recipe.encode()) == recipe
    for text, written in (("0.50", "0.5"), (" 2.0", 2), ("-0.000", 0), ("+.5", None), ("-3", -3), ("7.", 7)):
        if written is None:
            with pytest.raises(ValueError, match="not a number"):
                parse_spoken(text)
        else:
            assert parse_spoken(text) == written


WRONG = ["0.50", "1.0", "-0.0", ".5", "5", "0.1234567891", "1234567890.5", "1e-2", "1E+999999", "+0.5", " 0.5", "NaN",
         "0.5\n", "\u0660.5", "0." + "1" * 10_000_000, True, 0.5, None, [1], 2**53]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=lambda one: repr(one)[:20])
def test_another_spelling_is_refused_at_once_whatever_its_length(value: Any) -> None:
    for members in ({"unit": value}, {"low": value}, {"high": value}):
        if members == {"unit": None}:
            continue
        with pytest.raises(DecodeError) as caught:
            question("mean", **{"kind": "number", "low": 0, "high": 1, "unit": "0.01", **members})
        assert len(str(caught.value)) < 300
    with pytest.raises(DecodeError, match="edges"):
        question("histogram", kind="buckets", edges=[0, value])


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ({"low": 0, "high": 1, "unit": "0.3"}, "0.3 does not divide 1 - 0; change `high` to 0.9 or 1.2, or `unit`"),
        ({"low": "0.5", "high": 1}, "1 does not divide 1 - 0.5; change `high` to 1.5, or `unit`"),
        ({"low": 0, "high": "0.5", "unit": "0.5"}, "at least 2 steps: lower unit 0.5"),
        ({"low": "36.6", "high": "36.7", "unit": "0.1"}, "at least 2 steps"),
        ({"low": "0.5", "high": "0.5"}, "low must be below `high`"),
        ({"low": 0, "high": 1, "unit": "-0.5"}, "must be above 0|decimal text"),
        ({"low": 0, "high": 1, "unit": 0}, "above 0"),
        ({"kind": "vector", "length": 2, "low": "-0.5", "high": 1, "unit": "0.2", "norm": 1}, "low must be a multiple"),
        (
            {"kind": "vector", "length": 2, "low": -1, "high": 1, "unit": "0.2", "norm": "0.5"},
            "norm must be a multiple",
        ),
        ({"kind": "vector", "length": 2, "low": "0.5", "high": 1, "unit": "0.5", "norm": 1}, "low must be at most 0"),
        ({"kind": "buckets", "edges": ["0.1", "0.1"]}, "increasing"),
        ({"kind": "buckets", "edges": [1, "0.5"]}, "increasing"),
    ],
)
def test_a_range_that_does_not_fit_is_refused_with_what_to_change(encoder: dict[str, Any], words: str) -> None:
    kinds = {"buckets": "histogram", "vector": "vector-sum"}
    with pytest.raises(DecodeError, match=words):
        question(kinds.get(encoder.get("kind", ""), "mean"), **{"kind": "number", **encoder})


def test_steps_by_the_quadrillion_are_refused_quickly_by_whoever_reads_the_recipe() -> None:
    wide = question("mean", kind="number", low=0, high=2**53 - 1, unit="0.000000001")
    assert NumberEncoder(wide.encoder, "mean").encode("1e999") == (2**53 - 1) * 10**9  # type: ignore[arg-type]
    body = KIT.recipe(question=SHARE, population=2000).body()
    body["question"]["encoder"] = wide.canonical()["encoder"]
    refused = {one.rule for one in check(Recipe.from_body(body), PERMISSIVE, Context(Stage.DRAFT, NOW))}
    assert "encoder-mismatch" in refused


MILLIONTHS = st.integers(-(10**9), 10**9)


@given(
    MILLIONTHS,
    st.integers(2, 5000),
    st.integers(1, 10**7),
    st.one_of(
        st.fractions(-2000, 2000, max_denominator=10**9).map(lambda one: Decimal(one.numerator) / one.denominator),
        st.decimals(-3000, 3000, places=6),
        st.integers(-9, 9).map(lambda one: Decimal(one).scaleb(-400)),
    ),
)
def test_a_number_is_rounded_as_exact_fractions_are(low: int, steps: int, unit: int, value: Decimal) -> None:
    least, step = Fraction(low, 10**6), Fraction(unit, 10**6)
    most = least + steps * step
    spec = number(low=quantity(least), high=quantity(most), unit=quantity(step))
    clipped = min(max(Fraction(value), least), most)
    expected = round((clipped - least) / step)
    assert NumberEncoder(spec, "sum").encode(value) == expected
    if value.as_tuple().exponent in range(-30, 0):
        assert NumberEncoder(spec, "sum").encode(str(value)) == expected


@given(st.integers(0, 100), st.sampled_from([-1, 0, 1]), st.integers(20, 990))
def test_what_lies_half_way_goes_to_the_even_step_and_the_least_more_does_not(at: int, side: int, far: int) -> None:
    encoder = NumberEncoder(number(low=0, high=2, unit="0.01"), "mean")
    value = Fraction(2 * at + 1, 200) + side * Fraction(1, 10**far)
    written = Decimal(f"{value.numerator * 10**1000 // value.denominator}e-1000")
    expected = at if side < 0 else at + 1 if side else at + at % 2
    assert encoder.encode(written) == expected


@given(st.floats(-10, 10), st.integers(1, 6))
def test_a_binary_float_counts_as_the_shortest_decimal_that_stands_for_it(value: float, places: int) -> None:
    spec = number(low=-10, high=10, unit=quantity(Fraction(1, 10**places)))
    encoder = NumberEncoder(spec, "sum")
    assert encoder.encode(value) == encoder.encode(repr(value)) == round((Fraction(repr(value)) + 10) * 10**places)


def test_the_float_that_is_just_below_an_edge_is_in_the_edges_bucket() -> None:
    encoder = BucketEncoder((0, "0.1", "0.3"))
    assert Fraction(0.3) < Fraction("0.3")
    assert [encoder.encode(value) for value in (0.3, "0.3", 0.29, 0.1, -1, "1e-3")] == [2, 2, 1, 1, 0, 0]
    tenths = BucketEncoder(tuple(quantity(Fraction(tenth, 10)) for tenth in range(11)))
    assert [tenths.encode(tenth / 10) for tenth in range(11)] == list(range(11))


def test_an_exponent_without_end_takes_no_time() -> None:
    began = time.process_time()
    encoders = (NumberEncoder(number(low=0, high=1, unit="0.01"), "mean"), BucketEncoder((0, "0.5")))
    for text in ("1E+999999999", "-1E+999999999", "1E-999999999", "1e-999999999999"):
        assert {encoder.encode(text) for encoder in encoders} == {MISSING}
    huge, tiny = Decimal("1E+999999"), Decimal("1E-999999")
    assert [encoder.encode(huge) for encoder in encoders] == [100, 1]
    assert [encoder.encode(tiny) for encoder in encoders] == [0, 0]
    assert time.process_time() - began < 5


ENTRIES = st.lists(st.decimals(-3, 3, places=3), min_size=3, max_size=3)


@given(ENTRIES)
def test_a_vector_of_fractions_is_rounded_and_shrunk_in_steps(entries: list[Decimal]) -> None:
    spec = STEP.encoder
    assert isinstance(spec, Vector)
    found = VectorEncoder(spec).encode(entries)
    assert found is not None
    steps = [entry - 10 for entry in found]
    assert sum(step * step for step in steps) <= 15**2
    rounded = [round(min(max(Fraction(entry), Fraction(-1)), Fraction(1)) * 10) for entry in entries]
    if sum(step * step for step in rounded) <= 15**2:
        assert steps == rounded


def test_labels_and_defaults_are_written_with_their_own_digits() -> None:
    recipe = KIT.recipe(question=SPREAD, population=2000)
    assert labels(recipe) == ("0 to <0.1", "0.1 to <0.25", "0.25 to <1", "1+")
    whole = question("histogram", kind="buckets", edges=[-5, -1, 0, 2])
    assert labels(KIT.recipe(question=whole, population=2000)) == ("-5 to <-1", "-1", "0 to <2", "2+")
    assert [answer_label(LOAD, answer) for answer in (0, 1, 2, 11)] == ["-0.5", "-0.25", "0", "2.25"]
    assert in_words(Fraction(1, 3)) == "0.3333333333"
    assert exact("0.25") == Fraction(1, 4)
    assert quantity(Fraction(-1, 10**PLACES)) == "-0.000000001"


@pytest.mark.parametrize("asked", [SHARE, LOAD, STEP, SPREAD], ids=lambda one: one.statistic)
def test_a_proposal_in_fractions_passes_every_rule_and_claims_what_its_steps_cost(asked: Question) -> None:
    recipe = KIT.recipe(question=asked, population=4000)
    assert check(recipe, PERMISSIVE, Context(Stage.DRAFT, NOW)) == []
    assert claim_of(recipe).exceeds(recipe.privacy.epsilon.model_dump()) == ()
    assert recipe.randomizer.maximum == {"mean": 100, "sum": 11, "vector-sum": 20}.get(asked.statistic)


def test_noise_in_fractions_is_that_of_as_many_whole_steps() -> None:
    cents = KIT.recipe(question=question("sum", kind="number", low=-20, high=80), population=4000)
    euros = KIT.recipe(question=question("sum", kind="number", low="-0.2", high="0.8", unit="0.01"), population=4000)
    assert cents.randomizer == euros.randomizer
    assert cents.privacy.epsilon == euros.privacy.epsilon
    sums = [123_456]
    one, other = (
        estimator_of(randomizer_of(recipe)).estimate(sums, 1000, design_of(recipe)) for recipe in (cents, euros)
    )
    assert other.values[0] == pytest.approx(one.values[0] / 100)
    assert other.stderrs[0] == pytest.approx(one.stderrs[0] / 100)
    noise = [randomizer_of(recipe) for recipe in (cents, euros)]
    assert [shares.neutral for shares in noise if isinstance(shares, Flips)] == [20, 20]
    assert 100 * outlook(euros).document()["outlook"]["one_device"] == pytest.approx(
        outlook(cents).document()["outlook"]["one_device"]
    )


def test_the_usual_answer_of_a_sum_in_fractions_is_the_one_that_stands_for_0() -> None:
    rare: dict[str, Any] = {"default_rate": Decimal("0.05"), "non_default_share": Decimal("0.1")}
    rare |= {"devices": 20_000, "population": 20_000}
    recipe = KIT.recipe(question=LOAD, default=2, **rare)
    assert check(recipe, PERMISSIVE, Context(Stage.DRAFT, NOW)) == []
    body = recipe.body()
    body["sampling"]["importance"]["default"] = 1
    (refusal,) = check(Recipe.from_body(body), PERMISSIVE, Context(Stage.DRAFT, NOW), only={"importance-not-supported"})
    assert "stand for 0, not for -0.25" in refusal.detail


def test_a_recipe_says_in_words_what_is_rounded_to_what() -> None:
    assert rounding_words(SHARE) == (
        "values are rounded to the nearest 0.01, half-way ones to an even number of steps above 0; "
        "below 0 counts as 0, above 1 as 1"
    )
    assert "the nearest 1.5 counted from 0.5" in str(
        rounding_words(question("sum", kind="number", low="0.5", high=5, unit="1.5"))
    )
    assert "shrunk to length 1.5" in str(rounding_words(STEP))
    assert "below 0 it counts as 0 to <0.1" in str(rounding_words(SPREAD))
    assert rounding_words(question("count", kind="boolean")) is None


def test_a_unit_that_is_coarse_for_its_range_is_warned_about_with_a_finer_one_that_fits() -> None:
    trap = KIT.recipe(question=question("mean", kind="number", low=0, high=1), population=2000)
    words = coarse_words(trap)
    assert words is not None
    assert words.startswith("unit 1 is coarse: 0 to 1 has 1 step, 0.3 counts as 0, and rounding may move a mean by 0.5")
    assert "take unit 0.01" in words
    finer = KIT.recipe(question=SHARE, population=2000)
    assert coarse_words(finer) is None
    bits = (vdaf_spec(finer).max_measurement or 0).bit_length()
    assert any(f"about {near} bits" in words for near in (bits - 1, bits, bits + 1))
    assert outlook(trap).document()["warnings"] == [words]
    assert "warnings" not in outlook(finer).document()
