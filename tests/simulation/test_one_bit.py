"""A mean and a sum by one bit of each number, from published recipe to release, on a stack as it is by default.

End to end through the whole stack, each released number is the estimator's of the bits that devices sent and lies
within 4.5 of its standard deviations of the truth (false alarm 7e-6 for each). Through sharding and both aggregators'
verification, fifty runs of each: bias, spread and shape as ``tests.kit.statistics`` tests them, and the coverage of
reported errors, which take the least squares that devices can have and so cover a little too much. Over the choice of
seeds each fails with probability at most ``2 ALPHA``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.one_bit import OneBit
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.derive import randomizer_of, vdaf_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question, Recipe
from tacit.vdaf.prio3 import Prio3Count
from tests.kit.simulation import Simulation, assert_released_as_sent
from tests.kit.statistics import NORMAL_95, normality, z_scores
from tests.simulation.test_breadth import lived
from tests.simulation.test_statistics import aggregate_with

ALPHA = 1e-4
DEVICES = 24
RUNS = 50
KIT = RecipeKit(b"one bit")


def asked(statistic: str, **encoder: Any) -> Question:
    body = {"text": "?", "metric": "start", "encoder": {"kind": "number", **encoder}, "statistic": statistic}
    return Question.model_validate(body)


STARTS = asked("mean", low=0, high=10, unit="0.5")
CHANGES = asked("sum", low=-20, high=20)


async def test_a_mean_is_published_answered_collected_and_released_on_a_stack_with_local_guarantees(
    new_simulation: Callable[..., Simulation],
) -> None:
    simulation = new_simulation(seed=41)
    recipe = simulation.recipe(
        name="start", question=STARTS, population=DEVICES, min_batch_size=16, randomizer=OneBit.NAME
    )
    assert isinstance(vdaf_of(recipe), Prio3Count)
    held = [str(7 * n % 13 / 2 + 1) for n in range(DEVICES)]
    truth = sum(min(float(one), 10) for one in held) / DEVICES
    async with lived(simulation, [recipe], [{"start": one} for one in held]):
        result = await assert_released_as_sent(simulation, recipe, [truth])
    assert result["report_count"] == DEVICES
    assert (result["statistic"], [row["label"] for row in result["buckets"]]) == ("mean", ["mean"])
    for claims in (result["privacy"], result["privacy_of_batch"]):
        assert claims["by_adversary"]["both_aggregators_with_relay"] == float(recipe.privacy.epsilon0 or 0)


@pytest.mark.slow
async def test_a_sum_of_those_whom_the_coin_chose_counts_devices_without_a_number_as_zero(
    new_simulation: Callable[..., Simulation],
) -> None:
    simulation = new_simulation(seed=42)
    recipe = simulation.recipe(
        name="changes", question=CHANGES, population=60, rate=Decimal("0.5"), min_batch_size=10,
        randomizer=OneBit.NAME,
    )  # fmt: skip
    held = ["none" if n % 10 == 0 else str(n % 31 - 5) for n in range(60)]
    truth = sum(min(int(one), 20) for one in held if one != "none")
    async with lived(simulation, [recipe], [{"start": one} for one in held]):
        result = await assert_released_as_sent(simulation, recipe, [truth])
    assert 12 < result["report_count"] < 48
    assert result["privacy"]["mechanism"] == "rr-exact"


CASES: dict[str, tuple[Question, list[Any]]] = {
    "mean": (STARTS, [0, "2.25", 3, 7, 12] * 60),
    "sum": (CHANGES, [-20, -7, 0, 11, 40] * 60),
}


@pytest.mark.slow
@pytest.mark.false_alarm(2 * ALPHA, "three tests, corrected, and the coverage beyond four deviations", runs=10)
@pytest.mark.parametrize("statistic", CASES)
def test_fifty_runs_through_sharding_and_verification_miss_as_their_errors_say(statistic: str) -> None:
    question, values = CASES[statistic]
    recipe = KIT.recipe(question=question, population=300, randomizer=OneBit.NAME, epsilon=Decimal(2))
    method, encoder, design = randomizer_of(recipe), encoder_of(question), SampleDesign(0.5)
    answers = [encoder.encode(value) for value in values]
    assert all(isinstance(one, int) for one in answers)
    truth, squares = truth_of(recipe, answers)
    known = estimator_of(method).expected_stderrs(truth, len(answers), design, squares)
    exact, inside = [], 0
    for run in range(RUNS):
        entropy = SeededEntropy(f"{statistic} {run}".encode())
        sent = [device_randomiser_of(method).randomise(one, entropy) for one in answers if entropy(1)[0] < 128]
        found = estimator_of(method).estimate(through(recipe, sent, entropy, full=run == 0), len(sent), design)
        exact.append(z_scores(found.values, truth, known))
        inside += abs(z_scores(found.values, truth, found.stderrs)[0]) <= NORMAL_95
    found_normal = normality(exact)
    assert 3 * min(found_normal.bias, found_normal.spread, found_normal.shape) > ALPHA, found_normal
    assert inside / RUNS > 0.95 - 4 * (0.95 * 0.05 / RUNS) ** 0.5


def truth_of(recipe: Recipe, answers: Sequence[Any]) -> tuple[list[float], list[float]]:
    """What is to be estimated, and the sum of the squared values."""
    spec = recipe.question.encoder
    real = [float(spec.least + spec.step * one) for one in answers]  # type: ignore[union-attr]
    share = len(real) if recipe.question.statistic == "mean" else 1
    return [sum(real) / share], [sum(x * x for x in real)]


def through(recipe: Recipe, sent: list[Any], entropy: SeededEntropy, *, full: bool) -> list[int]:
    """The number of ones, with sharding and verification of every report or of ten of them, the rest added up."""
    checked = sent if full else sent[:10]
    (ones,) = aggregate_with(vdaf_of(recipe))(checked, entropy)
    return [ones + sum(sent[len(checked) :])]
