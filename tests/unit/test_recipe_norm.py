"""Recipes whose devices prove the norm of their vectors, and policies that want them to."""

from __future__ import annotations

from array import array
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.devices.additions import NUMBER, addition_of, counted
from infra.lab.devices.noise_shares import randomise_all
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.errors import FieldError, Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.flips import Flips
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, task_configuration, vdaf_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.rules.table import check
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.native.batch import BatchProver, BatchVerifier
from tacit.vdaf.registry import vdaf_from_configuration
from tacit.vdaf.vector_bounds import VectorBounds

KIT = RecipeKit()
DRAFT = Context(Stage.DRAFT, NOW)
PERMISSIVE = KIT.policy.model_copy(update={"allow_unbounded_local": True})
STRICT = PERMISSIVE.model_copy(update={"require_norm_proof": True})


def question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


VECTORS = question("vector-sum", kind="vector", length=16, low=-10, high="10.5", unit="0.5", norm=12)
SUM = question("sum", kind="number", low=0, high=120)
PROVED = KIT.recipe(question=VECTORS, randomizer="flips", proof="norm")
UNPROVED = KIT.recipe(question=VECTORS, randomizer="flips")


def names(recipe: Recipe, policy: Policy = STRICT) -> list[str]:
    return [refusal.rule for refusal in check(recipe, policy, DRAFT)]


def test_a_recipe_states_the_bounds_that_follow_from_its_question_and_noise() -> None:
    spec, flips = PROVED.vdaf, PROVED.randomizer.flips
    assert spec is not None
    assert spec.vector is not None
    assert (spec.name, spec.length, spec.max_measurement) == ("Prio3L2BoundSum", 16, None)
    assert spec.vector_members == {"max_value": 41, "centre": 20, "max_square": 24 * 24, "scale": 1, "flips": flips}
    assert Recipe.decode(PROVED.encode()) == PROVED
    configuration = task_configuration(PROVED)
    vdaf = vdaf_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)
    assert isinstance(vdaf, Prio3L2BoundSum)
    assert vdaf.bounds == VectorBounds(16, 41, 20, 576, 1, flips or 0)


def test_a_proof_of_the_norm_changes_no_noise_and_no_claim() -> None:
    assert names(PROVED) == names(PROVED, PERMISSIVE) == names(UNPROVED, PERMISSIVE) == []
    assert PROVED.randomizer == UNPROVED.randomizer
    assert claim_of(PROVED) == claim_of(UNPROVED)


def test_policies_that_want_a_proof_refuse_vectors_without_and_nothing_else() -> None:
    assert names(UNPROVED) == ["norm-unproved"]
    assert names(KIT.recipe(question=SUM, randomizer="flips")) == []
    (refusal,) = check(UNPROVED, STRICT, DRAFT)
    assert "Prio3L2BoundSum, not Prio3SumVec" in refusal.detail


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("randomizer-vdaf-mismatch", "vdaf.vector.max_square", 577),
        ("randomizer-vdaf-mismatch", "vdaf.vector.centre", 0),
        ("randomizer-vdaf-mismatch", "vdaf.vector.max_value", 42),
        ("randomizer-vdaf-mismatch", "vdaf.vector.scale", 2),
        ("randomizer-vdaf-mismatch", "vdaf.vector.flips", 7),
        ("randomizer-vdaf-mismatch", "vdaf.length", 15),
        ("randomizer-vdaf-mismatch", "vdaf.max_measurement", 9),
        ("randomizer-vdaf-mismatch", "question.encoder.norm", 11),
        ("norm-unproved", "vdaf.name", "Prio3SumVec"),
        ("vdaf-parameters", "vdaf.chunk_length", 10_000),
        ("vdaf-parameters", "vdaf.vector.centre", 42),
    ],
)
def test_other_bounds_are_refused_by_their_rule(rule: str, path: str, value: Any) -> None:
    assert rule in names(changed(PROVED, path, value))


@pytest.mark.parametrize("total", [None, Decimal(4)])
def test_the_rounds_of_a_series_prove_the_norm_as_its_recipe_does(total: Decimal | None) -> None:
    recipe = KIT.recipe(question=VECTORS, randomizer="flips", proof="norm", name="vectors", population=2_000)
    series = propose_series(recipe, Shape(2, None, recipe.interval.start, 3_600, 4), total_epsilon=total)
    assert "norm-unproved" not in names(series.round(0, series.window(0)))
    assert isinstance(vdaf_of(series.probe), Prio3L2BoundSum)


def test_only_vectors_have_a_norm() -> None:
    with pytest.raises(FieldError, match="must be range"):
        KIT.recipe(question=SUM, randomizer="flips", proof="norm")
    sums = KIT.recipe(question=SUM, randomizer="flips")
    body = {"name": "Prio3L2BoundSum", "length": 1, "chunk_length": 1}
    with pytest.raises(Refusal, match="no norm that could be proved"):
        randomizer_of(changed(sums, "vdaf", body))
    with pytest.raises(Refusal, match="no vectors whose norm"):
        randomizer_of(changed(KIT.recipe(), "vdaf", {**body, "length": 3}))
    with pytest.raises(Refusal, match="vector is missing"):
        vdaf_of(changed(PROVED, "vdaf", {**body, "length": 16}))


def test_devices_send_values_and_noises_whose_sums_both_servers_verify_and_estimate() -> None:
    method, vdaf, draw = randomizer_of(PROVED), vdaf_of(PROVED), SeededEntropy(b"norm")
    assert isinstance(method, Flips)
    assert isinstance(vdaf, Prio3L2BoundSum)
    encoder = encoder_of(VECTORS)
    answers = [encoder.encode([step / 2] * 16) for step in range(-20, 20)]
    sent = [method.randomise(answer, draw) for answer in answers]  # type: ignore[arg-type]
    rows = [row for row in (*sent, method.dummy(draw), method.missing(draw)) if isinstance(row, list)]
    assert len(rows) == 42
    assert all(len(row) == 32 and vdaf.bounds.square(row[:16]) <= 576 for row in rows)
    key, ctx = draw(32), b"a task"
    nonces = [draw(16) for _ in rows]
    made = BatchProver(vdaf, ctx).shard(rows, nonces, [draw(vdaf.RAND_SIZE) for _ in rows])
    publics, leaders, helpers = zip(*made, strict=True)
    verifier = BatchVerifier(vdaf, key, ctx)
    first = verifier.leader(nonces, publics, leaders)
    second = verifier.helper(nonces, publics, helpers, first.outbounds)
    assert second.errors == [None] * 42
    shares = [vdaf.decode_agg_share(verifier.aggregate(one.out_shares)) for one in (first, second)]
    counts = vdaf.unshard(None, shares, 42)
    assert counts == [sum(column) for column in zip(*map(vdaf.bounds.summed, rows), strict=True)]
    estimate = method.estimate(counts, 42, SampleDesign(1.0))
    truth = [sum(row[cell] - 20 for row in rows) / 2 for cell in range(16)]
    for value, error, true in zip(estimate.values, estimate.stderrs, truth, strict=True):
        assert abs(value - true) < 6 * error


def test_a_fleet_draws_what_single_devices_draw_and_counts_values_with_their_noise() -> None:
    method, vdaf = randomizer_of(PROVED), vdaf_of(PROVED)
    assert isinstance(method, Flips)
    answers = [(20,) * 16, tuple(range(12, 28))]
    many, single = SeededEntropy(b"fleet"), SeededEntropy(b"fleet")
    rows = [array(NUMBER, row.tobytes()) for row in randomise_all(method, answers, many)]
    assert all(len(row) == 32 for row in rows)
    assert rows[0][:16].tolist() == [20] * 16
    alone = method.randomise(answers[0], single)
    assert isinstance(alone, list)
    assert len(alone) == 32
    added = addition_of(counted(vdaf, rows[0]), 16)
    assert list(added) == [20 + noise for noise in rows[0][16:]]
