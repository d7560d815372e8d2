"""``tacit learn model``, and what the other commands say of a plan whose model only the application knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.cli import run
from tacit.learning import model_file
from tacit.learning.plan import EXAMPLE

TRAINING: dict[str, Any] = EXAMPLE["training"]  # type: ignore[assignment]
ARRAYS = {"weights": np.full((64, 10), 0.5), "biases": np.zeros(10)}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("first.npz", allow_pickle=False, **ARRAYS)
    np.savez("other.npz", allow_pickle=False, **{name: array + 1 for name, array in ARRAYS.items()})
    Path("built-in.json").write_text(json.dumps(EXAMPLE))


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Path:
    """The example plan with the architecture that the command prints."""
    assert run(["learn", "model", "first.npz", "--out", "first.bin"]) == 0
    printed = json.loads(f"{{{capsys.readouterr().out}}}")
    path = Path("plan.json")
    path.write_text(json.dumps({**EXAMPLE, "training": {**TRAINING, **printed}}))
    return path


def test_arrays_become_a_model_file_and_the_member_of_a_plan_that_has_the_same_forecast(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("first.bin").read_bytes()
    assert model_file.decode(file).tolist() == [0.5] * 640 + [0.0] * 10
    spec = json.loads(plan.read_text())["training"]["architecture"]
    assert spec == {"kind": "external", "entries": 650, "initial": model_file.name_of(file)}
    found = []
    for name in (str(plan), "built-in.json"):
        assert run(["learn", "plan", name, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["forecast"])
    assert found[0] == found[1]
    assert run(["learn", "plan", str(plan)]) == 0
    assert "digits: external, 650 parameters" in capsys.readouterr().out
    assert run(["learn", "model", "first.bin", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"architecture": spec, "bytes": len(file)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "plan.json"), "give the file of the first one: --initial FILE"),
        (("show", "plan.json"), "give the file of the first one: --initial FILE"),
        (("run", "plan.json", "--initial", "other.npz"), "and the plan begins with another one"),
        (("run", "plan.json", "--initial", "absent.npz"), "absent.npz"),
        (("run", "plan.json", "--initial", "plan.json"), "plan.json: model: not a model file"),
        (("run", "built-in.json", "--initial", "first.npz"), "leave --initial out"),
        (("show", "digits", "--initial", "first.npz"), "models follow from the plan"),
        (("run", "plan.json", "--initial", "first.npz", "--test", "test.csv"), "leave --test out"),
        (("run", "plan.json", "--initial", "first.npz"), "no stack here; start one with: tacit up"),
        (("run", "plan.json", "--initial", "first.bin"), "no stack here; start one with: tacit up"),
        (("model", "plan.json"), "plan.json: model: not a model file"),
        (("model", "absent.npz"), "absent.npz"),
    ],
)
@pytest.mark.usefixtures("plan")
def test_what_is_missing_or_does_not_belong_together_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run(["learn", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_bench_trains_no_external_model(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "learning", "--plan", str(plan), "--epsilon", "2", "--seeds", "1"]) == 1
    assert "training.architecture" in capsys.readouterr().err
