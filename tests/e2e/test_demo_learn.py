"""The demo of a training run: real parties and devices, few of them; and as a user runs it."""

from __future__ import annotations

import asyncio
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from infra.lab.commands.demo_learn import demo_plan
from infra.lab.demo import crowded
from infra.lab.demo.learn_run import LearnRun
from infra.lab.demo.results.learn_result import HONEST, LearnResult
from infra.lab.demo.results.view import Stages
from infra.lab.learning.bench import own_noise
from tacit.service.base.log import set_log_level
from tests.e2e.test_demo import tacit
from tests.kit.logged import Secrets, members_beyond
from tests.unit.test_demo_learn import SCHEMA

EVERYBODY = "recipe server, leader, helper, every device"
TRIED = {
    "a series that understates the epsilon of all its rounds": EVERYBODY,
    "a second history of the log, with a gateway key for one device": "witnesses, device",
    "another file in the place of the model that the log names": "recipe server",
    "another model for a round that was asked": EVERYBODY,
    "a round with a model of another size": EVERYBODY,
    "a round that trains another model than follows from the log": "everybody who follows the run",
    "the release of digits-0, replayed in digits-1": "everybody who follows the run",
}
OF_A_DEVICE = {
    "a device twice in one round, with one token": "leader",
    "an update beyond the norm": "leader, helper",
}
"""Tried in the round in which the device that is followed takes part."""


@pytest.mark.slow
@pytest.mark.false_alarm(1e-6, "one of 60 draws of agents says yes, each with a chance of 0.4")
def test_three_rounds_lower_the_loss_and_every_attack_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crowded, "SETTLE_SECONDS", 0.2)
    secrets = Secrets()
    secrets.spy(monkeypatch)
    set_log_level("debug")
    try:
        stages = Stages(Console(stderr=True, quiet=True))
        plan = demo_plan(500, 3, Decimal(16))
        found = asyncio.run(LearnRun(plan, tmp_path / "stack", stages).run())
    finally:
        set_log_level("info")
    document = json.loads(json.dumps(found.document()))
    Draft202012Validator(SCHEMA).validate(document)
    losses = [one["loss"] for one in document["rounds"]]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 3
    assert losses[0] < 2.3, "the first model knows nothing: its loss is the logarithm of 10"
    assert document["epsilon"]["aggregator"] <= 16
    assert document["private"] is True
    check_counts(found)
    tried = {one.attempt: one.refused_by for one in found.refusals}
    assert tried == TRIED | OF_A_DEVICE
    assert [one.party for one in found.sightings] == ["attester", "issuer", "relay", "gateway", "leader", "helper"]
    secrets.read_files(tmp_path / "stack")
    logged = capfd.readouterr().err
    assert members_beyond([line for line in logged.splitlines() if line.startswith("{")]) == []
    assert secrets.found_in(logged) == []


@pytest.mark.slow
def test_liars_are_counted_like_everybody_and_leave_a_worse_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowded, "SETTLE_SECONDS", 0.2)
    stages = Stages(Console(stderr=True, quiet=True))
    found = asyncio.run(LearnRun(demo_plan(500, 2, Decimal(16)), tmp_path / "stack", stages, liars=8).run())
    document = found.document()
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document)))
    assert found.accepted == found.sampled + 2 * 8
    assert all(step.contributions >= 8 for step in found.steps)
    honest = next(line for line in found.beside if line.name == HONEST)
    assert found.steps[-1].loss > honest.losses[-1] + 0.2
    assert found.lies is not None
    assert found.lies.clips == own_noise(demo_plan(500, 2, Decimal(16))).longest


def check_counts(found: LearnResult) -> None:
    """Every device that was drawn is counted, and nothing else is."""
    assert found.accepted == found.sampled == sum(step.contributions for step in found.steps)
    assert found.rejected_by_cause == {"token-spent": 1, "helper-vdaf-verify-error": 1}
    epsilons = [step.epsilon for step in found.steps]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == pytest.approx(found.privacy["epsilon"], abs=1e-6)


@pytest.mark.slow
def test_the_command_trains_a_model_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    options = ("--learn", "--devices", "500", "--rounds", "2", "--epsilon", "8", "--json")
    done = tacit("demo", *options, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert '"level"' not in done.stderr, "no service has anything to complain of"
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert [one["round"] for one in document["rounds"]] == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []
