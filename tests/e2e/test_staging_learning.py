"""``tacit learn run`` on a staging deployment: started with the options that the plan names, its devices train, and
what they journalled is what was released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.learning import STROKES
from tacit.learning import model_file
from tacit.learning.plan import Plan
from tacit.operations.learning.plans import forecast
from tests.e2e.staged import Staging, row_of, staging

DEVICES, LEAST = 16, 10
PLAN: dict[str, Any] = {
    **STROKES,
    "devices": DEVICES,
    "rate": "0.95",
    "min_batch_size": LEAST,
    "round_seconds": 50,
    "release_seconds": 25,
}


class Trained(Staging):
    """A deployment in which a command waits for an epoch to begin and for all rounds of its run."""

    patience = 600.0


@pytest.mark.slow
@pytest.mark.false_alarm(1e-4, "fewer than 10 of 16 devices whose coins say yes with probability 0.95, in two rounds")
def test_devices_of_a_deployment_train_a_model_and_every_contribution_is_counted_once(tmp_path: Path) -> None:
    plan, examples, model = tmp_path / "plan.json", tmp_path / "strokes.csv", tmp_path / "strokes.model"
    plan.write_text(json.dumps(PLAN))
    examples.write_text("1,0,0\n0.9,0.2,0\n0,1,1\n0.1,0.8,1\n" * DEVICES)
    options = [*forecast(Plan.model_validate(PLAN)).stack, "--examples", str(examples)]
    with staging(tmp_path / "stack", "processes", *options, devices=DEVICES) as (some, document, process):
        site = Trained(some.folder)
        assert document["agents"] == {"hosts": 1, "single": 2, "devices": DEVICES}
        found = site.json("learn", "run", str(plan), "--test", str(examples))
        assert [one["round"] for one in found["rounds"]] == [0, 1]
        assert all(LEAST <= one["contributions"] <= DEVICES for one in found["rounds"])
        assert all(one["loss"] > 0 for one in found["rounds"])
        site.json("learn", "show", str(plan), "--model", str(model))
        assert model_file.name_of(model.read_bytes()) == found["model"]
        shown = site.json("learn", "show", "strokes")
        assert [one["contributions"] for one in shown["rounds"]] == [one["contributions"] for one in found["rounds"]]
        report = site.json("staging", "report")
        for one in found["rounds"]:
            row = row_of(report, one["recipe_hash"])
            assert row["released"] == one["contributions"]
            assert sum(row["journalled"].values()) == DEVICES
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0
