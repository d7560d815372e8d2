"""Sums, means, counts, histograms and vector sums by noise shares, from published recipe to release.

End to end through the whole stack, each released number is exactly the sum of what devices sent and lies within 4.5 of
its standard deviations of the truth (false alarm below 1e-4 over all of them). Through sharding and both aggregators'
verification, fifty runs of every statistic: bias, spread and coverage as ``tests.kit.statistics`` tests them; over
the choice of seeds each fails with probability at most ``ALPHA``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import VISITS, RecipeKit
from tacit.errors import Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.derive import randomizer_of, vdaf_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question, Recipe
from tests.kit.simulation import OPTIONS, Simulation, Template, assert_released_as_sent
from tests.kit.statistics import NORMAL_95, normality, z_scores
from tests.simulation.test_breadth import lived
from tests.simulation.test_statistics import aggregate_with

ALPHA = 1e-4
DEVICES = 16
RUNS = 50


def question(statistic: str, metric: str, **encoder: Any) -> Question:
    body = {"text": "?", "metric": metric, "encoder": encoder, "statistic": statistic}
    return Question.model_validate(body)


AGES = question("sum", "age", kind="number", low=0, high=60)
MEAN = question("mean", "age", kind="number", low=0, high=100, unit=5)
SMOKES = question("count", "smokes", kind="boolean")
STEPS = question("vector-sum", "steps", kind="vector", length=3, low=-5, high=5, norm=6)


@pytest.fixture(scope="module")
def permissive(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack whose parties accept recipes without a local guarantee."""
    folder = tmp_path_factory.mktemp("shares") / "stack"
    return asyncio.run(Template.make(folder, options=replace(OPTIONS, slots_per_epoch=4, unbounded_local=True)))


async def check(simulation: Simulation, recipe: Recipe, truth: Sequence[float]) -> dict[str, Any]:
    """As ``assert_released_as_sent``, with a claim that says nothing against both aggregators."""
    result = await assert_released_as_sent(simulation, recipe, truth)
    for name in ("both_aggregators", "both_aggregators_with_relay"):
        assert result["privacy"]["by_adversary"][name] == "unbounded"
        assert result["privacy_of_batch"]["by_adversary"][name] == "unbounded"
    return result


@pytest.mark.slow
async def test_sum_mean_count_and_vector_sum_are_published_answered_collected_and_released(
    permissive: Template, tmp_path: Path
) -> None:
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=21)
    asked = (AGES, MEAN, SMOKES, STEPS)
    recipes = [
        simulation.recipe(
            name=f"shares-{slot}", question=one, population=DEVICES, min_batch_size=12, token=simulation.slot(slot),
            randomizer="flips",
        )
        for slot, one in enumerate(asked)
    ]  # fmt: skip
    ages = [3 * n % 90 for n in range(DEVICES)]
    rows = [
        {"age": str(age), "smokes": "yes" if n % 3 == 0 else "no", "steps": f"{n % 7 - 3}, 2, {-(n % 4)}"}
        for n, age in enumerate(ages)
    ]
    encoder = encoder_of(STEPS)
    vectors = [encoder.encode(row["steps"]) for row in rows]
    totals = [sum(entry - 5 for entry in column) for column in zip(*vectors, strict=True)]
    rounded = [5 * round(age / 5) for age in ages]
    async with lived(simulation, recipes, rows):
        summed = await check(simulation, recipes[0], [sum(min(age, 60) for age in ages)])
        mean = await check(simulation, recipes[1], [sum(rounded) / DEVICES])
        await check(simulation, recipes[2], [sum(row["smokes"] == "yes" for row in rows)])
        await check(simulation, recipes[3], totals)
    assert summed["report_count"] == DEVICES
    assert summed["privacy"]["mechanism"] == "flips-exact"
    assert (mean["statistic"], [row["label"] for row in mean["buckets"]]) == ("mean", ["mean"])


async def test_a_stack_that_does_not_accept_missing_local_guarantees_refuses_the_recipe(
    bare: Template, tmp_path: Path
) -> None:
    simulation = Simulation(bare.copy(tmp_path / "stack"), seed=22)
    async with simulation.running():
        with pytest.raises(Refusal, match="without a local guarantee"):
            await simulation.publish(simulation.recipe(question=AGES, population=DEVICES, min_batch_size=12))


@pytest.mark.slow
async def test_each_aggregator_adds_its_own_noise_once(permissive: Template, tmp_path: Path) -> None:
    """The released number differs from the sum of what devices sent by both aggregators' flips, and asking again for
    the same batch changes nothing."""
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=23)
    flips = 4_000
    recipe = simulation.recipe(
        question=AGES, population=DEVICES, min_batch_size=12, token=simulation.slot(), aggregator_flips=flips
    )
    plain = simulation.recipe(question=AGES, population=DEVICES, min_batch_size=12, token=simulation.slot())
    assert float(recipe.privacy.epsilon["aggregator"]) < float(plain.privacy.epsilon["aggregator"])
    async with lived(simulation, [recipe], [{"age": str(n)} for n in range(DEVICES)]):
        collection = await simulation.collect(recipe)
        assert collection["state"] == "released", collection
        (result,) = await simulation.results(recipe)
        again = await simulation.collect(recipe)
        assert again["state"] != "released" or await simulation.results(recipe) == [result]
        shares = randomizer_of(recipe)
        assert isinstance(shares, Flips)
        reports = [report for device in simulation.devices if (report := device.report(recipe)) is not None]
        sent = sum(simulation.measurement(recipe, report)[0] for report in reports)
    (row,) = result["buckets"]
    added = row["count"] - sent
    assert 0 < abs(added) < 6 * (2 * flips) ** 0.5 / 2
    everybody = SampleDesign(1.0)
    noise = FlipsEstimator(shares).sum_errors(DEVICES, everybody).noise
    assert row["stderr"] == pytest.approx(noise)
    assert noise > FlipsEstimator(replace(shares, batch_flips=0)).sum_errors(DEVICES, everybody).noise
    assert abs(row["estimate"] - sum(range(DEVICES))) < 4.5 * row["stderr"]


KIT = RecipeKit(b"shares")
CASES: dict[str, tuple[Question, Sequence[Any]]] = {
    "histogram": (VISITS, [0] * 200 + [1] * 60 + [15] * 40),
    "count": (SMOKES, [1] * 90 + [0] * 210),
    "sum": (question("sum", "m", kind="number", low=-20, high=20), [0, 7, 20, 31, 40] * 60),
    "mean": (question("mean", "m", kind="number", low=0, high=100, unit=10), [0, 2, 5, 9, 10] * 60),
    "vector-sum": (
        question("vector-sum", "m", kind="vector", length=3, low=-3, high=3, norm=4),
        [(3, 5, 1), (1, 3, 6)] * 150,
    ),
}


def truths(shares: Flips, answers: Sequence[Any]) -> tuple[list[float], list[float]]:
    """What is to be estimated, and the sums of the squared values, per cell."""
    rows = [[int(cell == one) for cell in range(shares.cells)] for one in answers]
    if shares.statistic != "histogram":
        rows = [list(one) if isinstance(one, tuple) else [one] for one in answers]
    real = [[shares.low + shares.unit * value for value in row] for row in rows]
    columns = list(zip(*real, strict=True))
    share = len(answers) if shares.statistic == "mean" else 1
    return [sum(column) / share for column in columns], [float(sum(x * x for x in column)) for column in columns]


@pytest.mark.slow
@pytest.mark.false_alarm(2 * ALPHA, "three tests, corrected, and the coverage beyond four deviations", runs=10)
@pytest.mark.parametrize("statistic", CASES)
def test_fifty_runs_through_sharding_and_verification_miss_as_their_errors_say(statistic: str) -> None:
    asked, answers = CASES[statistic]
    recipe = KIT.recipe(question=asked, population=300, randomizer="flips", epsilon=Decimal(2))
    shares = randomizer_of(recipe)
    assert isinstance(shares, Flips)
    truth, squares = truths(shares, answers)
    known = estimator_of(shares).expected_stderrs(truth, len(answers), SampleDesign(0.5), squares)
    exact, inside = [], 0
    for run in range(RUNS):
        entropy = SeededEntropy(f"{statistic} {run}".encode())
        sent = [device_randomiser_of(shares).randomise(one, entropy) for one in answers if entropy(1)[0] < 128]
        counts = through(recipe, sent, entropy, full=run == 0)
        found = estimator_of(shares).estimate(counts, len(sent), SampleDesign(0.5))
        exact.append(z_scores(found.values, truth, known))
        inside += sum(abs(z) <= NORMAL_95 for z in z_scores(found.values, truth, found.stderrs))
    found_normal = normality(exact)
    assert 3 * min(found_normal.bias, found_normal.spread, found_normal.shape) > ALPHA, found_normal
    cells = RUNS * shares.cells
    assert inside / cells > 0.95 - 4 * (0.95 * 0.05 / cells) ** 0.5 - 0.02


def through(recipe: Recipe, sent: list[Any], entropy: SeededEntropy, *, full: bool) -> list[int]:
    """The aggregate of ``sent``: with sharding and verification of every report (the first run) or of ten of them, the
    rest added up, as ``test_the_vdaf_adds_up_exactly_what_devices_sent`` allows."""
    checked = sent if full else sent[:10]
    counts = aggregate_with(vdaf_of(recipe))(checked, entropy)
    for one in sent[len(checked) :]:
        counts = [a + b for a, b in zip(counts, one if isinstance(one, list) else [one], strict=True)]
    return counts
