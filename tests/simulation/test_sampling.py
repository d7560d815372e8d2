"""Importance sampling and dummies from device to release.

Devices draw as agents do; every report goes through sharding, sealing, both aggregators, sealed aggregate shares and
the release document, in a few runs without a network and (``make test-all``) in one of the whole stack.

An estimate may lie five standard deviations from the truth, a false alarm of 6e-7 for each number that is compared,
2e-4 over all of them; the mean square of all standardised errors may be at most 2. Seeds are fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from client_agent.journal import Entry, State
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import VISITS as ASKED
from infra.lab.kit.recipes import changed, with_sampling
from tacit.errors import Refusal
from tacit.messages import Interval
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.models.collectors import collector_side
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import Boolean
from tacit.recipe.model import Question, Recipe
from tacit.roles.collector import AggregateResult
from tests.kit.simulation import OPTIONS, Simulation, Template
from tests.simulation.test_breadth import lived
from tests.simulation.test_statistics import DEVICES, KIT, VISITS, Parties

FIVE = 5.0
RUNS = 6
SMOKERS = 80
STORED = "durably stored"
"""The journal's word for a report that the Leader has; dummies have it too."""
DUMMIES = {"intensity": "20", "population": DEVICES}
IMPORTANCE = {"default": 0, "default_rate": "0.4"}
SMOKES = Question(text="Do you smoke?", metric="smokes", encoder=Boolean(kind="boolean"), statistic="count")


def visits(make: Any, population: int = DEVICES, dummies: int = 20, **options: Any) -> Recipe:
    """Doctor visits: devices without any take part less often."""
    asked = make(question=ASKED, population=population, rate=Decimal("0.5"), **{"min_batch_size": None, **options})
    sent = {"intensity": str(dummies), "population": population}
    return with_sampling(asked, dummies=sent, importance=IMPORTANCE)


def smokes(make: Any, population: int = DEVICES, dummies: int = 20, **options: Any) -> Recipe:
    """How many devices smoke, by noise shares."""
    options = {"min_batch_size": None, "randomizer": "flips", **options}
    asked = make(question=SMOKES, population=population, rate=Decimal("0.5"), **options)
    return with_sampling(asked, dummies={"intensity": str(dummies), "population": population})


def scores(recipe: Recipe, result: dict[str, Any], truth: Sequence[int], devices: int = DEVICES) -> list[float]:
    """Standardised errors of a release, whose error bars are the estimator's own."""
    randomizer, design = randomizer_of(recipe), design_of(recipe)
    counts = [row["count"] for row in result["buckets"]]
    estimate = estimator_of(randomizer).estimate(counts, result["report_count"], design)
    assert [row["estimate"] for row in result["buckets"]] == list(estimate.values)
    assert [row["stderr"] for row in result["buckets"]] == list(estimate.stderrs)
    expected = estimator_of(randomizer).expected_stderrs(truth, devices, design)
    found = [(value - true) / error for value, true, error in zip(estimate.values, truth, expected, strict=True)]
    assert max(map(abs, found)) < FIVE, found
    return found


def mean_square(found: Sequence[float]) -> float:
    return sum(z * z for z in found) / len(found)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-4, "96 normals beyond five, and their mean square", runs=10)
def test_a_histogram_of_unequal_rates_and_dummies_misses_as_its_errors_say() -> None:
    answers = [category for category, devices in enumerate(VISITS) for _ in range(devices)]
    parties = Parties(visits(KIT.recipe), answers)
    found: list[float] = []
    for run in range(RUNS):
        entropy = SeededEntropy(b"unequal %d" % run)
        reports = parties.contribute(entropy)
        result = parties.release(parties.aggregate(reports), entropy)
        assert result["report_count"] == len(reports) == sum(row["count"] for row in result["buckets"])
        found += scores(parties.recipe, result, VISITS)
    assert mean_square(found) < 2
    assert result["sampling"] == {
        "rate": 0.5,
        "importance": {"default": 0, "default_label": "0", "default_rate": 0.4},
        "dummies": {"intensity": 20.0, "population": DEVICES},
    }


@pytest.mark.false_alarm(1e-3, "a mean square of six normals", runs=10)
def test_a_count_of_noise_shares_with_dummies_misses_as_its_errors_say() -> None:
    parties = Parties(smokes(KIT.recipe), [int(device < SMOKERS) for device in range(DEVICES)])
    assert isinstance(randomizer_of(parties.recipe), Flips)
    found: list[float] = []
    for run in range(RUNS):
        entropy = SeededEntropy(b"smokers %d" % run)
        reports = parties.contribute(entropy)
        result = parties.release(parties.aggregate(reports), entropy)
        found += scores(parties.recipe, result, [SMOKERS])
        expected = result["sampling"]["dummies"]["expected"]
        assert expected == pytest.approx(len(reports) * (10 / 160))
    assert mean_square(found) < 4, "six numbers: 4 has a chance of 5e-4"


def aggregate(values: Sequence[int], count: int) -> AggregateResult:
    return AggregateResult(count, Interval(0, 1), tuple(values))


def test_a_release_says_at_which_rate_devices_sent_and_how_many_dummies_it_holds() -> None:
    plain = KIT.recipe(population=DEVICES)
    document = collector_side(plain.model).release(plain, "batch", 0, aggregate([10] * 16, 160), 0.0)
    assert document["sampling"] == {"rate": 0.5}
    quiet = collector_side(plain.model).release(
        with_sampling(plain, dummies=DUMMIES), "batch", 0, aggregate([10] * 16, 160), 0.0
    )
    assert quiet["sampling"]["rate"] == 0.5
    assert quiet["sampling"]["dummies"]["expected"] == pytest.approx(10)
    assert [row["count"] for row in quiet["buckets"]] == [row["count"] for row in document["buckets"]]
    assert [row["estimate"] for row in quiet["buckets"]] == pytest.approx([300 / 16] * 16), "ten of 160 are dummies"
    wider = zip(quiet["buckets"], document["buckets"], strict=True)
    assert all(one["stderr"] > other["stderr"] for one, other in wider)


@pytest.mark.parametrize(("member", "value"), [("default", 16), ("default_rate", "0")])
def test_sampling_that_no_estimate_can_bear_is_refused_at_the_release(member: str, value: Any) -> None:
    recipe = changed(visits(KIT.recipe), f"sampling.importance.{member}", value)
    with pytest.raises(Refusal) as refused:
        collector_side(recipe.model).release(recipe, "batch", 0, aggregate([10] * 16, 160), 0.0)
    assert refused.value.rule in {"collection-values", "sampling-rate"}


CROWD = 2 * DEVICES
LARGE: dict[str, Any] = {"population": CROWD, "dummies": 70, "min_batch_size": 270, "epsilon": Decimal("0.5")}
"""Enough devices that 70 dummies hide one of them and are less than half of a batch."""


@pytest.mark.slow
async def test_the_whole_stack_releases_what_devices_and_dummies_sent(tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    await Template.make(folder, options=replace(OPTIONS, slots_per_epoch=2, unbounded_local=True))
    simulation = Simulation(folder, seed=31)
    recipes = [
        visits(simulation.recipe, name="visits", **LARGE),
        smokes(simulation.recipe, name="smokes", token=simulation.slot(1), **LARGE),
    ]
    shape = [2 * devices for devices in VISITS]
    answers = [category for category, devices in enumerate(shape) for _ in range(devices)]
    data = [
        {"mdvis": str(answer), "smokes": "yes" if device < SMOKERS else "no"} for device, answer in enumerate(answers)
    ]
    async with lived(simulation, recipes, data):
        found: list[float] = []
        for recipe, truth in zip(recipes, (shape, [SMOKERS]), strict=True):
            collection = await simulation.collect(recipe)
            assert collection["state"] == "released", collection
            (result,) = await simulation.results(recipe)
            reports = [report for device in simulation.devices if (report := device.report(recipe)) is not None]
            sent = [simulation.measurement(recipe, report) for report in reports]
            assert [row["count"] for row in result["buckets"]] == [sum(column) for column in zip(*sent, strict=True)]
            assert [row["label"] for row in result["buckets"]] == list(labels(recipe))
            found += scores(recipe, result, truth, CROWD)
            told = Counter([(entry.state, entry.detail) for entry in await entries(simulation, recipe)])
            assert told == {(State.SENT, STORED): len(reports), (State.NOT_SAMPLED, ""): CROWD - len(reports)}
    assert mean_square(found) < 2


async def entries(simulation: Simulation, recipe: Recipe) -> list[Entry]:
    """What every device's journal says of a recipe."""
    found = [await device.entry(recipe) for device in simulation.devices]
    return [entry for entry in found if entry is not None]
