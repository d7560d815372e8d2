"""A run whose model only the application knows, on the whole stack: the example of docs/learning.md trains it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client_agent.learning.flower import FlowerLearner
from infra.authoring.learning import Files
from infra.stacks.layout import signing_key_of
from tacit.errors import UsageError
from tacit.learning import model_file
from tacit.learning.first_model import OwnModel
from tacit.learning.plan import Plan
from tacit.operations.learning.placing import Epochs, placed_run, refusals_of
from tacit.operations.learning.plans import forecast
from tacit.operations.learning.run import LearningRun, published_series, read_standing
from tacit.operations.pace import Pace
from tests.kit.simulation import EPOCH_SECONDS, HIGH_CAPS, OPTIONS, Simulation, Template, relax
from tests.kit.walks import walks_program
from tests.simulation.test_learning_run import place, untold

DEVICES = 24
SIGMAS = 5
BODY: dict[str, Any] = {
    "name": "walks",
    "metric": "walks",
    "text": "How long do your walks take?",
    "training": {"steps": 1, "learning_rate": "0.2"},
    "clip": 1,
    "unit": "0.1",
    "server": {"kind": "fedavg", "learning_rate": 1},
    "devices": DEVICES,
    "rate": "0.999",
    "min_batch_size": 22,
    "rounds": 2,
    "round_seconds": 2400,
    "release_seconds": 1200,
    "epsilon": 8,
    "delta": "0.000001",
}


def prepared(folder: Path, walks: Any) -> tuple[Plan, Files]:
    """The operator's files: the first model of the application, the plan that names it, and where the newest goes."""
    first = folder / "first.npz"
    np.savez(first, *walks([], []).get_parameters({}))
    spec = OwnModel.read(first.read_bytes(), "first.npz").spec.model_dump()
    plan = Plan.model_validate({**BODY, "training": {**BODY["training"], "architecture": spec}})
    with pytest.raises(UsageError, match="--initial FILE"):
        Files.of(plan, None, None, None)
    return plan, Files.of(plan, None, folder / "walks.npz", None, first)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-5, "4 normal numbers beyond 5 standard deviations; fewer than 22 of 24 coins of rate 0.999")
async def test_the_released_mean_is_what_the_clients_of_the_applications_trained(tmp_path: Path) -> None:
    """Walks of a kilometre: one step moves slope and offset alike, by a fifth of the hours that the line lacks."""
    program = walks_program(tmp_path)
    plan, files = prepared(tmp_path, program["Walks"])
    options = replace(OPTIONS, unbounded_local=True)
    stack = (await Template.make(tmp_path / "stack", options=options)).folder
    relax(stack, **HIGH_CAPS)
    simulation = Simulation(stack, seed=8)
    for number in range(DEVICES):
        hours = 2.9 + 0.2 * (number % 2)
        simulation.learners[f"device-{number}"] = FlowerLearner("walks", program["Walks"]([1.0], [hours]))
    async with simulation.running():
        simulation.provision([{}] * DEVICES)
        at = place(simulation, simulation.network)
        epochs = Epochs(EPOCH_SECONDS, simulation.layout.options.slots_per_epoch)
        series = placed_run(plan, simulation.layout.parties, await at.log(), epochs, at.clock.now(), Pace(300.0))
        assert refusals_of(plan, series, simulation.policy, at.clock.now()) == []
        await published_series(at, series, signing_key_of(simulation.layout))
        key = signing_key_of(simulation.layout)
        run = LearningRun(plan, plan.name, at, key, 600.0, untold, files.initial)
        last = [standing async for standing in run.standings()][-1]
        counts = [one.contributions for one in last.run.rounds]
        assert all(count in range(22, DEVICES + 1) for count in counts)
        models = [model_file.decode(one.model) for one in last.run.rounds] + [model_file.decode(last.run.model)]
        assert models[0].tolist() == [0, 0]
        within = SIGMAS * forecast(plan).noise_entry * 1.1 + 0.05
        assert within < 0.6, "a release of noise alone is told apart"
        for before, after in itertools.pairwise(models):
            trained = (3.0 - before.sum()) / 5
            assert (after - before).tolist() == pytest.approx([trained] * 2, abs=within)
        files.write(last, files.rows(last))
        with np.load(tmp_path / "walks.npz") as found:
            assert {name: found[name].shape for name in found} == {"arr_0": (1,), "arr_1": (1,)}
            assert [found["arr_0"][0], found["arr_1"][0]] == models[-1].tolist()
        with pytest.raises(UsageError, match="--initial FILE"):
            await read_standing(plan, plan.name, at)
        assert (await read_standing(plan, plan.name, at, initial=files.initial)).run == last.run
