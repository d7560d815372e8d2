"""A training run that the admin service carries on the whole stack, ended hard between the rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tacit import media_types
from tacit.learning import model_file
from tacit.operations.learning.run import read_standing
from tacit.service.base.secret_files import read_secret
from tests.kit.simulation import Simulation, Template
from tests.simulation import test_learning_run
from tests.simulation.test_learning_run import DEVICES, EXAMPLES, PLAN, Living, place

permissive = test_learning_run.permissive


async def asked(simulation: Simulation, who: str, method: str, path: str, body: object = None) -> Any:
    """One exchange of a person with the admin service."""
    key = read_secret(simulation.layout.credentials[who]).decode().strip()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": media_types.JSON}
    raw = b"" if body is None else json.dumps(body).encode()
    answer = await simulation.network.request(
        method, f"{simulation.layout.urls['admin']}{path}", headers=headers, body=raw
    )
    assert answer.status in {200, 201}, answer.body
    return json.loads(answer.body) if "json" in answer.headers["content-type"] else answer.body


@pytest.mark.slow
@pytest.mark.false_alarm(2e-5, "fewer than 4 of 10 devices whose coins say yes with probability 0.9, in two rounds")
async def test_a_plan_that_a_second_person_approved_is_trained_by_devices_without_anybodys_help(
    permissive: Template, tmp_path: Path
) -> None:
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=5)
    async with simulation.running():
        simulation.provision([{"strokes": EXAMPLES}] * DEVICES)
        plan = PLAN.model_dump(mode="json", exclude_none=True)
        draft = await asked(simulation, "analyst", "POST", "/v1/plans", plan)
        path = f"/v1/questions/{draft['id']}"
        await asked(simulation, "analyst", "POST", f"{path}/submit", {})
        await asked(simulation, "approver", "POST", f"{path}/approve", {})
        published = await asked(simulation, "analyst", "POST", f"{path}/publish", {})
        clock, ends = Living(simulation), published["recipe"]["interval"]
        for at in (ends["start"] - 600, ends["start"] + PLAN.round_seconds + 60):
            await clock.sleep(at - clock.now())
            await simulation.crash("admin")
        await clock.sleep(ends["start"] + ends["duration"] + PLAN.release_seconds - clock.now())
        run = await asked(simulation, "analyst", "GET", f"/v1/series/{published['hash']}/run")
        assert len(run["rounds"]) == PLAN.rounds
        assert all(one["contributions"] >= PLAN.min_batch_size for one in run["rounds"])
        model = await asked(simulation, "analyst", "GET", f"/v1/series/{published['hash']}/model")
        standing = await read_standing(PLAN, PLAN.name, place(simulation, simulation.network))
        assert (model, run["model"]) == (standing.run.model, model_file.name_of(standing.run.model))
        acts = (await asked(simulation, "analyst", "GET", "/v1/audit?limit=200"))["acts"]
        assert [one["what"] for one in acts if one["source"] == "service"][-1] == "run.over"
