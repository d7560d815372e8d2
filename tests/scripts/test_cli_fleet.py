"""``tacit fleet``: what it refuses, in one line, before it asks anybody."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agent_configs import agent_config
from infra.stacks.layout import INDEX, load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.extras import install_command

Capture = pytest.CaptureFixture[str]
RUN = ["fleet", "run", "--recipe", "visits"]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack that is laid out, but does not run."""
    folder = tmp_path_factory.mktemp("fleet") / "stack"
    create_layout(folder, StackOptions(), SeededEntropy(b"fleet"), 1_700_000_000.0)
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (RUN, "--devices is needed"),
        ([*RUN, "--devices", "0"], "--devices"),
        ([*RUN, "--devices", "5", "--tokens", "free"], "--tokens is issued or direct"),
        ([*RUN, "--devices", "5", "--profile", "weekly"], "--profile"),
        ([*RUN, "--devices", "5", "--workers", "65"], "--workers"),
        (["fleet", "prepare", "--devices", "5", "--recipe", "visits"], "--out"),
    ],
)
def test_a_usage_error_names_the_option(arguments: list[str], words: str, capsys: Capture) -> None:
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_stack_that_does_not_run_is_one_line(state_dir: Path, capsys: Capture) -> None:
    assert run([*RUN, "--devices", "5", "--state-dir", str(state_dir)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tacit: the recipe server at http://127.0.0.1:")
    assert "does not answer" in error
    assert error.endswith(f"start the stack with: tacit up --state-dir {state_dir}\n")
    assert error.count("\n") == 1


def test_a_deployment_that_does_not_answer_is_named(state_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    layout = load_layout(state_dir)
    config = tmp_path / "agent.json"
    unused = {"kind": "csv", "path": str(tmp_path / "unused.csv")}
    config.write_text(agent_config(layout, tmp_path / "state", unused).model_dump_json())
    authority = ["--agent-config", str(config), "--authority", str(layout.device_authority)]
    assert run([*RUN, "--devices", "5", *authority]) == 1
    error = capsys.readouterr().err
    assert f"the relay at {layout.urls['relay']} does not answer" in error
    assert "is it running, and is the address right?" in error
    assert error.count("\n") == 1


def test_another_machine_is_refused_unless_it_is_meant(state_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    index = json.loads((state_dir / INDEX).read_text())
    index["urls"]["relay"] = "https://relay.example"
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "vendor").symlink_to(state_dir / "vendor")
    (copy / "policy.json").symlink_to(state_dir / "policy.json")
    (copy / INDEX).write_text(json.dumps(index))
    assert run([*RUN, "--devices", "5", "--state-dir", str(copy)]) == 1
    assert "relay.example is not this machine; pass --allow-remote" in capsys.readouterr().err


def test_a_missing_extra_is_named(state_dir: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numpy" else found(name))
    assert run([*RUN, "--devices", "5", "--state-dir", str(state_dir)]) == 1
    assert f"numpy; install it with: {install_command('fleet')}" in capsys.readouterr().err


def test_an_existing_file_is_not_prepared_over(state_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "old.fleet"
    out.write_bytes(b"mine")
    arguments = ["fleet", "prepare", "--devices", "5", "--recipe", "visits", "--out", str(out)]
    assert run([*arguments, "--state-dir", str(state_dir)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert out.read_bytes() == b"mine"


def test_a_file_that_is_not_prepared_is_one_line(state_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run([*RUN, "--prepared", str(tmp_path / "absent"), "--state-dir", str(state_dir)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
