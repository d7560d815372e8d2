"""What a refusal says would pass, as numbers: it does, for every recipe that a rule refuses by a number."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.kit.recipes import NOW, RecipeKit, bad_recipes, changed
from tacit.ledger.account import Charge, ChargeState, Cost
from tacit.operations.checking import check_recipe
from tacit.operations.drafting import refusals_document
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.rules.table import RULES, check

KIT = RecipeKit()
GOOD = KIT.recipe()
BAD = bad_recipes(KIT)
STRICT = KIT.policy.model_copy(
    update={
        "max_epsilon_local": "0.5",
        "max_epsilon_aggregator": "0.01",
        "max_epsilon_half_batch": "0.6",
        "max_sampling_rate": "0.1",
        "max_delta": "0.0000001",
        "min_batch_size": 1_000,
        "max_duration": 60,
        "max_length": 4,
    }
)
BY_NUMBERS = {
    "batch-floor",
    "claim-parameters",
    "claim-mechanism",
    "claim-understated",
    "contributions-below-batch",
    "delta-cap",
    "interval-outside-epoch",
    "interval-unaligned",
    "randomizer-vdaf-mismatch",
    "sampling-rate",
    "slot-key-missing",
}
"""Rules of which a mutation of the good recipe is told how it would pass."""


def context_of(recipe: Recipe) -> Context:
    return Context(Stage.PUBLISH, NOW, leaf=KIT.recipe_leaf(recipe), index=0, directory=KIT.directory())


def applied(recipe: Recipe, way: dict[str, dict[str, Any]]) -> Recipe:
    """The recipe with the members as a way to pass says; a text stays one."""
    for path, bound in way.items():
        at: Any = recipe.body()
        for name in path.split("."):
            at = at.get(name) if isinstance(at, dict) else None
        value = next(bound[name] for name in ("exactly", "at_least", "at_most", "one_of", "above") if name in bound)
        value = value[0] if "one_of" in bound else value + 1 if set(bound) == {"above"} else value
        recipe = changed(recipe, path, str(value) if isinstance(at, str) else value)
    return recipe


def passing(recipe: Recipe, policy: Policy) -> set[str]:
    """The rules that refuse the recipe with numbers, each of whose ways was tried and passes."""
    told = set()
    for one in check_recipe(recipe, policy, context_of(recipe)).document()["rules"]:
        for way in one.get("needed", ()):
            assert not one["passed"]
            assert one["detail"]
            assert json.loads(json.dumps(way)) == way
            better = applied(recipe, way)
            assert check(better, policy, context_of(better), only={one["rule"]}) == [], (one["rule"], way)
            told.add(one["rule"])
    return told


def test_whatever_is_told_to_pass_does() -> None:
    told = set().union(*(passing(recipe, KIT.policy) for _, recipe in BAD))
    assert told >= BY_NUMBERS
    assert told <= {rule.name for rule in RULES}


def test_a_stricter_policy_is_told_in_numbers_too() -> None:
    assert passing(GOOD, STRICT) == {
        "batch-floor",
        "claim-cap",
        "claim-half-batch",
        "delta-cap",
        "interval-too-long",
        "sampling-cap",
    }
    refusals = check(GOOD, STRICT, context_of(GOOD), only={"batch-floor", "population-cap"})
    assert refusals_document(refusals) == [
        {
            "rule": "batch-floor",
            "detail": "B = 200 is below the floor of 1000",
            "needed": [{"batch.min_batch_size": {"at_least": 1000}}],
        }
    ]


@pytest.mark.parametrize(
    ("limit", "member"),
    [
        ({"epsilon": "1.5", "delta": "0.00001"}, "privacy.epsilon.aggregator"),
        ({"epsilon": "100", "delta": "0.0000015"}, "privacy.delta"),
        (
            {"epsilon": "100", "epsilon_with_relay": "2", "delta": "0.00001"},
            "privacy.epsilon.aggregator_with_relay",
        ),
    ],
)
def test_what_is_left_in_an_account_is_a_number(limit: dict[str, str], member: str) -> None:
    policy = KIT.policy.model_copy(
        update={"accounts": {"default": AccountLimit.model_validate({**limit, "window_seconds": 86_400})}}
    )
    cost, span = Cost(Decimal(1), Decimal(GOOD.privacy.delta)), (GOOD.interval.start, GOOD.interval.end)
    earlier = Charge("default", bytes(32), "earlier", *span, cost, ChargeState.ACTIVE, Decimal("1.5"))
    context = dataclasses.replace(context_of(GOOD), charges=(earlier,))
    (one,) = [row for row in check_recipe(GOOD, policy, context).document()["rules"] if row["rule"] == "budget-spent"]
    (way,) = one["needed"]
    assert list(way) == [member]
    better = applied(GOOD, way)
    assert check(better, policy, context, only={"budget-spent"}) == []
