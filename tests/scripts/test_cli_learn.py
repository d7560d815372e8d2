"""``tacit learn run`` and ``show``: against a running stack whose agents train, and what they complain about."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client_agent.config import AgentConfig
from infra.cli import run
from infra.lab.kit.learning import STROKES
from infra.stacks.agents import DATA_NAME, provision_agents
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.learning import model_file
from tacit.learning.plan import EXAMPLE
from tacit.service.base.config_files import load_config
from tests.kit.simulation import HIGH_CAPS, relax
from tests.scripts.live_stack import in_thread, step_until
from tests.scripts.test_cli_recipe import device, epoch_seconds

AGENTS = 5
EXAMPLES = "1,0,0,0,1,1,0.9,0.1,0"
TEST = "1,0,0\n0,1,1\n"
EPOCH_SECONDS = epoch_seconds()
PLAN: dict[str, Any] = {
    **STROKES,
    "devices": AGENTS,
    "min_batch_size": 2,
    "round_seconds": EPOCH_SECONDS // 2,
    "release_seconds": EPOCH_SECONDS // 2,
}


@dataclass(frozen=True)
class Stack:
    """A stack with devices that have examples, in a thread of its own, in real time."""

    folder: Path

    def __call__(self, *words: str) -> int:
        return run(["learn", *words, "--state-dir", str(self.folder)])


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with in_thread(partial(_live, folder)):
        yield Stack(folder)


async def _live(folder: Path, ready: threading.Event, ended: threading.Event) -> None:
    options = StackOptions(EPOCH_SECONDS, slots_per_epoch=2, batch_floor=2, poll_seconds=0.2, unbounded_local=True)
    clock, entropy = SystemClock(), OsEntropy()
    layout = create_layout(folder, options, entropy, clock.now())
    relax(folder, **HIGH_CAPS)
    local = LocalStack(layout, clock, entropy)
    async with local.running(), contextlib.AsyncExitStack() as devices:
        await local.settle("issuer", "gateway", rounds=5)
        for path in provision_agents(layout, AGENTS, entropy, clock.now()):
            (path.parent / DATA_NAME).write_text(f'strokes\n"{EXAMPLES}"\n')
            await devices.enter_async_context(device(load_config(path, AgentConfig), clock))
        ready.set()
        await step_until(ended, local)


def written(path: Path, **changes: Any) -> str:
    path.write_text(json.dumps({**PLAN, **changes}))
    return str(path)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr that is not the stack's own log."""
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line and not line.startswith("{")]
    return line


@pytest.mark.slow
@pytest.mark.false_alarm(1e-3, "fewer than 2 of 5 devices whose coins say yes with probability 0.9, in two rounds")
def test_a_run_trains_its_model_and_shows_the_same_when_it_is_taken_up_again(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, test, out = written(tmp_path / "plan.json"), tmp_path / "test.csv", tmp_path / "model.npz"
    test.write_text(TEST)
    assert stack("run", plan, "--test", str(test), "--out", str(out), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["round"] for one in found["rounds"]] == [0, 1]
    assert all(one["contributions"] in range(2, AGENTS + 1) for one in found["rounds"])
    assert all(0 <= one["accuracy"] <= 1 and one["loss"] > 0 for one in found["rounds"])
    with np.load(out) as layers:
        parameters = np.concatenate([layers["weights"].ravel(), layers["biases"]])
    assert model_file.name_of(model_file.encode(parameters)) == found["model"]

    picture = tmp_path / "run.png"
    assert stack("run", plan, "--test", str(test), "--start", "1", "--plot", str(picture)) == 0
    again = capsys.readouterr()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "--start changes nothing" in again.err
    assert f"{found['rounds'][1]['accuracy']:.1%}" in again.out
    model = tmp_path / "newest.model"
    assert stack("show", plan, "--model", str(model), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["model"] == model_file.name_of(model.read_bytes()) == found["model"]
    for name in ("strokes", found["series"]["hash"][:20]):
        assert stack("show", name, "--json") == 0
        logged = json.loads(capsys.readouterr().out)
        assert (logged["model"], logged["accuracy"]) == (None, None)
        without = {"loss": None, "accuracy": None}
        assert logged["rounds"] == shown["rounds"] == [{**one, **without} for one in found["rounds"]]
    assert stack("show", "strokes", "--model", str(model)) == 1
    assert "models follow from the plan" in complaint(capsys)
    assert stack("run", written(tmp_path / "changed.json", rate="0.8")) == 1
    assert "series strokes is not of this plan: rate differ; give a changed plan another name" in complaint(capsys)
    assert stack("run", written(tmp_path / "changed.json", clip=2)) == 1
    assert "clips at 1; from the plan follows 2" in complaint(capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "flags", "said"),
    [
        ({"round_seconds": EPOCH_SECONDS}, (), f"make a stack with tacit up --epoch-seconds {EPOCH_SECONDS * 3 // 2}"),
        ({}, ("--start", "1000"), "--start 1000 is too soon"),
        ({"min_batch_size": 1}, (), "the stack's policy refuses this run (batch-floor: B = 1"),
    ],
    ids=["epochs", "start", "policy"],
)
def test_a_plan_that_cannot_be_asked_here_is_refused_in_a_line_before_anything_is_published(
    stack: Stack,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    flags: tuple[str, ...],
    said: str,
) -> None:
    plan = written(tmp_path / "plan.json", name="refused", **changes)
    assert stack("run", plan, *flags) == 1
    assert said in complaint(capsys)
    assert stack("show", "refused") == 1
    assert "the log shows no training run called refused; tacit learn run PLAN begins one" in complaint(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "plan.json"), "no stack here; start one with: tacit up"),
        (("show", "digits"), "no stack here; start one with: tacit up"),
        (("run", "absent.json"), "absent.json"),
        (("run", "plan.json", "--plot", "run.png"), "give examples to try the models on: --test FILE"),
        (
            ("run", "plan.json", "--plot", "run.xyz", "--test", "test.csv"),
            "run.xyz: a picture's name ends with .png",
        ),
        (("run", "plan.json", "--out", "absent/model.npz"), "absent: no such folder"),
        (("run", "plan.json", "--test", "absent.csv"), "absent.csv"),
        (("run", "plan.json", "--out", "."), ".: not a regular file"),
        (("show", "plan.json", "--model", "."), ".: not a regular file"),
        (("run", "plan.json", "--out", "./plan.json"), "plan.json: it has the plan, and would be replaced"),
        (("run", "plan.json", "--test", "test.csv", "--out", "test.csv"), "it has the examples, and would be replaced"),
        (
            ("run", "plan.json", "--test", "test.csv", "--out", "x.png", "--plot", "x.png"),
            "x.png: the model is written there",
        ),
        (("plan",), "give the file of a plan, or --example to get one"),
        (("plan", "plan.json", "--example"), "plan.json: no such example; there are: digits, small"),
        (("run", "plan.json", "--test", "plan.json"), "plan.json: line 1 is not numbers with commas between"),
    ],
)
def test_what_a_run_needs_is_named_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(json.dumps(EXAMPLE))
    assert run(["learn", *words]) == 1
    assert said in complaint(capsys)
