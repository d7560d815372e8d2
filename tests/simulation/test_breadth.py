"""Every kind of recipe that ships, end to end through the whole stack: question, randomizer, VDAF, batch mode.

Each released count is exactly the sum of what devices sent (known by opening every report with both aggregators'
keys), each estimate is the estimator's of these counts, and none lies further than 4.5 of its own standard deviations
from the truth (false alarm below one in a thousand over all of them; seeds are fixed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from client_agent.journal import State
from tacit.recipe.derive import vdaf_of
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import Boolean, Buckets
from tacit.recipe.model import Question, Recipe
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram, Prio3MultihotCountVec
from tests.kit.simulation import FOUR, Simulation, assert_released_as_sent

NewSimulation = Callable[..., Simulation]
YES = Question(text="Do you smoke?", metric="smokes", encoder=Boolean(kind="boolean"), statistic="count")
AGES = Question(
    text="How old are you?",
    metric="age",
    encoder=Buckets(kind="buckets", edges=(0, 20, 40, 60)),
    statistic="histogram",
)
DEVICES = 24


@asynccontextmanager
async def lived(
    simulation: Simulation, recipes: Sequence[Recipe], data: Sequence[Mapping[str, str]]
) -> AsyncIterator[None]:
    """Publish, live through the interval, end it."""
    async with simulation.running():
        for recipe in recipes:
            await simulation.publish(recipe)
        simulation.provision(data)
        await simulation.step_agents()
        await simulation.live(recipes[0].interval.start - 1, pieces=1)
        await simulation.live(recipes[0].interval.end - 1, pieces=3)
        simulation.clock.jump(2)
        yield


async def check(simulation: Simulation, recipe: Recipe, truth: Sequence[int]) -> dict[str, Any]:
    """As ``assert_released_as_sent``, with its labels and the claim of the batch that ran."""
    result = await assert_released_as_sent(simulation, recipe, truth)
    assert [row["label"] for row in result["buckets"]] == list(labels(recipe))
    for name in ("aggregator", "aggregator_with_relay", "both_aggregators"):
        assert result["privacy_of_batch"]["by_adversary"][name] <= result["privacy"]["by_adversary"][name] + 1e-9
    return result


async def test_a_boolean_and_a_rappor_question_are_answered_by_every_device_at_once(
    new_simulation: NewSimulation,
) -> None:
    simulation = new_simulation(seed=1)
    smokes = simulation.recipe(name="smokes", question=YES, population=DEVICES, min_batch_size=16)
    rappor = simulation.recipe(
        name="rappor", population=DEVICES, min_batch_size=16, randomizer="rappor", token=simulation.slot(1)
    )
    assert isinstance(vdaf_of(smokes), Prio3Count)
    assert isinstance(vdaf_of(rappor), Prio3MultihotCountVec)
    data = [{"smokes": "true" if n % 3 == 0 else "false", "four": "aabc"[n % 4]} for n in range(DEVICES)]
    async with lived(simulation, [smokes, rappor], data):
        counted = await check(simulation, smokes, [DEVICES // 3])
        shaped = await check(simulation, rappor, [DEVICES // 2, DEVICES // 4, DEVICES // 4, 0])
    assert counted["privacy"]["mechanism"] == "rr-exact"
    assert shaped["privacy"]["mechanism"] == "rappor-exact"


@pytest.mark.slow
async def test_categories_and_numeric_buckets_are_one_hot_histograms(new_simulation: NewSimulation) -> None:
    simulation = new_simulation(seed=2)
    four = simulation.recipe(population=DEVICES, min_batch_size=16)
    ages = simulation.recipe(
        name="ages", question=AGES, population=DEVICES, min_batch_size=16, token=simulation.slot(1)
    )
    assert isinstance(vdaf_of(four), Prio3Histogram)
    data = [{"four": "abcd"[n % 4], "age": str(7 * n % 80)} for n in range(DEVICES)]
    old = Counter(min(int(row["age"]) // 20, 3) for row in data)
    async with lived(simulation, [four, ages], data):
        first = await check(simulation, four, [DEVICES // 4] * 4)
        await check(simulation, ages, [old[bucket] for bucket in range(4)])
    assert first["report_count"] == DEVICES, "at q = 1 everybody takes part"
    assert first["privacy"]["mechanism"] == "shuffle-fmt22", "q = 1 claims nothing for sampling"
    claims = first["privacy"]["by_adversary"]
    assert claims["aggregator"] == claims["aggregator_with_relay"]


@pytest.mark.slow
async def test_batches_close_at_b_while_reports_come_in_and_a_tail_is_never_released(
    new_simulation: NewSimulation,
) -> None:
    simulation = new_simulation(seed=3)
    recipe = simulation.recipe(population=12, min_batch_size=5, close="at_B")
    async with simulation.running():
        await simulation.publish(recipe)
        simulation.provision([{"four": "abcd"[n % 4]} for n in range(12)])
        await simulation.step_agents()
        await simulation.live(recipe.interval.start - 1, pieces=1)
        early = []
        for _ in range(6):
            await simulation.live(simulation.clock.now() + recipe.interval.duration / 6, pieces=1)
            await simulation.operator("collector", "POST", "/v1/collections", {"recipe_hash": recipe.hash_text})
            await simulation.work()
            early.append((await simulation.status("leader", recipe))["released"])
        assert early[0] == 0
        assert early[3] >= 1, "a full batch does not wait for the interval's end"
        simulation.clock.jump(60)
        while (await simulation.collect(recipe))["state"] == "released":
            pass
        results = await simulation.results(recipe)
        assert [result["report_count"] for result in results] == [5, 5]
        assert len({result["batch_id"] for result in results}) == 2
        for name in ("leader", "helper"):
            status = await simulation.status(name, recipe)
            assert (status["aggregated"], status["released"]) == (12, 2), "two reports are a tail below B"
        assert [await device.state(recipe) for device in simulation.devices] == [State.SENT] * 12


@pytest.mark.slow
async def test_a_sampled_recipe_is_answered_by_whom_the_coin_chose(new_simulation: NewSimulation) -> None:
    simulation = new_simulation(seed=4)
    recipe = simulation.recipe(population=300, rate=Decimal("0.5"), min_batch_size=None, question=FOUR)
    data = [{"four": "aabc"[n % 4]} for n in range(300)]
    async with lived(simulation, [recipe], data):
        result = await check(simulation, recipe, [150, 75, 75, 0])
        states = Counter([await device.state(recipe) for device in simulation.devices])
    assert set(states) == {State.SENT, State.NOT_SAMPLED}
    assert abs(states[State.SENT] - 150) < 4.5 * 75**0.5
    assert result["privacy"]["mechanism"] == "shuffle-fmt22+sampling"
