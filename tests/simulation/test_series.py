"""A series with donation on the whole stack: every round released, no device in two, one charge for all."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from client_agent.journal import State
from infra.stacks.api import whole_log
from tacit.operations.ledger import ledger_of
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, Simulation
from tests.simulation.conftest import NewSimulation

ROUNDS, DEVICES = 3, 8
WINDOW = EPOCH_SECONDS // 2
ANSWERS = "abcd"
TOSSES = (True, False, False, False, True, False, False, False, True, False, False, False)
"""Three coins each of four devices: one for every round, and one for none."""


def series_of(simulation: Simulation) -> Series:
    """Three rounds of half an epoch from the next epoch on, two per epoch; a device is in one of them, or in none."""
    recipe = simulation.recipe(
        name="training",
        population=DEVICES,
        token=simulation.slot(epoch=EPOCH + 1),
        start=(EPOCH + 1) * EPOCH_SECONDS,
        duration=WINDOW,
    )
    shape = Shape(ROUNDS, ROUNDS, recipe.interval.start, WINDOW, per_epoch=2)
    return propose_series(recipe, shape, min_batch_size=2)


async def charges(simulation: Simulation) -> dict[str, tuple[str, bool]]:
    log = await whole_log(simulation.network, simulation.layout, simulation.policy)
    (account,) = ledger_of(log, simulation.policy, simulation.clock.now()).document()["accounts"]
    return {one["name"]: (one["epsilon"], one["charged"]) for one in account["recipes"]}


@pytest.mark.slow
async def test_three_rounds_with_donation_are_released_and_no_device_is_in_two(
    new_simulation: NewSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coins are dealt out, so that every round has two devices and two have none."""
    tosses = itertools.cycle(TOSSES)
    monkeypatch.setattr("client_agent.series.coin", lambda _rate, _entropy: next(tosses))
    simulation = new_simulation(seed=7)
    async with simulation.running():
        series = series_of(simulation)
        assert (await simulation.post_series(series)).status == 201
        devices = simulation.provision([{"four": ANSWERS[number % 4]} for number in range(DEVICES)])
        rounds: list[Recipe] = []
        for index in range(ROUNDS):
            recipe = series.round(index, series.window(index), f"round {index}")
            rounds.append(recipe)
            await simulation.settle("issuer", "gateway")
            await simulation.live(recipe.interval.start - 900, pieces=4)
            await simulation.settle("issuer", "gateway")
            await simulation.publish(recipe)
            await simulation.live(recipe.interval.start + 800, pieces=4)
            await simulation.live(recipe.interval.end - 1, pieces=6)
            simulation.clock.jump(2)
            assert (await simulation.collect(recipe))["state"] == "released", index
        taken: Counter[str] = Counter()
        for device in devices:
            entries = [await device.entry(recipe) for recipe in rounds]
            sent = [entry for entry in entries if entry is not None and entry.state is State.SENT]
            assert len(sent) <= 1
            taken.update(entry.name for entry in sent)
            paid = [entry.charged_epsilon for entry in entries if entry is not None and entry.charged_epsilon]
            assert paid == [series.claim.epsilon["aggregator"]]
        for recipe in rounds:
            (result,) = await simulation.results(recipe)
            assert result["report_count"] == taken[recipe.name] == 2
        assert await charges(simulation) == {
            **{recipe.name: (recipe.privacy.epsilon["aggregator"], False) for recipe in rounds},
            "training": (series.claim.epsilon["aggregator"], True),
        }
