"""Dummies with a bounded weight: exactly the conditional distribution, in a number of draws that nothing decides."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy.stats import chisquare

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.errors import Refusal
from tacit.methods.base.draws import ONE, keep_threshold
from tacit.methods.bounded import DRAW_BITS, DRAW_BYTES, bounded_bits, weight_thresholds
from tacit.methods.randomisers.unary import RapporRandomiser
from tacit.methods.rappor import Rappor
from tacit.ports import Entropy
from tacit.recipe.context import Context, Stage
from tacit.rules import table as rules

KIT = RecipeKit()
ALPHA = 1e-6
"""False alarms per statistical test."""


class Metered:
    """Randomness of which there is only so much."""

    def __init__(self, entropy: Entropy, most: int) -> None:
        self._entropy = entropy
        self.left = most

    def __call__(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise AssertionError("more was drawn than the parameters allow")
        return self._entropy(size)


@pytest.mark.parametrize(
    ("categories", "epsilon0", "max_weight"), [(1000, "1", 1), (1000, "0.000001", 400), (2, "1", 1)]
)
def test_a_dummy_takes_a_number_of_draws_that_its_parameters_say(
    categories: int, epsilon0: str, max_weight: int
) -> None:
    rappor = Rappor(epsilon0, categories, max_weight)  # type: ignore[arg-type]
    for seed in range(20):
        entropy = Metered(SeededEntropy(seed), DRAW_BYTES * (max_weight + 1))
        bits = RapporRandomiser(rappor).dummy(entropy)
        assert (len(bits), entropy.left) == (categories, 0)
        assert sum(bits) <= max_weight


@pytest.mark.parametrize(("trials", "most"), [(2, 1), (5, 0), (5, 3), (12, 12), (16, 2), (60, 7)])
@pytest.mark.parametrize("epsilon", ["0.000001", "0.5", "3", "20"])
def test_the_weight_has_its_exact_conditional_distribution(trials: int, most: int, epsilon: str) -> None:
    from decimal import Decimal

    keep = keep_threshold(Decimal(epsilon), 1)
    one = Fraction(ONE - keep, ONE)
    law = [math.comb(trials, j) * one**j * (1 - one) ** (trials - j) for j in range(most + 1)]
    total = sum(law)
    thresholds = weight_thresholds(trials, keep, most)
    assert len(thresholds) == most
    for weight, threshold in enumerate(thresholds):
        exact = sum(law[: weight + 1]) / total
        assert 0 <= exact - Fraction(threshold, 1 << DRAW_BITS) < Fraction(1, 1 << (DRAW_BITS - 1))


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_every_vector_of_a_weight_is_equally_likely() -> None:
    keep, entropy = keep_threshold(Rappor("1", 5, 3).epsilon0, 1), SeededEntropy(b"places")  # type: ignore[arg-type]
    drawn = Counter(tuple(bounded_bits(5, keep, 3, entropy)) for _ in range(20_000))
    one = float(Fraction(ONE - keep, ONE))
    law = {}
    for number in range(32):
        bits = tuple(number >> place & 1 for place in range(5))
        if sum(bits) <= 3:
            law[bits] = one ** sum(bits) * (1 - one) ** (5 - sum(bits))
    total = sum(law.values())
    assert set(drawn) == set(law)
    expected = [20_000 * chance / total for chance in law.values()]
    assert chisquare([drawn[bits] for bits in law], expected).pvalue > ALPHA


@pytest.mark.parametrize(("categories", "epsilon0"), [(16, "2"), (100, "0.5"), (1000, "1"), (1000, "0.000001")])
def test_a_bound_that_keeps_back_most_answers_is_refused_and_the_one_that_the_refusal_names_passes(
    categories: int, epsilon0: str
) -> None:
    spec = {"name": "rappor", "categories": categories, "epsilon0": epsilon0, "max_weight": 1}

    def refusals(weight: int) -> list[Refusal]:
        recipe = changed(KIT.recipe(), "randomizer", {**spec, "max_weight": weight})
        return rules.check(recipe, KIT.policy, Context(Stage.DRAFT, NOW), only={"rejection-too-likely"})

    (refusal,) = refusals(1)
    fitting = int(refusal.detail.rpartition(" ")[2])
    assert refusals(fitting) == []
    assert refusals(fitting - 1) != []
    assert Rappor(epsilon0, categories, fitting).reject_probability <= 0.5  # type: ignore[arg-type]
