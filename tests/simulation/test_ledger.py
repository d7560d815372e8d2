"""The ledger of a whole stack: what nobody released gives its budget back, what was released once never does."""

from __future__ import annotations

import pytest

from infra.stacks.api import whole_log
from tacit.operations.ledger import ledger_of
from tests.kit.simulation import Simulation
from tests.simulation.conftest import NewSimulation

GRACE = 7 * 86_400
FAULTY = ("leader", "helper")


async def states(simulation: Simulation) -> dict[str, str]:
    """The state of every recipe, from the log alone."""
    log = await whole_log(simulation.network, simulation.layout, simulation.policy)
    (account,) = ledger_of(log, simulation.policy, simulation.clock.now()).document()["accounts"]
    return {recipe["name"]: recipe["state"] for recipe in account["recipes"]}


@pytest.mark.slow
async def test_a_recipe_that_nobody_released_is_void_and_the_other_is_charged_for_ever(
    new_simulation: NewSimulation,
) -> None:
    simulation = new_simulation()
    async with simulation.running():
        uncollected = simulation.recipe(name="uncollected")
        collected = simulation.recipe(name="collected", token=simulation.slot(1))
        for recipe in (uncollected, collected):
            await simulation.publish(recipe)
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(8)])
        await simulation.step_agents()
        await simulation.live(collected.interval.start - 1, pieces=1)
        await simulation.live(collected.interval.end - 1, pieces=2)
        simulation.clock.jump(2)
        assert (await simulation.collect(collected))["state"] == "released"
        assert await states(simulation) == {"uncollected": "active", "collected": "active"}
        simulation.clock.jump(GRACE)
        simulation.partition("helper", "recipe_server")
        await simulation.settle(*FAULTY)
        assert (await states(simulation))["uncollected"] == "active", "the leader alone cannot say so"
        for name in FAULTY:
            await simulation.restart(name)
        simulation.heal()
        await simulation.settle(*FAULTY)
        assert await states(simulation) == {"uncollected": "void", "collected": "active"}
        collection = await simulation.collect(uncollected)
        assert collection["state"] == "refused", "although enough devices had answered"
        simulation.clock.jump(400 * 86_400)
        await simulation.settle(*FAULTY)
        assert await states(simulation) == {"uncollected": "void", "collected": "active"}
