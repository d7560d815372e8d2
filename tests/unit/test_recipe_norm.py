"""Recipes whose devices prove the length of what they add, noise included; older ones, which prove that of values
alone; and policies that want such a proof."""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.devices.additions import NUMBER, addition_of, counted
from infra.lab.devices.noise_shares import randomise_all
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.dp.noisy_length import longest_square
from tacit.errors import FieldError, Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.proof import NormProof
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.operations.outlook import outlook
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, task_configuration, vdaf_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.rules.table import check
from tacit.vdaf.field import Field128
from tacit.vdaf.flp import FlpBBCGGI19, VerifyError
from tacit.vdaf.l2_bound_sum import L2BoundSum, Prio3L2BoundSum
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


def older() -> Recipe:
    """The same as recipes of before stated it: the proof is of the values alone, and the noise stands beside them."""
    flips, values = randomizer_of(PROVED), NormProof.VALUES
    assert isinstance(flips, Flips)
    return changed(PROVED, "vdaf", replace(flips, norm_proof=None).proving_norm(values).proof.members())


OLDER = older()


def names(recipe: Recipe, policy: Policy = STRICT) -> list[str]:
    return [refusal.rule for refusal in check(recipe, policy, DRAFT)]


def test_a_recipe_states_the_bounds_that_follow_from_its_question_and_noise() -> None:
    spec, flips, scale = PROVED.vdaf, PROVED.randomizer.flips or 0, PROVED.randomizer.scale or 0
    assert spec is not None
    assert (spec.name, spec.length, spec.max_measurement, flips % 2) == ("Prio3L2BoundSum", 16, None, 0)
    largest, centre, square = 41 * scale + flips, 20 * scale + flips // 2, longest_square(16, 24 * scale, flips)
    assert spec.vector_members == {
        "max_value": largest, "centre": centre, "max_square": square, "scale": 1, "flips": 0,
    }  # fmt: skip
    assert Recipe.decode(PROVED.encode()) == PROVED
    configuration = task_configuration(PROVED)
    vdaf = vdaf_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)
    assert isinstance(vdaf, Prio3L2BoundSum)
    assert vdaf.bounds == VectorBounds(16, largest, centre, square)


def test_a_proof_of_the_norm_changes_no_noise_and_its_claim_pays_for_what_is_not_sent() -> None:
    assert names(PROVED) == names(PROVED, PERMISSIVE) == names(UNPROVED, PERMISSIVE) == []
    assert PROVED.randomizer == UNPROVED.randomizer
    for name, without in claim_of(UNPROVED).items():
        assert without <= claim_of(PROVED)[name] <= without * 1.003 or math.isinf(without)


def test_an_older_recipe_is_understood_with_the_influence_that_it_gives_and_policies_that_want_a_proof_refuse_it() -> (
    None
):
    assert names(OLDER, PERMISSIVE) == []
    assert claim_of(OLDER) == claim_of(UNPROVED)
    (refusal,) = check(OLDER, STRICT, DRAFT)
    assert refusal.rule == "norm-unproved"
    assert "a device chooses the noise" in refusal.detail
    old, new = randomizer_of(OLDER), randomizer_of(PROVED)
    assert isinstance(old, Flips)
    assert isinstance(new, Flips)
    assert (old.norm_proof, new.norm_proof) == (NormProof.VALUES, NormProof.SUM)
    before, now = FlipsEstimator(old), FlipsEstimator(new)
    assert before.one_vector == pytest.approx((24 * old.scale + 4 * old.flips / 2) / old.scale / 2)
    assert now.one_vector == pytest.approx(math.sqrt(longest_square(16, 24, 1650)) / 2)
    assert before.one_vector > 10 * now.one_vector
    found = [outlook(recipe).shares for recipe in (OLDER, PROVED)]
    assert [one.one_vector for one in found if one] == [before.one_vector, now.one_vector]


def test_policies_that_want_a_proof_refuse_vectors_without_and_nothing_else() -> None:
    assert names(UNPROVED) == ["norm-unproved"]
    assert names(KIT.recipe(question=SUM, randomizer="flips")) == []
    (refusal,) = check(UNPROVED, STRICT, DRAFT)
    assert "Prio3L2BoundSum, not Prio3SumVec" in refusal.detail


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("randomizer-vdaf-mismatch", "vdaf.vector.max_square", 75_867),
        ("randomizer-vdaf-mismatch", "vdaf.vector.max_square", 75_865),
        ("randomizer-vdaf-mismatch", "vdaf.vector.centre", 0),
        ("randomizer-vdaf-mismatch", "vdaf.vector.max_value", 1692),
        ("randomizer-vdaf-mismatch", "vdaf.vector.scale", 2),
        ("randomizer-vdaf-mismatch", "vdaf.vector.flips", 7),
        ("randomizer-parameters", "randomizer.flips", 1651),
        ("randomizer-vdaf-mismatch", "vdaf.length", 15),
        ("randomizer-vdaf-mismatch", "vdaf.max_measurement", 9),
        ("randomizer-vdaf-mismatch", "question.encoder.norm", 11),
        ("norm-unproved", "vdaf.name", "Prio3SumVec"),
        ("vdaf-parameters", "vdaf.chunk_length", 10_000),
        ("vdaf-parameters", "vdaf.vector.centre", 1692),
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


@pytest.mark.parametrize(("recipe", "numbers"), [(PROVED, 16), (OLDER, 32)], ids=["sum", "values"])
def test_devices_send_vectors_whose_sums_both_servers_verify_and_estimate(recipe: Recipe, numbers: int) -> None:
    method, vdaf, draw = randomizer_of(recipe), vdaf_of(recipe), SeededEntropy(b"norm")
    assert isinstance(method, Flips)
    assert isinstance(vdaf, Prio3L2BoundSum)
    encoder = encoder_of(VECTORS)
    answers = [encoder.encode([step / 2] * 16) for step in range(-20, 20)]
    randomiser = device_randomiser_of(method)
    sent = [randomiser.randomise(answer, draw) for answer in answers]
    rows = [row for row in (*sent, randomiser.dummy(draw), randomiser.missing(draw)) if isinstance(row, list)]
    assert len(rows) == 42
    assert all(len(row) == numbers and vdaf.bounds.square(row[:16]) <= vdaf.bounds.max_square for row in rows)
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
    estimate = estimator_of(method).estimate(counts, 42, SampleDesign(1.0))
    answered = [answer for answer in answers if isinstance(answer, tuple)]
    truth = [sum(answer[cell] - 20 for answer in answered) / 2 for cell in range(16)]
    for value, error, true in zip(estimate.values, estimate.stderrs, truth, strict=True):
        assert abs(value - true) < 6 * error


class Boasting(L2BoundSum):
    """Encodes a vector of any length as if it had the largest one allowed."""

    def encode(self, measurement: Sequence[int]) -> list[int]:
        bits = [bit for value in measurement for bit in self.integers.encode(value)]
        return [*bits, *self.square.encode(self.bounds.max_square)]


def test_a_device_that_chooses_its_noise_is_refused_by_both_implementations_or_adds_no_more_than_is_stated() -> None:
    """Noise at its ends in every cell, which older recipes take; one unit beyond the bound; exactly the bound."""
    vdaf, draw = vdaf_of(PROVED), SeededEntropy(b"forged")
    assert isinstance(vdaf, Prio3L2BoundSum)
    bounds, method = vdaf.bounds, randomizer_of(PROVED)
    boasting = Prio3L2BoundSum(2, bounds, vdaf.chunk_length)
    boasting.flp = FlpBBCGGI19(Boasting(Field128, bounds, vdaf.chunk_length))
    ends = [20 + 1650 * (cell % 2) for cell in range(16)]
    root = math.isqrt(bounds.max_square // 16)
    longest = [bounds.centre + root] * 16
    while bounds.square([*longest[:-1], longest[-1] + 1]) <= bounds.max_square:
        longest[-1] += 1
    beyond = [*longest[:-1], longest[-1] + 1]
    for forged in (ends, beyond):
        with pytest.raises(ValueError, match="squared length"):
            vdaf.shard(b"a task", forged, bytes(16), draw(vdaf.RAND_SIZE))
    nonces = [draw(16) for _ in range(3)]
    given = zip([boasting, boasting, vdaf], [ends, beyond, longest], nonces, strict=True)
    made = [maker.shard(b"a task", row, nonce, draw(vdaf.RAND_SIZE)) for maker, row, nonce in given]
    key, verdicts = draw(32), []
    for nonce, (public, shares) in zip(nonces, made, strict=True):
        states, outbound = zip(
            *(vdaf.verify_init(key, b"a task", role, None, nonce, public, share) for role, share in enumerate(shares)),
            strict=True,
        )
        try:
            message = vdaf.verifier_shares_to_message(b"a task", None, outbound)
        except VerifyError:
            verdicts.append(False)
            continue
        sums = vdaf.unshard(None, [vdaf.verify_next(b"a task", state, message) for state in states], 1)
        verdicts.append(sums == longest)
    assert verdicts == [False, False, True]
    publics, leaders, helpers = zip(
        *((vdaf.encode_public_share(public), *map(vdaf.encode_input_share, shares)) for public, shares in made),
        strict=True,
    )
    kernels = BatchVerifier(vdaf, key, b"a task")
    second = kernels.helper(nonces, publics, helpers, kernels.leader(nonces, publics, leaders).outbounds)
    assert [error is None for error in second.errors] == [False, False, True]
    assert isinstance(method, Flips)
    assert math.sqrt(bounds.square(longest)) / method.scale / 2 <= FlipsEstimator(method).one_vector


def all_ones(size: int) -> bytes:
    return b"\xff" * size


def test_a_vector_that_is_too_long_is_sent_as_0_without_noise_and_by_a_fleet_too() -> None:
    method, vdaf = randomizer_of(PROVED), vdaf_of(PROVED)
    assert isinstance(method, Flips)
    assert isinstance(vdaf, Prio3L2BoundSum)
    centre = [vdaf.bounds.centre] * 16
    assert (
        device_randomiser_of(method).randomise((20,) * 16, all_ones)
        == device_randomiser_of(method).dummy(all_ones)
        == centre
    )
    assert randomise_all(method, [(20,) * 16, None], all_ones).tolist() == [centre, centre]
    stream = SeededEntropy(b"usual")(100 * 16 * 207)
    usual = [device_randomiser_of(method).randomise((26,) * 16, draw) for draw in [io.BytesIO(stream).read] * 100]
    assert centre not in usual
    assert randomise_all(method, [(26,) * 16] * 100, io.BytesIO(stream).read).tolist() == usual


def test_a_fleet_draws_what_single_devices_draw_and_counts_values_with_their_noise() -> None:
    method, vdaf = randomizer_of(OLDER), vdaf_of(OLDER)
    assert isinstance(method, Flips)
    answers = [(20,) * 16, tuple(range(12, 28))]
    many, single = SeededEntropy(b"fleet"), SeededEntropy(b"fleet")
    rows = [array(NUMBER, row.tobytes()) for row in randomise_all(method, answers, many)]
    assert all(len(row) == 32 for row in rows)
    assert rows[0][:16].tolist() == [20] * 16
    alone = device_randomiser_of(method).randomise(answers[0], single)
    assert isinstance(alone, list)
    assert len(alone) == 32
    added = addition_of(counted(vdaf, rows[0]), 16)
    assert list(added) == [20 + noise for noise in rows[0][16:]]
