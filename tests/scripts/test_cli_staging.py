"""``tacit staging`` where there is nothing to do, or it cannot: one line that says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra.cli import run
from infra.stacks.layout import INDEX, UP_LOCK
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.tools.staging.running import RUNNING
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.system import OsEntropy

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("command", [["status"], ["report"], ["down"], ["agents", "--join", "1"]])
def test_without_a_deployment_it_says_how_to_start_one(command: list[str], tmp_path: Path, capsys: Capture) -> None:
    arguments = ["staging", *command, "--state-dir", str(tmp_path), "--json"]
    assert run(arguments) == 1
    words = json.loads(capsys.readouterr().out)["error"]["detail"]
    assert words.endswith("no staging deployment runs here; start one with: tacit staging up --agents 20")
    (tmp_path / RUNNING).write_text(json.dumps({"mode": "processes", "pid": 1, "agents": {}}))
    assert run(arguments) == 1, "what a killed one wrote is no deployment, and nobody is killed for it"
    assert "no staging deployment runs here" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["up"], ["staging", "up", "--mode", "processes"]])
def test_a_folder_with_files_of_somebody_else_is_refused_and_left_as_it_is(
    command: list[str], tmp_path: Path, capsys: Capture
) -> None:
    for name in ("report.txt", "photos", "b", "c"):
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    assert run([*command, "--agents", "0", "--state-dir", str(tmp_path)]) == 1
    words = "holds files that are not a stack's (b, c, photos, ...); give a new or empty folder with --state-dir\n"
    assert capsys.readouterr().err == f"tacit: {tmp_path}: {words}"
    assert sorted(tmp_path.iterdir()) == before


def test_churn_without_a_number_says_what_is_missing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / RUNNING).write_text(json.dumps({"mode": "processes", "pid": os.getpid(), "agents": {}}))
    with alone_in(tmp_path, UP_LOCK, "runs"):
        assert run(["staging", "agents", "--state-dir", str(tmp_path)]) == 2
    assert "give --join, --leave or --restart with a number" in capsys.readouterr().err


def test_a_mode_that_is_none_or_cannot_be_is_refused_in_one_line(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ["--state-dir", str(tmp_path / "none")]
    assert run(["staging", "up", "--mode", "jails", *folder]) == 2
    assert "'jails' is not one of 'processes', 'namespaces', 'containers'" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run(["staging", "up", "--mode", "namespaces", *folder]) == 1
    assert "mode namespaces needs root and the program ip" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/sbin/ip")
    assert run(["staging", "up", "--mode", "namespaces", "--with", "postgres", *folder]) == 1
    assert "which namespaces do not reach" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("given", [["--clock-skew", "0", "--skewed", "0.5"], ["--clock-skew", "9", "--skewed", "0"]])
def test_wrong_clocks_need_both_how_many_and_by_how_much(given: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert run(["staging", "up", *given, "--state-dir", str(tmp_path / "none")]) == 1
    assert "--skewed SHARE says how many clocks are wrong" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_devices_driven_by_a_broker_that_they_cannot_reach_are_refused(tmp_path: Path, capsys: Capture) -> None:
    given = ["--mode", "namespaces", "--driven-by", "mqtt", "--state-dir", str(tmp_path / "none")]
    assert run(["staging", "up", *given]) == 1
    assert "--driven-by mqtt needs a broker on loopback" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--agents", "3"], "2 examples for 3 devices; give each one: --agents 2"),
        (["--agents", "2", "--release-cap", "-1"], "--release-cap"),
    ],
)
def test_a_deployment_in_which_nothing_could_be_trained_is_refused_in_one_line_and_not_made(
    given: list[str], said: str, tmp_path: Path, capsys: Capture
) -> None:
    examples = tmp_path / "digits.csv"
    examples.write_text("1,0\n2,1\n")
    folder = ["--state-dir", str(tmp_path / "none"), "--epoch-seconds", "60"]
    assert run(["staging", "up", "--examples", str(examples), *given, *folder]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "none" / INDEX).exists()


def test_a_deployment_that_is_there_does_not_begin_to_accept_noise_shares_or_another_cap(
    tmp_path: Path, capsys: Capture
) -> None:
    create_layout(tmp_path / "stack", StackOptions(tls=True), OsEntropy(), 1_790_000_000.0)
    for given, said in (
        (["--allow-unbounded-local"], "does not accept noise shares"),
        (["--release-cap", "5"], "lets a batch tell the usual epsilon"),
    ):
        assert run(["staging", "up", *given, "--state-dir", str(tmp_path / "stack")]) == 1
        assert f"this stack {said}; choose another --state-dir" in capsys.readouterr().err
