"""Keys of leader, helper and collector that come beside the old ones while everything runs."""

from __future__ import annotations

import json
from pathlib import Path

from infra.lab.kit.entropy import SeededEntropy
from tacit.aggregator.keys import generate_hpke_key, write_hpke_key
from tacit.codec import b64url
from tacit.recipe.model import Recipe
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, INTERVAL_SECONDS, INTERVAL_START, Simulation
from tests.simulation.conftest import NewSimulation

ROTATED = ("leader", "helper", "collector")
ENDS = EPOCH * EPOCH_SECONDS + INTERVAL_START + INTERVAL_SECONDS


def folder_of(simulation: Simulation, name: str) -> Path:
    """The service's keys in a folder, which its configuration names from now on."""
    path = simulation.layout.configs[name]
    body = json.loads(path.read_text())
    folder = path.parent / "hpke"
    folder.mkdir()
    for file in body["hpke_keys"]:
        (path.parent / file).rename(folder / "1.key")
    path.write_text(json.dumps({**body, "hpke_keys": ["hpke"]}))
    return folder


def renamed(simulation: Simulation, configs: dict[str, str]) -> Recipe:
    """A recipe that is sealed to other keys."""
    recipe = simulation.recipe(name="renewed", token=simulation.slot(1))
    body = json.loads(recipe.encode())
    for name, config in configs.items():
        body["parties"][name]["hpke_config"] = config
    return Recipe.from_body(body)


async def test_a_recipe_under_new_keys_runs_beside_one_under_the_old_ones_without_a_restart(
    new_simulation: NewSimulation,
) -> None:
    simulation = new_simulation()
    folders = {name: folder_of(simulation, name) for name in ROTATED}
    async with simulation.running():
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(7)])
        old = simulation.recipe()
        await simulation.publish(old)
        new_keys = {
            name: generate_hpke_key(100 + number, SeededEntropy(name.encode())) for number, name in enumerate(ROTATED)
        }
        for name, key in new_keys.items():
            write_hpke_key(folders[name] / "2.key", key)
        new = renamed(simulation, {name: b64url(key.config.encode()) for name, key in new_keys.items()})
        await simulation.publish(new)
        await simulation.live(ENDS + 1, pieces=12)
        for recipe in (old, new):
            collected = await simulation.collect(recipe)
            assert collected["state"] == "released", collected
            (result,) = await simulation.results(recipe)
            assert result["report_count"] == 7
