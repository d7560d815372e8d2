"""One bit of a number beyond what every method keeps: importance sampling, means, and claims by an oracle of their own.

Everything is exact: outcomes are gone through, nothing is drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest

from infra.lab.kit.recipes import RecipeKit
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import MEAN, SUM, Shape
from tacit.methods.estimators.one_bit import OneBitEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.one_bit import OneBit
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.operations.design import decide_way, ways_of
from tacit.operations.drafting import choose_local_method
from tacit.recipe.context import Context, Stage
from tacit.recipe.policy import Policy
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.rules.table import check

RARE = [SampleDesign(0.5, 1, 0.25), SampleDesign(0.5, 1, 0.25, 0.25)]


def one_chance(value: int, maximum: int, epsilon0: float) -> float:
    """The chance of a reported 1 by the definition: rounded up or down, then kept or turned."""
    keep = math.exp(epsilon0) / (math.exp(epsilon0) + 1)
    return value / maximum * keep + (1 - value / maximum) * (1 - keep)


def sent(value: int, maximum: int, epsilon0: float, neutral: int, design: SampleDesign) -> list[float]:
    """The chances that a device sends a 0, a 1, or nothing."""
    rate = design.rate_of(value)
    dummy = (1 - rate) * design.dummy_probability
    one = rate * one_chance(value, maximum, epsilon0) + dummy * one_chance(neutral, maximum, epsilon0)
    return [rate + dummy - one, one, 1 - rate - dummy]


@pytest.mark.parametrize("design", RARE, ids=["rare", "rare and dummies"])
@pytest.mark.parametrize("held", [(0, 1, 3), (1, 1, 2), (3, 3, 0)])
def test_a_sum_with_unequal_rates_is_unbiased_and_errs_as_it_says(held: Sequence[int], design: SampleDesign) -> None:
    method = planner_of(OneBit).tuned(Shape(SUM, 1, low=-1, high=2), Decimal(1), 3, 1e-6)
    assert method.neutral == 1
    estimator = OneBitEstimator(method)
    truth = float(sum(value - 1 for value in held))
    mean = second = 0.0
    for outcome in itertools.product(range(3), repeat=len(held)):
        chance = math.prod(sent(value, 3, 1.0, 1, design)[own] for value, own in zip(held, outcome, strict=True))
        reports = sum(own != 2 for own in outcome)
        value = estimator.estimate([sum(own == 1 for own in outcome)], reports, design).values[0] if reports else 0.0
        mean, second = mean + chance * value, second + chance * value * value
    assert mean == pytest.approx(truth, abs=1e-9)
    squares = [float(sum((value - 1) ** 2 for value in held))]
    holders = sum(value == 1 for value in held)
    expected = estimator.expected_stderrs([truth], len(held), design, squares, holders)
    assert expected == pytest.approx((math.sqrt(second - mean * mean),))
    assert estimator.expected_stderrs([truth], len(held), design, None, holders)[0] >= expected[0]


@pytest.mark.parametrize("values", [(5,) * 40, (0,) * 20 + (10,) * 20, tuple(range(11)) * 4])
def test_a_mean_of_everybody_is_unbiased_and_its_error_never_too_small(values: Sequence[int]) -> None:
    method = planner_of(OneBit).tuned(Shape(MEAN, 1, low=-5, high=5), Decimal(2), len(values), 1e-6)
    law = np.ones(1)
    for value in values:
        chance = one_chance(value, 10, 2.0)
        law = np.convolve(law, [1 - chance, chance])
    design = SampleDesign(1.0)
    found = np.array([estimator_of(method).estimate([ones], len(values), design).values[0] for ones in range(len(law))])
    mean = float(np.mean(values)) - 5
    assert law @ found == pytest.approx(mean)
    deviation = math.sqrt(law @ found**2 - (law @ found) ** 2)
    squares = [float(sum((value - 5) ** 2 for value in values))]
    assert estimator_of(method).expected_stderrs([mean], len(values), design, squares) == pytest.approx((deviation,))
    (usual,) = estimator_of(method).expected_stderrs([mean], len(values), design)
    assert deviation <= usual * (1 + 1e-12)


@pytest.mark.parametrize("others", [(0,) * 59, (10,) * 59, (5,) * 59, tuple(range(11)) * 5 + (3,) * 4])
def test_the_claim_of_a_sum_holds_whatever_numbers_the_others_have(others: Sequence[int]) -> None:
    """An oracle that knows nothing of ``rr``: the laws of the sum, convolved, and their hockey stick."""
    method, delta = planner_of(OneBit).tuned(Shape(MEAN, 1, high=10), Decimal(2), 60, 1e-6), 1e-4
    epsilon = method.aggregate_epsilon(60, delta)
    assert 0 < epsilon < 2
    law = np.ones(1)
    for value in others:
        law = np.convolve(law, [1 - one_chance(value, 10, 2.0), one_chance(value, 10, 2.0)])
    laws = [np.convolve(law, [1 - one_chance(own, 10, 2.0), one_chance(own, 10, 2.0)]) for own in (0, 4, 10)]
    for one, other in itertools.permutations(laws, 2):
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= delta * (1 + 1e-9)


def test_the_default_policy_takes_a_mean_with_a_local_guarantee_and_shows_its_margin_beside_noise_shares() -> None:
    survey = Survey.from_body(
        {
            "name": "starts", "metric": "m", "population": 1000, "statistic": "mean", "start": 2_000_000_040,
            "encoder": {"kind": "number", "low": 0, "high": 10}, "duration": 3600, "epoch": 1, "slot": 0,
        }
    )  # fmt: skip
    margins = {way.randomizer: way.stderr for way in ways_of(survey, Policy()).found if way.form == survey.model}
    assert margins[Flips.NAME] < margins[OneBit.NAME] < 1
    recipe = propose(decide_way(survey, Policy()), RecipeKit().parties())
    assert (recipe.randomizer.name, recipe.privacy.mechanism) == (OneBit.NAME, "rr-exact+sampling")
    assert recipe.vdaf is not None
    assert recipe.vdaf.name == "Prio3Count"
    assert check(recipe, Policy(), Context(Stage.DRAFT, 1e9)) == []
    assert choose_local_method(survey, Policy()).randomizer == OneBit.NAME
    assert choose_local_method(survey, Policy(allow_unbounded_local=True)) == survey
    allowed = decide_way(survey, Policy(allow_unbounded_local=True))
    assert propose(allowed, RecipeKit().parties()).randomizer.name == Flips.NAME


def test_where_only_noise_shares_fit_the_refusal_names_the_local_guarantee_and_no_batch() -> None:
    survey = Survey.from_body(
        {"population": 1000, "statistic": "mean", "encoder": {"kind": "number", "low": 0, "high": 10}}
    )
    ways = ways_of(survey, Policy(max_epsilon_local="0.5"))
    assert {way.randomizer for way in ways.found if way.unguarded} == {Flips.NAME}
    assert ways.used is None
    assert ways.refusal is not None
    assert ways.refusal.rule == "no-local-guarantee"
    assert "only noise shares (flips) can answer this" in ways.refusal.detail
    assert "batch" not in ways.refusal.detail
    both = ways_of(survey, Policy(max_epsilon_local="0.5", min_batch_size=2000))
    assert both.refusal is not None
    assert "is below the 2000 in which policy lets devices hide one another" in both.refusal.detail


def test_what_does_not_fit_is_refused_in_words() -> None:
    shape = Shape(SUM, 1, low=1, high=4)
    stated = {"epsilon0": Decimal(1), "categories": 2, "maximum": 3}
    with pytest.raises(ValueError, match="categories must be 2"):
        OneBit.of(shape, {**stated, "categories": 3})
    assert "values up to 3, but the randomizer states 4" in str(OneBit.mismatch(shape, {**stated, "maximum": 4}))
    method = OneBit.of(shape, stated)
    with pytest.raises(ValueError, match="an answer must be from 0 to 3"):
        device_randomiser_of(method).randomise(4, bytes)
    with pytest.raises(ValueError, match="must stand for 0"):
        estimator_of(method).estimate([1], 2, SampleDesign(0.5, 0, 0.25))
    with pytest.raises(ValueError, match="importance sampling is not possible for a mean"):
        estimator_of(OneBit.of(Shape(MEAN, 1, high=3), stated)).estimate([1], 2, SampleDesign(0.5, 0, 0.25))
