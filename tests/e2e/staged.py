"""A staging deployment as a process of its own, and the commands given beside it, for the tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.stacks.processes import tacit_command
from tests.kit.processes import START_SECONDS, ReadyProcess

SECONDS = 120.0
QUESTION = ["--text", "How many?", "--metric", "mdvis", "--buckets", "0,1,2,4,8", "--rate", "1"]
LATE = "late"
"""The one cause that there may be: a busy machine may not get through in time, and says so."""


def has_namespaces() -> bool:
    """Whether networks of their own can be made here."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


class Staging:
    """Commands on one folder. ``patience``: seconds in which a command ends, or what is waited for is there."""

    patience = SECONDS

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.given(*arguments, "--state-dir", str(self.folder))

    def given(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = tacit_command(*arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=self.patience, check=False)

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + self.patience
        while not (answer := found()):
            assert time.monotonic() < deadline, what
            time.sleep(0.5)
        return answer


@contextmanager
def staging(
    folder: Path, mode: str, *more: str, devices: int, ready_seconds: float = START_SECONDS
) -> Iterator[tuple[Staging, dict[str, Any], ReadyProcess]]:
    """A deployment once it is ready, and what it said of itself. ``more``: further options."""
    options = ["--agents", str(devices), "--mode", mode, *more, "--json", "--state-dir", str(folder)]
    command = tacit_command("staging", "up", *options)
    with ReadyProcess(command, folder.with_suffix(".log")) as process:
        yield Staging(folder), process.ready(ready_seconds), process


def published(site: Staging, name: str, devices: int, least: int, seconds: int) -> str:
    """The hash of a recipe that every device is asked: written, approved and published over the admin API."""
    asked = ["--population", str(devices), "--min-batch-size", str(least), "--duration", str(seconds)]
    site.json("admin", "question", "new", "--name", name, *QUESTION, *asked)
    for person, act in (("analyst", "submit"), ("approver", "approve"), ("analyst", "publish")):
        document = site.json("admin", "question", act, name, "--as", person)
    found: str = document["hash"]
    return found


def all_at_work(site: Staging, devices: int) -> bool:
    """Whether every device works, and none is in trouble."""
    agents = site.json("staging", "status")["agents"]
    return agents["working"] == agents["devices"] == devices and not agents["failed"]


def row_of(report: dict[str, Any], recipe: str) -> dict[str, Any]:
    """The report's row of the recipe with this hash. Everything that was sent was counted, once, but what was late."""
    (row,) = [one for one in report["recipes"] if one["hash"] == recipe]
    assert {one["cause"] for one in report["mismatches"] if one["recipe"] == recipe} <= {LATE}, report
    assert row["released"] == row["journalled"]["sent"]
    found: dict[str, Any] = row
    return found
