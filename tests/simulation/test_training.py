"""A training of two rounds on the whole stack: devices fetch each round's model, and the release is the sum of their
updates; the second round trains the model that follows from the first."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from client_agent.answering import draw_answer
from client_agent.journal import Fact, Trouble
from infra.lab.kit.learning import LEARNING, METRIC, Model, learning_question, model_of
from tacit import media_types
from tacit.learning import local, model_file
from tacit.methods.base.method import Answer
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, HIGH_CAPS, OPTIONS, Simulation, Template, relax

ROUND_SECONDS = 5400
"""Of an epoch; in the rest of it the next round is made of the release. Devices decide in the first quarter."""
CLIP = "0.25"
POINTS = tuple(f"{number / 4}, {-number / 8}, {number % 2}, 1, {number / 8}, 0" for number in range(8))
"""The examples of each device: two points of the plane."""
WITHOUT = ("", "1, 2")
"""Two devices more, with none and with something that is none."""


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack whose parties accept recipes without a local guarantee."""
    folder = tmp_path_factory.mktemp("training") / "stack"
    return asyncio.run(Template.make(folder, options=replace(OPTIONS, unbounded_local=True)))


def series_of(simulation: Simulation) -> Series:
    """Two rounds, one an epoch, in which every device takes part."""
    recipe = simulation.recipe(
        name="strokes",
        question=learning_question(),
        population=len(POINTS) + len(WITHOUT),
        epsilon=Decimal(8),
        randomizer="flips",
        token=simulation.slot(epoch=EPOCH + 1),
        start=(EPOCH + 1) * EPOCH_SECONDS,
        duration=ROUND_SECONDS,
    )
    return propose_series(recipe, Shape(2, None, recipe.interval.start, EPOCH_SECONDS), min_batch_size=6)


async def put(simulation: Simulation, model: Model) -> int:
    """Hand the file to the recipe server."""
    url = simulation.layout.urls["recipe_server"] + model.stated().path
    headers = {"content-type": media_types.OCTET_STREAM}
    return (await simulation.network.request("PUT", url, headers=headers, body=model.file)).status


def update_of(model: Model, points: str) -> NDArray[np.int64]:
    """The update of a device with these points, in units; 0 of one that has none."""
    if points in WITHOUT:
        return np.zeros(LEARNING.length, dtype=np.int64)
    examples = local.examples_of(LEARNING.training.architecture, [float(one) for one in points.split(",")])
    update = local.local_update(LEARNING.training, model_file.decode(model.file), examples, np.random.default_rng(0))
    room = local.room_for_units(LEARNING.length, LEARNING.radius)
    sent = local.sent_vector(LEARNING.training, update, float(CLIP), room)
    return np.rint(sent / float(LEARNING.step)).astype(np.int64)


async def lived(simulation: Simulation, series: Series, index: int, model: Model) -> Recipe:
    """Publish the round and then its file, let every device take part, and have the sum released."""
    interval = series.window(index).model_copy(update={"duration": ROUND_SECONDS})
    recipe = series.round(index, interval, model.stated(CLIP).text())
    await simulation.settle("issuer", "gateway")
    await simulation.live(recipe.interval.start - 900, pieces=4)
    await simulation.settle("issuer", "gateway")
    assert await put(simulation, model) == 404, "no round names it yet"
    await simulation.publish(recipe)
    await simulation.live(recipe.interval.start + 200, pieces=3)
    for device in simulation.devices:
        assert await device.state(recipe) is None
        trouble = Trouble.decode(await device.store.fact(Fact.MODEL_TROUBLE))
        assert trouble is not None
        assert "does not have its model yet" in trouble.what
    assert await put(simulation, model) == 201
    simulation.restart_device(0)
    await simulation.live(recipe.interval.start + ROUND_SECONDS // 4 - 10, pieces=6)
    await simulation.live(recipe.interval.end - 1, pieces=6)
    simulation.clock.jump(2)
    collection = await simulation.collect(recipe)
    assert collection["state"] == "released", collection
    return recipe


async def check(
    simulation: Simulation, recipe: Recipe, model: Model, answers: list[Answer | None]
) -> NDArray[np.float64]:
    """What devices randomised are their updates, and the release is the sum of what they sent; returns it, in clips."""
    (result,) = await simulation.results(recipe)
    assert result["report_count"] == len(simulation.devices)
    updates = [update_of(model, device.data[METRIC]) for device in simulation.devices]
    zero = int(-LEARNING.least // LEARNING.step)
    encoded = [tuple((update + zero).tolist()) for update in updates[: len(POINTS)]]
    assert Counter(answers) == Counter([*encoded, *[None] * len(WITHOUT)])
    reports = [device.report(recipe) for device in simulation.devices]
    sent = [simulation.measurement(recipe, report) for report in reports if report is not None]
    assert [row["count"] for row in result["buckets"]] == [sum(column) for column in zip(*sent, strict=True)]
    released = np.array([row["estimate"] for row in result["buckets"]])
    stderrs = np.array([row["stderr"] for row in result["buckets"]])
    assert (np.abs(released - sum(updates) * float(LEARNING.step)) < 6 * stderrs).all()
    return released


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Answer | None]:
    """What devices randomise, in the order in which they decide."""
    found = list[Answer | None]()

    def noted(recipe: Recipe, answer: Answer | None, *others: Any) -> Any:
        found.append(answer)
        return draw_answer(recipe, answer, *others)

    monkeypatch.setattr("client_agent.answering.draw_answer", noted)
    return found


@pytest.mark.slow
async def test_two_rounds_release_the_sums_of_the_updates_of_their_models(
    trusting: Template, tmp_path: Path, answers: list[Answer | None]
) -> None:
    folder = trusting.copy(tmp_path / "stack")
    relax(folder, **HIGH_CAPS, max_series_epsilon_with_relay=None)
    simulation = Simulation(folder, seed=24)
    async with simulation.running():
        series = series_of(simulation)
        answer = await simulation.post_series(series)
        assert answer.status == 201, answer.body
        simulation.provision([{METRIC: points} for points in (*POINTS, *WITHOUT)])
        model = model_of(LEARNING, seed=1)
        first = await lived(simulation, series, 0, model)
        mean = await check(simulation, first, model, answers) / len(simulation.devices)
        following = Model(model_file.encode(model_file.decode(model.file) + float(CLIP) * mean))
        answers.clear()
        second = await lived(simulation, series, 1, following)
        await check(simulation, second, following, answers)
        for device in simulation.devices:
            paid = [one.charged_epsilon for one in await device.store.entries() if one.charged_epsilon]
            assert paid == [series.claim.epsilon["aggregator"]]
