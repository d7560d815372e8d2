"""What one dishonest device can do to a result is what it states, and no valid measurement does more."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from infra.views.influence_words import influence_words
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.krr import Krr
from tacit.methods.oue import Oue
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.rr import Rr
from tacit.recipe.derive import randomizer_of

EVERYBODY = SampleDesign(1.0)
DOCS = Path(__file__).parents[2] / "docs"
KIT = RecipeKit()


@pytest.mark.parametrize("epsilon0", ["0.5", "1", "4"])
def test_a_lie_by_a_local_randomizer_counts_as_several_devices_and_moves_as_many_numbers_as_its_proof_allows(
    epsilon0: str,
) -> None:
    krr = Krr(Decimal(epsilon0), 5)
    before, lie = (
        estimator_of(krr).estimate(counts, 20, EVERYBODY).values for counts in ([0, 4, 5, 6, 5], [1, 3, 5, 6, 5])
    )
    p, q = map(float, krr.output_probabilities())
    assert lie[0] - before[0] == pytest.approx(1 / (p - q))
    one = estimator_of(krr).influence
    assert one is not None
    assert one.numbers == 1
    assert one.each == pytest.approx((1 - q) / (p - q)), "what is expected of a truth without the answer is q"
    rr = estimator_of(Rr(Decimal(epsilon0))).influence
    assert rr is not None
    assert rr.each == pytest.approx(math.exp(float(epsilon0)) / (math.exp(float(epsilon0)) - 1))
    oue = estimator_of(Oue(Decimal(epsilon0), 6, 4)).influence
    assert oue is not None
    assert oue.numbers == 4, "its proof lets so many bits be one"


def test_a_lie_by_noise_shares_moves_every_number_of_a_histogram_as_far_as_any_valid_measurement_can() -> None:
    method, others, moved = Flips("histogram", scale=3, flips=4, maximum=1, cells=2), (8, 6), list[list[float]]()
    estimator = FlipsEstimator(method)
    for lie, truth in itertools.product(itertools.product(range(method.largest + 1), repeat=2), ((0, 1), (1, 0))):
        found = estimator.estimate([sum(pair) for pair in zip(others, lie, strict=True)], 3, EVERYBODY).values
        right = [(other + 3 * own + 2 - 3 * 2) / 3 for other, own in zip(others, truth, strict=True)]
        moved.append([abs(one - true) for one, true in zip(found, right, strict=True)])
    assert estimator.influence.numbers == 2
    assert estimator.influence.each == pytest.approx(1 + 4 / 6) == pytest.approx(max(max(one) for one in moved))
    assert [estimator.influence.each] * 2 in [pytest.approx(one) for one in moved], "all of them at once"


def test_documents_say_how_far_a_lie_moves_a_histogram_by_noise_shares_in_a_small_batch() -> None:
    recipe = KIT.recipe(randomizer="flips", min_batch_size=100, population=250)
    found = estimator_of(randomizer_of(recipe)).influence
    assert found is not None
    assert (found.numbers, round(found.each, 1)) == (16, 5.3)
    assert influence_words(recipe) == "move each of the 16 numbers at once by up to 5.333 before the division by q"
    for page in ("privacy.md", "threat_model.md"):
        assert "5.3 at B = 100" in " ".join((DOCS / page).read_text().split())


def test_an_honest_vector_with_its_noise_is_shorter_than_what_one_lie_can_add() -> None:
    method = Flips("vector-sum", 2, 40, 20, 30, low=-10, norm=12).proving_norm()
    bounds, draw = method.proof.vector, SeededEntropy(b"lengths")
    assert bounds is not None
    value = (13, *[10] * 28, 0)
    sent = [device_randomiser_of(method).randomise(value, draw) for _ in range(200)]
    lengths = [math.sqrt(bounds.square(row)) / 2 for row in sent if isinstance(row, list)]
    assert len(lengths) == 200
    estimator = FlipsEstimator(method)
    assert 12 < sum(lengths) / 200 < max(lengths) < estimator.one_vector < 3 * max(lengths)
    assert estimator.influence.length == estimator.one_vector
