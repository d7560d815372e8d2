"""``tacit agent host``: a process with many devices, told of in numbers, and journals that outlive its sudden end."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_agent.config import AgentConfig
from client_agent.host import Counts
from client_agent.journal import Fact
from client_agent.runner import DATABASE, open_store
from infra.cli import run
from infra.commands.hosting import raise_limit, words_of
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.service.base.config_files import load_config
from tests.kit.processes import running

Capture = pytest.CaptureFixture[str]
DEVICES = 6
COMMAND = [sys.executable, "-c", "from infra.cli import main; main()", "agent", "host"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Devices whose stack does not run."""
    now = SystemClock().now()
    layout = create_layout(tmp_path, StackOptions(epoch_seconds=60), OsEntropy(), now)
    return provision_agents(layout, DEVICES, SeededEntropy(1), now)[0].parents[1]


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def host_until(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """All that a host told which was ended as soon as its counts were as ``wanted``."""
    command = [*COMMAND, str(folder), "--every", "0.1", "--json"]
    with running(command, stderr=subprocess.PIPE, text=True) as host:
        assert host.stderr is not None
        lines = []
        for line in host.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "counts" and wanted(lines[-1]):
                break
        host.send_signal(signal.SIGTERM)
        lines += told(host.communicate(timeout=120)[1])
    assert host.returncode == 0
    return lines


def test_it_tells_numbers_and_why_a_device_fails_and_nothing_else(folder: Path) -> None:
    (folder / "3" / "identity.pem").unlink()
    lines = host_until(folder, lambda one: one["working"] == DEVICES - 1 and one["failed"] == 1)
    assert {line["event"] for line in lines} == {"started", "counts", "failed", "stopped"}
    (failed,) = [line for line in lines if line["event"] == "failed"]
    assert failed["folder"] == "3"
    (last,) = [line for line in lines if line["event"] == "counts" and line["working"] == DEVICES - 1]
    assert (last["devices"], last["troubles"]) == (DEVICES, {"log-trouble": DEVICES - 1})
    assert not {key for line in lines for key in line} & {"agent", "recipe", "device"}


def test_in_a_terminal_it_is_a_line_in_words(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["agent", "host", str(folder), "--until", "1", "--every", "0.1"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "starting the devices; Ctrl-C stops them all" in said
    assert f"of {DEVICES} devices at work" in said
    assert said.endswith("stopped")
    counts = Counts(500, 480, 15, 5, {"log-trouble": 3}, 1900, 1920, {"sent": 7, "scheduled": 90})
    assert words_of(counts) == (
        "480 of 500 devices at work · 15 starting or stopping · 5 failed · 3 with log-trouble · "
        "tokens held for 1900 of 1920 slots · 90 scheduled · 7 sent"
    )


def test_a_folder_that_is_none_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert run(["agent", "host", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.strip().endswith("none: no such folder")


def test_a_process_may_have_as_many_files_as_it_is_allowed() -> None:
    program = (
        "import resource; from infra.commands.hosting import raise_limit; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512)); assert raise_limit() == 512; "
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, 512)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert raise_limit() >= 64


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_a_host_that_is_killed_at_any_moment_leaves_every_journal_whole(
    folder: Path, kills: int, capsys: Capture
) -> None:
    for kill in range(kills):
        with running([*COMMAND, str(folder)], stderr=subprocess.PIPE, text=True) as host:
            assert host.stderr is not None
            assert "started" in host.stderr.readline()
            time.sleep(0.05 * kill + 0.1)
            host.send_signal(signal.SIGKILL)
    for number in range(DEVICES):
        database = folder / str(number) / DATABASE
        if database.exists():
            with sqlite3.connect(database) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            connection.close()
    assert host_until(folder, lambda one: one["working"] == DEVICES)[-1]["event"] == "stopped"
    assert asyncio.run(_heard(folder)) == DEVICES


async def _heard(folder: Path) -> int:
    """How many have a journal that fits its mark, with what they met with in it."""
    heard = 0
    for number in range(DEVICES):
        config = load_config(folder / str(number) / "agent.json", AgentConfig)
        store = await open_store(config, SystemClock())
        heard += bool(await store.fact(Fact.LOG_TROUBLE))
        await store.close()
    return heard
