"""A recipe with one server, from real devices that watch an event through the whole stack to its result."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import State
from client_agent.panprivate.watches import Watches
from infra.stacks.agent_configs import agent_config
from infra.stacks.status import stack_status
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tests.kit.simulation import AGENTS, EPOCH, EPOCH_SECONDS, INTERVAL_SECONDS, INTERVAL_START, Simulation
from tests.simulation.conftest import NewSimulation

SINGLE = "pan-private-single"
STEPS, STEP_SECONDS = 4, 60
BEGIN = EPOCH * EPOCH_SECONDS + INTERVAL_START - STEPS * STEP_SECONDS
DEVICES = 6


def watched(simulation: Simulation, statistic: str) -> Recipe:
    """How often the event happened in four minutes before the interval."""
    encoder: dict[str, Any] = {"kind": "occurrences", "start": BEGIN, "step_seconds": STEP_SECONDS, "steps": STEPS}
    slot = simulation.slot()
    survey = Survey.from_body(
        {
            "name": "visits",
            "model": SINGLE,
            "text": "How often was it visited?",
            "metric": "visit",
            "statistic": statistic,
            "encoder": encoder if statistic == "count" else {**encoder, "most": 3},
            "population": DEVICES,
            "rate": Decimal(1),
            "min_batch_size": DEVICES - 1,
            "epoch": slot.epoch,
            "slot": slot.slot,
            "start": EPOCH * EPOCH_SECONDS + INTERVAL_START,
            "duration": INTERVAL_SECONDS,
        }
    )
    return propose(survey, simulation.layout.parties_of(SINGLE))


def watching(simulation: Simulation) -> list[Watches]:
    """Have every device keep states, in a folder of its own."""
    found = []
    for device in simulation.devices:
        transport = simulation.wire.transport(device.name, AGENTS)
        deps = AgentEnv(simulation.clock, simulation.entropy.child(f"{device.name} watching"), transport)
        folder = simulation.layout.state_dir / "devices" / device.name
        states = Watches(folder, deps.clock, deps.entropy)
        unused = {"kind": "csv", "path": "unused.csv"}
        config = agent_config(simulation.layout, folder, unused, staged=True)
        source = CallableSource(lambda _metric: None)
        device.agent = Agent(config, simulation.policy, deps, device.store, source, device.identity, states)
        found.append(states)
    return found


@pytest.mark.parametrize("statistic", ["count", pytest.param("histogram", marks=pytest.mark.slow)])
async def test_devices_watch_an_event_and_the_analyst_has_a_result(
    new_simulation: NewSimulation, statistic: str
) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = watched(simulation, statistic)
        await simulation.publish(recipe)
        for _ in range(3):
            await simulation.step("analyzer", "collector")
        simulation.provision([{}] * DEVICES)
        states = watching(simulation)
        await simulation.live(BEGIN)
        for step in range(STEPS):
            for number, device in enumerate(simulation.devices):
                if number > step:
                    assert device.agent.record("visit")
            await simulation.live(BEGIN + (step + 1) * STEP_SECONDS, pieces=1)
        await simulation.live(recipe.interval.end - 1, pieces=20)
        assert {await device.state(recipe) for device in simulation.devices} == {State.SENT}
        simulation.clock.jump(10)
        await simulation.step("analyzer")
        assert (await simulation.collect(recipe))["state"] == "released"
        (result,) = await simulation.results(recipe)
        status = await stack_status(simulation.layout, simulation.network)
        for one in states:
            one.close()
    assert result["report_count"] == DEVICES
    labels = ["nonzero"] if statistic == "count" else ["0", "1", "2", "3+"]
    assert [bucket["label"] for bucket in result["buckets"]] == labels
    assert all(0 <= bucket["count"] <= DEVICES for bucket in result["buckets"])
    (task,) = [one for one in status.tasks if one.recipe_hash == recipe.hash_text]
    assert (task.analyzer["distinct_nullifiers"], task.analyzer["released"]) == (DEVICES, 1)
    assert status.issuance == [] or not any(slot.mismatches for slot in status.issuance)
