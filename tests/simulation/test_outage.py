"""An organisation is away for an hour, longer than every timeout, while a recipe runs: what is answered meanwhile
waits, nothing is lost, nothing is counted twice, and everybody goes on by himself. Devices here offer a report until
they can send it; real ones give up after ``late_seconds``, and their journals say so."""

from __future__ import annotations

from collections import Counter

import pytest

from client_agent.journal import State
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, INTERVAL_START, Simulation
from tests.simulation.conftest import NewSimulation

BEGIN = EPOCH * EPOCH_SECONDS + INTERVAL_START
DURATION, GONE, HOUR, PIECE = 5280, 660, 3600.0, 300.0
"""Seconds: of the recipe, from its beginning until somebody is gone, and of his absence; devices decide in the first
1320."""
DEVICES = 8
WHOSE = {"analyst": ("recipe_server", "gateway", "collector"), "issuer": ("issuer",), "attester": ("attester",)}
WHOSE |= {name: (name,) for name in ("relay", "leader", "helper")}
ORDINARY = ("helper",)
"""Of which the rest follows."""


async def pass_time(simulation: Simulation, seconds: float, away: tuple[str, ...] = ()) -> None:
    """Everybody but those who are ``away`` does what is due, again and again."""
    present = [name for name in simulation.layout.services if name not in away]
    for _ in range(int(seconds // PIECE)):
        simulation.clock.jump(PIECE)
        await simulation.step_agents()
        await simulation.step(*present)


@pytest.mark.parametrize(
    "organisation", [name if name in ORDINARY else pytest.param(name, marks=pytest.mark.slow) for name in WHOSE]
)
async def test_the_loss_of_an_organisation_for_an_hour_costs_no_answer(
    new_simulation: NewSimulation, organisation: str
) -> None:
    simulation, away = new_simulation(), WHOSE[organisation]
    async with simulation.running():
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(DEVICES)])
        recipe = simulation.recipe(duration=DURATION)
        await simulation.publish(recipe)
        await pass_time(simulation, BEGIN + GONE - simulation.clock.now())
        for name in away:
            await simulation.stop(name)
        await pass_time(simulation, HOUR, away)
        for name in away:
            await simulation.start(name)
        await pass_time(simulation, BEGIN + DURATION + 120 - simulation.clock.now())
        collected = await simulation.collect(recipe)
        assert collected["state"] == "released", collected
        states = Counter([entry.state for device in simulation.devices for entry in await device.store.entries()])
        (result,) = await simulation.results(recipe)
        assert states == {State.SENT: DEVICES}
        assert result["report_count"] == DEVICES
        status = await simulation.status("leader", recipe)
        assert (status["pending"], status["rejected_by_cause"]) == (0, {})
