"""Optimised unary encoding: its probabilities, what it gains, and where it is proposed."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from infra.lab.kit.recipes import NOW, VISITS, RecipeKit
from tacit.accounting.alternatives import SAMPLED
from tacit.accounting.planner import alternatives, proposal
from tacit.accounting.requirements import Alternative, Requirements
from tacit.dp.amplification import epsilon_fmt22
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.krr import Krr
from tacit.methods.oue import Oue
from tacit.methods.rappor import Rappor
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of
from tacit.rules.table import check

KIT = RecipeKit()
EVERYBODY = SampleDesign(1.0)
CAPPED = Requirements(200_000, 64, 1.0, 1e-7, max_epsilon0=2.0)


@pytest.mark.parametrize("epsilon0", ["0.01", "1", "4", "12", "40"])
def test_a_half_and_the_least_noise_that_keep_epsilon0(epsilon0: str) -> None:
    own, other = Oue(Decimal(epsilon0), 3, 3).output_probabilities()
    assert own == Fraction(1, 2)
    assert float(other) == pytest.approx(1 / (math.exp(float(epsilon0)) + 1), rel=1e-12)
    told = ((1 - other) / other).numerator / ((1 - other) / other).denominator
    assert math.log(told) <= float(epsilon0) * (1 + 1e-15)


@pytest.mark.parametrize("epsilon0", [1, 2, 4])
def test_a_rare_category_errs_as_the_paper_says_less_than_with_any_other_unary_encoding(epsilon0: int) -> None:
    n, cells = 10_000, 16
    oue, rappor = (kind(Decimal(epsilon0), cells, cells) for kind in (Oue, Rappor))
    (stderr,) = estimator_of(oue).expected_stderrs([0.0], n, EVERYBODY)
    power = math.exp(epsilon0)
    assert stderr == pytest.approx(math.sqrt(n * 4 * power) / (power - 1))
    assert stderr < estimator_of(rappor).expected_stderrs([0.0], n, EVERYBODY)[0]


@pytest.mark.parametrize(("cells", "better"), [(20, Krr), (32, Oue)])
def test_from_three_times_e_to_the_epsilon0_categories_on_it_beats_krr(
    cells: int, better: type[Oue] | type[Krr]
) -> None:
    """At epsilon0 = 2 that is from 3 e^2 + 2, or 25, categories on."""
    krr, oue = Krr(Decimal(2), cells), Oue(Decimal(2), cells, cells)
    errors = {type(one): estimator_of(one).expected_stderrs([0.0], 1000, EVERYBODY)[0] for one in (krr, oue)}
    assert min(errors, key=lambda kind: errors[kind]) is better


def by_name(found: list[Alternative]) -> dict[str, Alternative]:
    return {way.randomizer: way for way in found if way.model == SAMPLED}


def test_it_is_proposed_where_it_is_the_most_accurate() -> None:
    found = alternatives(CAPPED)
    ways, chosen = by_name(found), proposal(found)
    assert chosen.randomizer == Oue.NAME
    assert chosen.stderr < 0.95 * min(ways[name].stderr for name in (Krr.NAME, Rappor.NAME))
    assert proposal(alternatives(dataclasses.replace(CAPPED, cells=8))).randomizer == Krr.NAME


def test_a_recipe_with_it_claims_the_general_bound_and_passes_every_rule_of_a_draft() -> None:
    recipe = KIT.recipe(randomizer=Oue.NAME, population=4000)
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []
    method, size = randomizer_of(recipe), recipe.batch.min_batch_size
    assert isinstance(method, Oue)
    assert method.reject_probability <= 1e-6
    claim = claim_of(recipe)
    assert claim["aggregator_with_relay"] == epsilon_fmt22(float(recipe.epsilon0), size, float(recipe.delta)) <= 1
    assert claim.mechanism == "shuffle-fmt22+sampling"
    assert recipe.question == VISITS
    assert recipe.vdaf is not None
    assert (recipe.vdaf.name, recipe.vdaf.max_weight) == ("Prio3MultihotCountVec", method.max_weight)
