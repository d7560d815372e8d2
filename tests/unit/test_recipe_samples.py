"""Recipes with importance sampling and dummies: proposed, claimed, checked, and refused by name."""

from __future__ import annotations

import functools
import math
import re
import time
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.kit.recipes import NOW, RecipeKit, changed
from infra.views.recipe_outlook import outlook_lines
from tacit.dp.poisson import upper_quantile
from tacit.errors import Refusal, UsageError
from tacit.ledger.account import ChargeState
from tacit.operations.outlook import outlook
from tacit.recipe.charges import charge_of
from tacit.recipe.claims import claim_of, count_cost_of, sample_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import design_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.sampling_plan import SamplingPlan
from tacit.rules.table import check

KIT = RecipeKit()
DRAFT = Context(Stage.DRAFT, NOW)
PERMISSIVE = KIT.policy.model_copy(update={"allow_unbounded_local": True})


def question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


ERRORS = question("histogram", kind="categories", categories=["none", "a", "b", "c"])
YES = question("count", kind="boolean")
SPENT = question("sum", kind="number", low=0, high=100)
DEPTH = question("sum", kind="number", low=-20, high=20)
RARE: dict[str, Any] = {"default": 0, "default_rate": Decimal("0.05"), "non_default_share": Decimal("0.1")}
RARE["devices"] = 20_000
ASKED: dict[str, dict[str, Any]] = {
    "krr": {"question": ERRORS, **RARE},
    "rappor": {"question": ERRORS, "randomizer": "rappor", **RARE},
    "rr": {"question": YES, **RARE},
    "sum": {"question": SPENT, **RARE},
    "sum around 0": {"question": DEPTH, **RARE, "default": 20},
    "histogram of shares": {"question": ERRORS, "randomizer": "flips", **RARE},
    "both": {"question": ERRORS, "randomizer": "flips", "dummies": "auto", "dummy_epsilon": Decimal("0.5"), **RARE},
    "dummies": {"question": ERRORS, "dummies": Decimal("105.5")},
    "enough dummies": {"question": SPENT, "dummies": "auto"},
}


@functools.cache
def recipe_of(name: str) -> Recipe:
    """What is proposed for a question in ``ASKED``."""
    return KIT.recipe(population=20_000, **ASKED[name])


def names(recipe: Recipe, policy: Policy = PERMISSIVE) -> list[str]:
    return [refusal.rule for refusal in check(recipe, policy, DRAFT)]


@pytest.mark.parametrize("name", ASKED)
def test_what_is_proposed_passes_every_rule_and_states_what_is_recomputed(name: str) -> None:
    recipe = recipe_of(name)
    assert names(recipe) == []
    assert Recipe.decode(recipe.encode()) == recipe
    claim = claim_of(recipe)
    assert claim.exceeds(recipe.privacy.epsilon.model_dump()) == ()
    assert claim.mechanism == recipe.privacy.mechanism
    assert charge_of(recipe, ChargeState.PENDING).cost.epsilon == Decimal(recipe.privacy.epsilon["aggregator"])
    half = claim_of(recipe, recipe.batch.min_batch_size // 2)
    assert claim["aggregator"] < half["aggregator"] <= 2
    assert 0.4 < claim["aggregator"] <= 1


def test_the_mechanisms_name_says_who_sends() -> None:
    found = {name: recipe_of(name).privacy.mechanism.partition("+")[2] for name in ASKED}
    assert found.pop("both") == "importance+dummies"
    assert {found.pop("dummies"), found.pop("enough dummies")} == {"dummies"}
    assert set(found.values()) == {"importance"}


@pytest.mark.parametrize("name", ["sum", "histogram of shares", "both"])
def test_noise_keeps_the_target_against_one_aggregator_with_half_of_the_devices(name: str) -> None:
    recipe = recipe_of(name)
    assert 0.9 < claim_of(recipe, recipe.batch.min_batch_size // 2)["aggregator"] <= 1
    assert claim_of(recipe)["aggregator_with_relay"] > 2, "no noise lessens what taking part tells the relay"


def test_a_local_epsilon_leaves_room_for_what_taking_part_tells() -> None:
    for name in ("krr", "rappor", "rr"):
        recipe = recipe_of(name)
        stated = recipe.privacy.epsilon
        told = Decimal(stated["both_aggregators_with_relay"]) - recipe.epsilon0
        assert float(told) == pytest.approx(math.log(10), abs=1e-5)
        assert Decimal(stated["both_aggregators_with_relay"]) <= 8


def test_dummies_alone_keep_the_target_against_the_relay_and_are_as_many_as_were_asked_for() -> None:
    local, shares = recipe_of("dummies"), recipe_of("enough dummies")
    assert 0.99 < float(local.privacy.epsilon["aggregator_with_relay"]) <= 1
    assert local.privacy.epsilon["both_aggregators_with_relay"] == local.randomizer.epsilon0
    half = claim_of(shares, shares.batch.min_batch_size // 2)
    assert 0.9 < half["aggregator_with_relay"] <= 1
    told = outlook(shares).document()["hiding"]
    assert 0.99 < told["dummies_epsilon"] <= 1
    assert told["part_epsilon"] == 0
    assert shares.sampling.dummies is not None
    assert design_of(shares).dummy_probability == float(shares.sampling.dummies.intensity) / 20_000


def test_batches_and_expected_contributions_count_dummies_and_rates() -> None:
    rare = SamplingPlan(20_000, Decimal("0.5"), 0, Decimal("0.05"), Decimal("0.1"))
    assert rare.messages == 1900
    assert rare.batch_size() == 1520
    assert recipe_of("krr").batch.expected_contributions == 1900
    plain = SamplingPlan(20_000, Decimal("0.5"), dummies=Decimal(200))
    assert plain.messages == 10_100
    assert plain.expected_contributions(10) == 10_100


def test_dummies_are_no_reports() -> None:
    recipe = recipe_of("dummies")
    dummies = upper_quantile(105.5, 1e-7)
    assert sample_of(recipe).reports_among(recipe.batch.min_batch_size, 1e-6) == recipe.batch.min_batch_size - dummies


def test_a_released_batch_costs_no_more_than_b_and_claims_take_milliseconds() -> None:
    for recipe in map(recipe_of, ASKED):
        size = recipe.batch.min_batch_size
        began = time.thread_time()
        larger = claim_of(recipe, size + 137)
        assert time.thread_time() - began < 1
        assert larger.n == size + 137
        released = larger.no_worse_than(claim_of(recipe))
        assert released.exceeds(recipe.privacy.epsilon.model_dump()) == ()


def test_members_that_are_absent_change_nothing() -> None:
    recipe = KIT.recipe()
    assert set(recipe.body()["sampling"]) == {"rate"}
    assert recipe.privacy.mechanism == "shuffle-fmt22+sampling"
    found = outlook(recipe)
    assert (found.shares, found.hiding) == (None, None)
    assert outlook_lines(recipe, found) == [found.rounding.words]


@pytest.mark.parametrize(
    ("name", "path", "value", "rule", "words"),
    [
        ("sum", "question.statistic", "mean", "importance-not-supported", "not possible for a mean"),
        ("sum around 0", "sampling.importance.default", 0, "importance-not-supported", "stand for 0, not for -20"),
        ("sum", "sampling.importance.default", 1, "importance-not-supported", "not for 1"),
        ("krr", "sampling.importance.default", 4, "importance-not-supported", "the largest is 3"),
        ("rr", "sampling.importance.default", 2, "importance-not-supported", "the largest is 1"),
        ("krr", "sampling.importance.default_rate", "0.51", "importance-not-supported", "at most q = 0.5"),
        ("krr", "sampling.rate", "1", "importance-not-supported", "q below 1"),
        ("krr", "sampling.rate", "0.999", "importance-count-leak", "B = 24320 would hide it"),
        ("krr", "sampling.rate", "0.9999999", "importance-count-leak", "whatever B is"),
        ("dummies", "sampling.dummies.intensity", "0", "dummies-invalid", "leave them out"),
        ("dummies", "sampling.dummies.intensity", "3", "dummies-invalid", "would, to epsilon 1"),
        ("dummies", "sampling.dummies.population", 8000, "dummies-invalid", "below B = 8042"),
        ("dummies", "sampling.dummies.intensity", "10001", "dummies-invalid", "at most 10000"),
        ("dummies", "sampling.dummies.intensity", "4000", "dummies-invalid", "expected ones pass, or a larger B"),
        ("dummies", "sampling.rate", "1", "dummies-invalid", "leaves no device"),
        ("both", "sampling.importance.devices", 2_000_000, "population-cap", "over the cap of 1000000"),
        ("krr", "sampling.importance.devices", 3000, "importance-devices", "devices send at most 1500 messages"),
        ("krr", "sampling.importance.devices", 30, "importance-count-leak", "devices are counted on"),
        ("krr", "sampling.importance.devices", 2, "claim-understated", "is claimed"),
        ("dummies", "privacy.mechanism", "shuffle-fmt22+sampling", "claim-mechanism", "shuffle-fmt22+dummies"),
        ("krr", "privacy.epsilon.aggregator_with_relay", "1", "claim-understated", "1 is claimed"),
        ("krr", "privacy.epsilon.both_aggregators_with_relay", "4", "claim-understated", "4 is claimed"),
    ],
)
def test_each_mistake_is_refused_by_its_rule_with_what_would_pass(
    name: str, path: str, value: Any, rule: str, words: str
) -> None:
    refusals = {
        refusal.rule: refusal.detail for refusal in check(changed(recipe_of(name), path, value), PERMISSIVE, DRAFT)
    }
    assert rule in refusals
    assert words in refusals[rule]
    assert all("\n" not in detail for detail in refusals.values())


def test_the_number_of_dummies_that_a_refusal_names_passes() -> None:
    for path, value in (("sampling.dummies.intensity", "3"), ("sampling.dummies.intensity", "4000")):
        (detail,) = [
            refusal.detail
            for refusal in check(changed(recipe_of("dummies"), path, value), PERMISSIVE, DRAFT)
            if refusal.rule == "dummies-invalid"
        ]
        found = re.search(r"([0-9.]+) (would|expected ones)", detail)
        assert found is not None
        assert "dummies-invalid" not in names(changed(recipe_of("dummies"), path, found[1]))


def test_full_participation_with_the_new_names_is_amplification_too() -> None:
    for name in ("krr", "dummies"):
        assert "sampling-one-claimed" in names(changed(recipe_of(name), "sampling.rate", "1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"default": 0}, "^importance: needs `importance.default_rate`, `importance.non_default_share` too"),
        ({"default": 0, "default_rate": Decimal("0.1")}, "needs `importance.non_default_share` too"),
        ({"non_default_share": Decimal("0.1")}, "needs `importance.default`, `importance.default_rate` too"),
        ({"dummies": Decimal(400)}, "too many dummies"),
        ({"dummies": "auto", "dummy_epsilon": Decimal("0.05")}, "no number of dummies from 500 devices"),
        ({"population": 300, **RARE}, "cannot keep epsilon 1"),
        ({"population": 20_000, "rate": Decimal(1), **RARE}, "rates above 0 and below 1"),
        ({"population": 20_000, **RARE, "default_rate": Decimal("0.6")}, "not 0.6 and 0.5"),
        ({"population": 20_000, **RARE, "rate": Decimal("0.99999")}, "cannot keep epsilon 1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        KIT.recipe(**options)
    assert "\n" not in str(caught.value)


def test_a_claim_that_cannot_be_computed_is_a_refusal() -> None:
    recipe = changed(recipe_of("dummies"), "sampling.dummies.intensity", "9000")
    with pytest.raises(Refusal, match="no report is left"):
        claim_of(recipe)
    with pytest.raises(Refusal, match="no report is left"):
        count_cost_of(recipe)


def test_the_outlook_says_in_words_what_hides_whom() -> None:
    lines = outlook_lines(recipe_of("both"), outlook(recipe_of("both")))
    assert any("the number of messages adds epsilon 0." in line for line in lines)
    assert any("does not fill, it tells epsilon 0.0" in line and "20,000 devices" in line for line in lines)
    assert any("somebody who knows which others took part: epsilon 0." in line for line in lines)
    assert any("the relay sees who sends: epsilon 2." in line for line in lines)
    assert any("expected standard error" in line for line in lines)
    assert outlook(recipe_of("both")).document()["outlook"]["noise_stderr"] > 0
