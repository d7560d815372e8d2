"""Recipes of noise shares: every statistic is proposed, derived, claimed, and refused by name where it does not fit."""

from __future__ import annotations

import dataclasses
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, VISITS, RecipeKit, changed
from infra.lab.kit.reports import make_task_kit
from infra.views.policy_words import LOCAL_GUARANTEE, for_authors
from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.claim import UNBOUNDED
from tacit.dp.sampling import amplify_visible
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.messages import Interval
from tacit.methods.flips import Flips
from tacit.models.collectors import collector_side
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, task_configuration, vdaf_of
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import Buckets, Vector
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.roles.collector import AggregateResult
from tacit.roles.release_noise import noisy_share
from tacit.rules.detail import needed_of
from tacit.rules.privacy import NO_LOCAL_GUARANTEE
from tacit.rules.table import check
from tacit.vdaf.prio3 import Prio3Sum, Prio3SumVec
from tacit.vdaf.registry import vdaf_configuration, vdaf_from_configuration

KIT = RecipeKit()
DRAFT = Context(Stage.DRAFT, NOW)
PERMISSIVE = KIT.policy.model_copy(update={"allow_unbounded_local": True})


def question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


QUESTIONS = {
    "histogram": VISITS,
    "count": question("count", kind="boolean"),
    "sum": question("sum", kind="number", low=0, high=120),
    "mean": question("mean", kind="number", low=-50, high=50, unit=5),
    "vector-sum": question("vector-sum", kind="vector", length=16, low=-10, high=10, norm=20),
}
RECIPES = {name: KIT.recipe(question=asked, randomizer="flips") for name, asked in QUESTIONS.items()}


def vector_step(spec: Vector) -> VectorStep | None:
    shares = Flips("vector-sum", 1, 1, spec.maximum, spec.length, low=spec.least, norm=spec.radius)
    return shares.noise_step.vector


def names(recipe: Recipe, policy: Policy = PERMISSIVE) -> list[str]:
    return [refusal.rule for refusal in check(recipe, policy, DRAFT)]


@pytest.mark.parametrize("statistic", RECIPES)
def test_every_statistic_has_a_recipe_that_keeps_its_target_with_half_of_its_devices(statistic: str) -> None:
    recipe = RECIPES[statistic]
    assert names(recipe) == []
    assert Recipe.decode(recipe.encode()) == recipe
    assert len(labels(recipe)) == recipe.randomizer.categories
    half = claim_of(recipe, recipe.batch.min_batch_size // 2)
    assert 0.9 < half["aggregator_with_relay"] <= 1
    assert claim_of(recipe)["aggregator_with_relay"] < half["aggregator_with_relay"]
    assert claim_of(recipe).exceeds(recipe.privacy.epsilon.model_dump()) == ()


@pytest.mark.parametrize("statistic", RECIPES)
def test_the_vdaf_takes_every_output_and_nothing_larger(statistic: str) -> None:
    recipe = RECIPES[statistic]
    shares, vdaf = randomizer_of(recipe), vdaf_of(recipe)
    assert isinstance(shares, Flips)
    assert isinstance(vdaf, Prio3SumVec if statistic in {"histogram", "vector-sum"} else Prio3Sum)
    assert vdaf.max_measurement == shares.largest
    assert 10**9 * shares.largest < vdaf.field.MODULUS, "no batch overflows"
    again = vdaf_from_configuration(vdaf.ID, vdaf_configuration(vdaf))
    assert vdaf_configuration(again) == task_configuration(recipe).vdaf_configuration


def test_no_parameters_make_a_sum_that_overflows() -> None:
    with pytest.raises(ValueError, match="at most"):
        Flips("sum", 1 << 20, 1, (1 << 12) + 1, 1)
    assert vdaf_of(RECIPES["sum"]).field.MODULUS > 10**9 * (1 << 32)


def test_claims_are_the_exact_ones_and_sampling_counts_only_where_the_batch_is_visible() -> None:
    for statistic, cells in (("histogram", 2), ("count", 1), ("sum", 1)):
        recipe = RECIPES[statistic]
        spec, size = recipe.randomizer, recipe.batch.min_batch_size
        exact = epsilon_noise(size * (spec.flips or 0), (spec.scale or 0) * (spec.maximum or 0), 1e-6, cells)
        claim = claim_of(recipe)
        assert claim["aggregator_with_relay"] == exact
        assert claim["aggregator"] == amplify_visible(exact, 0.5, size, 1e-6)
        assert claim.mechanism == "flips-exact+sampling"
    everybody = KIT.recipe(question=QUESTIONS["sum"], rate=Decimal(1), population=250)
    assert everybody.privacy.mechanism == "flips-exact"
    assert everybody.privacy.epsilon["aggregator"] == everybody.privacy.epsilon["aggregator_with_relay"]


def test_a_vectors_step_is_twice_the_ball_or_less_where_entries_have_one_sign() -> None:
    both = Vector(kind="vector", length=4, low=-10, high=10, norm=12)
    assert vector_step(both) == VectorStep(4, 20, 4 * 144)
    assert vector_step(both.model_copy(update={"low": 0})) == VectorStep(4, 10, 2 * 144)
    assert vector_step(both.model_copy(update={"norm": 100})) == VectorStep(4, 20, 4 * 20**2)
    recipe = RECIPES["vector-sum"]
    spec = recipe.randomizer
    bound = epsilon_vector_noise(200 * (spec.flips or 0), VectorStep(16, 20, 1600), spec.scale or 0, 1e-6)
    assert claim_of(recipe)["aggregator_with_relay"] == bound
    assert recipe.privacy.mechanism == "flips-vector+sampling"


def test_against_both_aggregators_nothing_is_claimed_and_policies_must_say_that_they_accept_it() -> None:
    for recipe in RECIPES.values():
        epsilon = recipe.privacy.epsilon
        assert (epsilon["both_aggregators"], epsilon["both_aggregators_with_relay"]) == (UNBOUNDED, UNBOUNDED)
        assert recipe.privacy.epsilon0 == UNBOUNDED
        assert recipe.randomizer.epsilon0 is None
        assert names(recipe, KIT.policy) == ["claim-cap"]
        assert math.isinf(claim_of(recipe)["both_aggregators"])
        json.dumps(claim_of(recipe).stated(), allow_nan=False)
    (refusal,) = check(RECIPES["sum"], KIT.policy, DRAFT)
    assert "without a local guarantee" in refusal.detail
    assert "allow_unbounded_local" not in refusal.detail
    assert "both_aggregators and both_aggregators_with_relay: epsilon is unbounded" in refusal.detail
    assert "randomizer one-bit with epsilon0 of at most 8 passes" in refusal.detail
    assert needed_of(refusal.detail) == [
        {"randomizer.name": {"one_of": ["one-bit"]}, "randomizer.epsilon0": {"at_most": "8"}}
    ]
    (refusal,) = check(RECIPES["vector-sum"], KIT.policy, DRAFT)
    assert refusal.detail.endswith("without a local guarantee, which no randomizer has for a vector-sum")
    assert needed_of(refusal.detail) == []
    assert "tacit up --allow-unbounded-local starts a stack that accepts it" in for_authors(refusal.detail)
    assert for_authors(for_authors(refusal.detail)) == for_authors(refusal.detail)
    assert LOCAL_GUARANTEE == NO_LOCAL_GUARANTEE


def test_the_command_line_names_the_flag_of_a_stack_that_accepts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sum.json"
    file.write_text(json.dumps(RECIPES["sum"].body()))
    monkeypatch.chdir(tmp_path)
    assert run(["recipe", "check", str(file)]) == 1
    assert "tacit up --allow-unbounded-local" in " ".join(capsys.readouterr().out.split())

    def refuse(*_: Any, **__: Any) -> None:
        raise check(RECIPES["sum"], KIT.policy, DRAFT)[0]

    monkeypatch.setattr("infra.authoring.publishing.publish_file", refuse)
    assert run(["recipe", "publish", str(file)]) == 1
    assert "tacit up --allow-unbounded-local" in capsys.readouterr().err


BAD: list[tuple[str, str, str, Any]] = [
    ("encoder-mismatch", "sum", "randomizer.maximum", 119),
    ("encoder-mismatch", "sum", "randomizer.categories", 2),
    ("encoder-mismatch", "sum", "question.encoder.high", 121),
    ("encoder-mismatch", "mean", "question.encoder.unit", 10),
    ("encoder-mismatch", "sum", "question.encoder", {"kind": "boolean"}),
    ("encoder-mismatch", "count", "question.statistic", "sum"),
    ("encoder-mismatch", "vector-sum", "question.encoder.length", 17),
    ("randomizer-parameters", "sum", "randomizer.epsilon0", "1"),
    ("randomizer-parameters", "sum", "randomizer.max_weight", 1),
    ("randomizer-parameters", "sum", "randomizer.flips", 1 << 17),
    ("randomizer-parameters", "sum", "randomizer.scale", 1 << 30),
    ("randomizer-parameters", "sum", "randomizer.maximum", (1 << 32) + 1),
    ("randomizer-vdaf-mismatch", "sum", "vdaf.max_measurement", 120),
    ("randomizer-vdaf-mismatch", "sum", "vdaf.max_measurement", 1 << 40),
    ("randomizer-vdaf-mismatch", "sum", "vdaf.name", "Prio3SumVec"),
    ("randomizer-vdaf-mismatch", "vector-sum", "vdaf.length", 15),
    ("randomizer-vdaf-mismatch", "histogram", "randomizer.flips", 12),
    ("vdaf-parameters", "sum", "vdaf.chunk_length", 2),
    ("vdaf-parameters", "vector-sum", "vdaf.chunk_length", 1000),
    ("claim-understated", "sum", "privacy.epsilon.aggregator", "0.5"),
    ("claim-understated", "sum", "privacy.epsilon.aggregator_with_relay", "0.6"),
    ("claim-understated", "sum", "privacy.epsilon.both_aggregators", "5"),
    ("claim-understated", "vector-sum", "privacy.epsilon.both_aggregators_with_relay", "8"),
    ("claim-understated", "vector-sum", "question.encoder.norm", 24),
    ("claim-understated", "sum", "randomizer.flips", 5000),
    ("claim-mechanism", "vector-sum", "privacy.mechanism", "flips-exact+sampling"),
    ("claim-parameters", "sum", "privacy.epsilon0", "1"),
    ("claim-half-batch", "sum", "randomizer.flips", 1000),
]


@pytest.mark.parametrize(("rule", "statistic", "path", "value"), BAD)
def test_what_does_not_fit_is_refused_by_its_rule(rule: str, statistic: str, path: str, value: Any) -> None:
    assert rule in names(changed(RECIPES[statistic], path, value))


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("randomizer-parameters", "randomizer.scale", 3),
        ("randomizer-parameters", "randomizer.flips", 3),
        ("claim-parameters", "privacy.epsilon0", UNBOUNDED),
        ("claim-cap", "privacy.epsilon.both_aggregators_with_relay", UNBOUNDED),
    ],
)
def test_local_randomizers_have_nothing_of_noise_shares(rule: str, path: str, value: Any) -> None:
    assert rule in names(changed(KIT.recipe(), path, value), KIT.policy)


def test_too_little_noise_for_any_claim_is_said_so() -> None:
    recipe = changed(RECIPES["sum"], "randomizer.flips", 1)
    with pytest.raises(Refusal, match="gives no epsilon"):
        claim_of(recipe)
    assert "claim-understated" in names(recipe)


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ({"kind": "number", "low": 5, "high": 5}, "low must be below `high`"),
        ({"kind": "number", "low": 0, "high": 10, "unit": 3}, "unit must divide"),
        ({"kind": "vector", "length": 2, "low": 1, "high": 5, "norm": 3}, "low must be at most 0"),
        ({"kind": "vector", "length": 0, "low": 0, "high": 5, "norm": 3}, "length"),
        ({"kind": "vector", "length": 2, "low": 0, "high": 5}, "norm"),
    ],
)
def test_malformed_encoders_are_refused_in_one_line(encoder: dict[str, Any], words: str) -> None:
    body = RECIPES["sum"].body()
    body["question"]["encoder"] = encoder
    with pytest.raises(DecodeError, match=words):
        Recipe.from_body(body)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"question": QUESTIONS["sum"], "randomizer": "krr"}, "needs flips"),
        ({"question": QUESTIONS["sum"], "min_batch_size": 2}, "more devices"),
        ({"question": question("sum", kind="number", low=0, high=10**9)}, "coarser"),
        ({"question": VISITS, "randomizer": "coin"}, "is not known"),
    ],
)
def test_a_proposal_that_cannot_be_made_is_a_usage_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        KIT.recipe(**options)


def test_a_policy_may_cap_what_half_a_batch_costs_where_the_relay_helps_the_aggregator() -> None:
    capped = PERMISSIVE.model_copy(update={"max_epsilon_half_batch_with_relay": "0.9"})
    assert names(RECIPES["sum"], capped) == ["claim-half-batch"]
    assert names(RECIPES["sum"], capped.model_copy(update={"max_epsilon_half_batch_with_relay": "1.01"})) == []


def test_a_release_of_a_mean_is_a_mean_and_says_what_is_not_guaranteed() -> None:
    recipe = RECIPES["mean"]
    spec, n = recipe.randomizer, 250
    noise = n * (spec.flips or 0) // 2
    counted = AggregateResult(n, Interval(recipe.interval.start // 60, 1), (noise + (spec.scale or 0) * 12 * n,))
    document = collector_side(recipe.model).release(recipe, "batch", 0, counted, 0.0)
    (row,) = document["buckets"]
    assert (row["label"], document["statistic"]) == ("mean", "mean")
    assert row["estimate"] == pytest.approx(-50 + 5 * 12)
    assert document["privacy"]["by_adversary"]["both_aggregators"] == UNBOUNDED
    assert document["privacy"]["epsilon0"] == UNBOUNDED
    json.dumps(document, allow_nan=False)
    with pytest.raises(Refusal, match="counts must hold"):
        collector_side(recipe.model).release(recipe, "batch", 0, dataclasses.replace(counted, values=(10**12,)), 0.0)


def test_noise_of_the_aggregators_counts_once_beside_that_of_the_devices() -> None:
    recipe = KIT.recipe(question=QUESTIONS["sum"], aggregator_flips=100_000)
    spec, size = recipe.randomizer, recipe.batch.min_batch_size
    assert names(recipe) == []
    assert Recipe.decode(recipe.encode()) == recipe
    exact = epsilon_noise(size * (spec.flips or 0) + 100_000, 120, 1e-6)
    assert claim_of(recipe)["aggregator_with_relay"] == exact
    assert exact < claim_of(RECIPES["sum"])["aggregator_with_relay"]
    assert "claim-understated" in names(changed(recipe, "aggregator_noise.flips", 50_000))
    assert "randomizer-parameters" in names(changed(recipe, "aggregator_noise.flips", 99_999))
    assert "randomizer-parameters" in names(changed(recipe, "aggregator_noise.flips", 1 << 21))
    assert "randomizer-parameters" in names(changed(KIT.recipe(), "aggregator_noise", {"flips": 2}))


@pytest.mark.false_alarm(2e-6, "a normal and a chi-square beyond five deviations")
@pytest.mark.parametrize("vdaf", [Prio3Sum(2, 7), Prio3SumVec(2, 3, 7, 2)])
def test_an_aggregator_adds_centred_flips_to_every_number_of_its_share(vdaf: Any) -> None:
    """Mean and variance of 2,000 draws, up to five standard deviations each."""
    task = dataclasses.replace(make_task_kit(vdaf).task, aggregator_flips=100)
    share = [vdaf.field.MODULUS - 1] * vdaf.flp.OUTPUT_LEN
    encoded, entropy = vdaf.encode_agg_share(share), SeededEntropy(4)
    drawn = []
    for _ in range(2_000):
        noisy = vdaf.decode_agg_share(noisy_share(task, encoded, entropy))
        moved = [(a - b) % vdaf.field.MODULUS for a, b in zip(noisy, share, strict=True)]
        drawn += [value - vdaf.field.MODULUS if value > 50 else value for value in moved]
    spread = sum(value * value for value in drawn) / len(drawn)
    assert abs(sum(drawn) / len(drawn)) < 5 * 5 / math.sqrt(len(drawn))
    assert abs(spread - 25) < 5 * 25 * math.sqrt(2 / len(drawn))
    assert noisy_share(dataclasses.replace(task, aggregator_flips=0), encoded, entropy) == encoded


def test_numeric_questions_have_no_buckets() -> None:
    with pytest.raises(DecodeError, match="statistic"):
        Recipe.from_body({**RECIPES["sum"].body(), "question": {**VISITS.canonical(), "statistic": "median"}})
    assert isinstance(VISITS.encoder, Buckets)
