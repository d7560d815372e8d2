"""Where a training run is: its models follow from the plan, the log and the releases alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.errors import UsageError
from tacit.learning import model_file
from tacit.learning.plan import FedAdamPlan, FedAvgPlan, Plan, ServerOptimiser
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.operations.learning.plans import planned_series
from tacit.operations.learning.rounds import NextRound, next_round, run_of
from tacit.operations.series_rounds import Asked
from tacit.recipe.asking import asked_until
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.training import read_round_model
from tacit.rules.table import check

KIT = RecipeKit()
START = NOW // 60 * 60
TINY: Mapping[str, Any] = {
    "name": "strokes",
    "metric": "strokes",
    "text": "What do your strokes teach?",
    "training": {
        "architecture": {"kind": "two-layer", "inputs": 2, "hidden": 3, "classes": 2},
        "steps": 2,
        "learning_rate": "0.5",
    },
    "clip": "0.5",
    "unit": "0.1",
    "server": {"kind": "fedadam", "learning_rate": "0.1"},
    "seed": 7,
    "devices": 4_000,
    "rate": "0.5",
    "min_batch_size": 1_500,
    "rounds": 3,
    "round_seconds": 3_600,
    "release_seconds": 1_200,
    "epsilon": 4,
    "delta": "0.000001",
}
PLAN = Plan.model_validate(TINY)


@functools.cache
def series_of(plan: Plan = PLAN) -> Series:
    token = KIT.recipe().token
    return planned_series(plan, KIT.parties(), START, token, per_epoch=4)


def released(recipe: Recipe, seed: int, reports: int = 2_000, **changes: Any) -> dict[str, Any]:
    """A release with random sums."""
    method = randomizer_of(recipe)
    assert isinstance(method, Flips)
    random = np.random.default_rng(seed)
    counts = [round(reports * method.largest / 2 + one) for one in random.normal(0, 300, method.cells)]
    found = estimator_of(method).estimate(counts, reports, design_of(recipe)).values
    pairs = zip(encoder_of(recipe.question).labels, counts, found, strict=True)
    buckets = [{"label": label, "count": count, "estimate": value} for label, count, value in pairs]
    return {"recipe_hash": recipe.hash_text, "report_count": reports, "buckets": buckets, **changes}


def begin(plan: Plan, index: int) -> float:
    return float(START + index * plan.period)


def following(plan: Plan, rounds: Sequence[Asked], index: int, **options: Any) -> NextRound:
    run = run_of(plan, series_of(plan), rounds)
    found = next_round(plan, series_of(plan), run, begin(plan, index), **options)
    assert found is not None
    return found


@functools.cache
def followed(plan: Plan) -> tuple[list[Asked], list[bytes]]:
    """All rounds of a run, taken up anew after every stage, and its models, the result last."""
    rounds, models = list[Asked](), list[bytes]()
    for index in range(plan.rounds):
        found = following(plan, rounds, index)
        assert following(plan, rounds, index) == found, "nothing but the plan, the log and the releases says what it is"
        models.append(found.model)
        rounds.append((found.recipe, ()))
        waiting = run_of(plan, series_of(plan), rounds)
        assert waiting.waits_for == index
        assert next_round(plan, series_of(plan), waiting, begin(plan, index + 1)) is None
        rounds[-1] = (found.recipe, (released(found.recipe, index),))
    return rounds, [*models, run_of(plan, series_of(plan), rounds).model]


@functools.cache
def trained_rounds() -> list[Asked]:
    """The rounds of the plan, with their releases."""
    return followed(PLAN)[0]


@functools.cache
def trained_models() -> list[bytes]:
    """The models of the plan's rounds, and the result."""
    return followed(PLAN)[1]


def test_a_run_that_sends_projections_is_taken_up_after_any_stage_too() -> None:
    plan = Plan.model_validate({**TINY, "training": {**TINY["training"], "projection": {"entries": 6}}})
    rounds, models = followed(plan)
    assert len(set(models)) == plan.rounds + 1
    assert encoder_of(rounds[0][0].question).labels == tuple(map(str, range(6)))


def test_a_run_whose_clip_follows_the_updates_is_taken_up_after_any_stage_too() -> None:
    changed = {"training": {**TINY["training"], "quantile": {"weight": "0.2"}}, "adaptive": {"target": "0.9"}}
    plan = Plan.model_validate({**TINY, **changed})
    rounds, _ = followed(plan)
    clips = [read_round_model(one.question.round_input or "", plan.training).clip for one, _ in rounds]
    assert clips[0] == "0.5"
    assert len(set(clips)) == plan.rounds
    assert [one.clip for one in run_of(plan, series_of(plan), rounds).rounds] == clips


def test_a_run_that_is_taken_up_after_any_stage_has_the_same_models() -> None:
    assert len(set(trained_models())) == PLAN.rounds + 1
    for count in range(PLAN.rounds + 1):
        run = run_of(PLAN, series_of(), trained_rounds()[:count])
        assert [one.model for one in run.rounds] == trained_models()[:count]
        assert run.model == trained_models()[count]
    over = run_of(PLAN, series_of(), trained_rounds())
    assert (over.following, over.waits_for) == (None, None)
    assert next_round(PLAN, series_of(), over, begin(PLAN, 3)) is None
    assert [one.contributions for one in over.rounds] == [2_000] * 3


def test_every_round_is_a_valid_recipe_that_names_its_model_and_ends_before_the_next_begins() -> None:
    policy = KIT.policy.model_copy(update={"allow_unbounded_local": True})
    for index, (recipe, _) in enumerate(trained_rounds()):
        assert series_of().mismatch(recipe) is None
        assert check(recipe, policy, Context(Stage.PUBLISH, NOW), only={"round-model"}) == []
        stated = read_round_model(recipe.question.round_input or "", PLAN.training)
        assert stated.model == model_file.name_of(trained_models()[index])
        assert stated.clip == "0.5"
        assert recipe.interval.end + PLAN.release_seconds == begin(PLAN, index + 1)


def test_the_mean_update_is_the_sum_over_those_who_took_part_divided_by_their_number_times_the_clip() -> None:
    plan = Plan.model_validate({**TINY, "server": {"kind": "fedavg", "learning_rate": 1}})
    first, reports = following(plan, (), 0), 2_000
    method = randomizer_of(first.recipe)
    assert isinstance(method, Flips)
    steps = [100 * (at - 8) for at in range(method.cells)]
    counts = [method.scale * (one + reports * 10) + reports * method.flips // 2 for one in steps]
    values = estimator_of(method).estimate(counts, reports, design_of(first.recipe)).values
    pairs = zip(encoder_of(first.recipe.question).labels, values, strict=True)
    everyone = [{"label": label, "estimate": value} for label, value in reversed(list(pairs))]
    found = released(first.recipe, 0, reports, buckets=everyone)
    after = run_of(plan, series_of(plan), [(first.recipe, (found,))])
    change = model_file.decode(after.model) - model_file.decode(first.model)
    assert change == pytest.approx([0.5 * 0.1 * one / reports for one in steps], rel=1e-4, abs=1e-7)


def test_entries_that_a_release_leaves_out_are_0_and_batches_are_added() -> None:
    plan = Plan.model_validate({**TINY, "server": {"kind": "fedavg", "learning_rate": 1}})
    first = following(plan, (), 0)
    listed = [{"label": "3", "count": 0, "estimate": 40.0}]
    rest = len(encoder_of(first.recipe.question).labels) - 1
    one = released(first.recipe, 0, buckets=listed, report_count=1_500, unlisted={"answers": rest, "estimate": 0.0})
    after = run_of(plan, series_of(plan), [(first.recipe, (one, {**one, "batch_id": "B"}))])
    change = model_file.decode(after.model) - model_file.decode(first.model)
    assert np.flatnonzero(change).tolist() == [3]
    assert change[3] == pytest.approx(0.5 * 40 * 0.5 * 2 / 3_000)
    assert after.rounds[0].contributions == 3_000


def test_a_round_without_a_release_is_passed_over_and_the_run_stays_the_same_for_everybody() -> None:
    rounds: list[Asked] = [trained_rounds()[0], (trained_rounds()[1][0], ())]
    found = following(PLAN, rounds, 2, is_passed_over=True)
    assert found.model == trained_models()[1]
    late = [trained_rounds()[0], trained_rounds()[1], (found.recipe, ())]
    assert run_of(PLAN, series_of(), late).model == trained_models()[1], (
        "a release that comes later is not used any more"
    )
    last = (found.recipe, (released(found.recipe, 2),))
    skipped = run_of(PLAN, series_of(), [*rounds, last])
    assert run_of(PLAN, series_of(), [*late[:2], last]).model == skipped.model


@pytest.mark.parametrize("server", [PLAN.server, FedAdamPlan(kind="fedadam", learning_rate="0.1")])
def test_a_run_goes_on_from_what_rounds_led_to_without_their_releases_as_with_all_of_them(
    server: ServerOptimiser,
) -> None:
    plan = PLAN.model_copy(update={"server": server})
    rounds = followed(plan)[0]
    over = following(plan, [rounds[0], (rounds[1][0], ())], 2, is_passed_over=True).recipe
    for all_of_them in (rounds, [*rounds[:2], (over, (released(over, 2),))]):
        recipes, before = [recipe for recipe, _ in all_of_them], None
        for count in range(1, len(recipes) + 1):
            whole = run_of(plan, series_of(plan), all_of_them[:count])
            newest = [(recipe, ()) for recipe in recipes[: max(0, count - 2)]] + all_of_them[max(0, count - 2) : count]
            found = run_of(plan, series_of(plan), newest, None, before)
            assert (found.model, found.following, found.waits_for) == (whole.model, whole.following, whole.waits_for)
            assert (found.rounds[-1], found.clip) == (whole.rounds[-1], whole.clip)
            before = found.before
            assert (before.leads_to(recipes[:count]), before.leads_to(recipes[: count - 1])) == (True, False)
            assert before.hashes == tuple(one.hash_text for one in recipes[: count - 1])
            assert not before.leads_to([*reversed(recipes[:count])]) or count == 1
            assert {one.model for one in before.trained} <= {b""}


def test_a_window_that_was_missed_is_left_out_and_after_the_last_there_is_none() -> None:
    interval = PLAN.interval(START, 1)
    run = run_of(PLAN, series_of(), trained_rounds()[:1])
    found = next_round(PLAN, series_of(), run, asked_until(interval))
    assert found is not None
    assert found.recipe.series is not None
    assert found.recipe.series.index == 2
    assert found.model == trained_models()[1]
    assert run_of(PLAN, series_of(), [trained_rounds()[0], (found.recipe, ())]).following is None
    with pytest.raises(UsageError, match="begin a new series"):
        next_round(PLAN, series_of(), run, begin(PLAN, 3))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe_hash": "x" * 43}, "a release is not of strokes-0"),
        ({"report_count": 0}, "has no contributions"),
        ({"buckets": []}, "does not have the 17 numbers"),
        ({"buckets": [{"label": str(at + 1), "estimate": 1.0} for at in range(17)]}, "does not have the 17 numbers"),
        ({"buckets": [{"label": str(at), "estimate": float("inf")} for at in range(17)]}, "does not have the 17"),
        ({"buckets": [{"label": "0", "estimate": 1.0}] * 2, "unlisted": {"answers": 16}}, "does not have the 17"),
        ({"buckets": [{"label": str(at), "estimate": 10**400} for at in range(17)]}, "is malformed"),
        ({"buckets": [{"label": str(at), "estimate": "many"} for at in range(17)]}, "is malformed"),
        ({"buckets": [{"label": str(at)} for at in range(17)]}, "is malformed"),
        ({"buckets": [1]}, "is malformed"),
        ({"report_count": None}, "has no contributions"),
        ({"report_count": 1.5}, "has no contributions"),
        ({"report_count": 10**400}, "does not have the 1500 to 4000 contributions"),
        ({"unlisted": 1}, "is malformed"),
    ],
)
def test_a_release_of_another_recipe_and_one_without_its_numbers_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    recipe = trained_rounds()[0][0]
    with pytest.raises(UsageError, match=said):
        run_of(PLAN, series_of(), [(recipe, (released(recipe, 0, **changes),))])


def test_a_release_that_comes_twice_is_refused_and_the_order_of_others_changes_nothing() -> None:
    recipe, documents = trained_rounds()[0]
    other = released(recipe, 99, reports=1_800)
    with pytest.raises(UsageError, match="a release of strokes-0 comes twice"):
        run_of(PLAN, series_of(), [(recipe, (*documents, other, *documents))])
    orders = [run_of(PLAN, series_of(), [(recipe, found)]) for found in ((*documents, other), (other, *documents))]
    assert orders[0] == orders[1]


def test_releases_that_lead_to_no_finite_model_say_what_to_do() -> None:
    server = FedAvgPlan.model_construct(kind="fedavg", learning_rate=10**60, momentum=None)
    plan = PLAN.model_copy(update={"server": server})
    with pytest.raises(UsageError, match="give the plan lower learning rates and another name"):
        run_of(plan, series_of(), trained_rounds()[:1])


@pytest.mark.parametrize("proof", ["range", "norm"])
def test_a_release_is_trained_on_only_where_so_many_contributions_can_add_up_to_it(proof: str) -> None:
    plan = Plan.model_validate({**TINY, "proof": proof})
    series, reports = series_of(plan), 1_500
    recipe = following(plan, (), 0).recipe
    method = randomizer_of(recipe)
    assert isinstance(method, Flips)

    def said(counts: Sequence[int], reports: int = reports) -> str:
        found = estimator_of(method).estimate([0] * method.cells, reports, design_of(recipe)).values
        slope = reports / (float(recipe.rate) * method.scale * reports) * float(method.unit)
        values = [value + slope * count for value, count in zip(found, counts, strict=True)]
        buckets = [{"label": str(at), "estimate": value} for at, value in enumerate(values)]
        try:
            run_of(plan, series, [(recipe, (released(recipe, 0, reports, buckets=buckets),))])
        except UsageError as error:
            return str(error)
        return ""

    middle, largest = reports * method.largest // 2, reports * method.largest
    others = [middle] * (method.cells - 1)
    for possible in (0, middle, largest):
        assert said([possible, *others]) == ""
    for beyond in (-1, largest + 1, 2**40, -(2**70)):
        assert "cannot add up to" in said([beyond, *others])
    everywhere = said([largest] * method.cells)
    assert bool(everywhere) == (proof == "norm"), "together they would be longer than so many proved vectors"
    assert "the 1500 to 4000 contributions" in said([middle, *others], 1_499)
    assert "the 1500 to 4000 contributions" in said([middle, *others], 4_001)


def test_a_round_that_trains_another_model_and_a_series_of_another_plan_are_refused() -> None:
    recipe = trained_rounds()[0][0]
    with pytest.raises(UsageError, match="trains another model"):
        run_of(PLAN, series_of(), [(recipe, (released(recipe, 99),)), trained_rounds()[1]])
    with pytest.raises(UsageError, match="clips at"):
        run_of(PLAN.model_copy(update={"clip": "0.25"}), series_of(), trained_rounds()[:1])
    with pytest.raises(UsageError, match="not of this plan: rounds differ"):
        run_of(PLAN.model_copy(update={"rounds": 4}), series_of(), ())
    for epsilon in (3, 5):
        with pytest.raises(UsageError, match="not of this plan: epsilon differ"):
            run_of(PLAN.model_copy(update={"epsilon": Decimal(epsilon)}), series_of(), ())
    with pytest.raises(UsageError, match="is not after round 0"):
        run_of(PLAN, series_of(), [trained_rounds()[0], trained_rounds()[0]])
    with pytest.raises(UsageError, match="is not a round of series"):
        run_of(PLAN, series_of(), [(KIT.recipe(), ())])
