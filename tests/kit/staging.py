"""A staging deployment for tests: its command in the foreground, others on its folder, and a recipe answered."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.processes import tacit_command
from tests.kit.processes import START_SECONDS, ReadyProcess

DEVICES = 26
SECONDS = 120.0
QUESTION = ["--text", "How many?", "--metric", "mdvis", "--buckets", "0,1,2,4,8", "--rate", "1", "--duration", "40"]


class Staging:
    """Commands on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = tacit_command(*arguments, "--state-dir", str(self.folder))
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (answer := found()):
            assert time.monotonic() < deadline, what
            time.sleep(0.5)
        return answer


@contextmanager
def staging(
    folder: Path, mode: str, *more: str, ready_seconds: float = START_SECONDS
) -> Iterator[tuple[Staging, dict[str, Any], ReadyProcess]]:
    options = ["--agents", str(DEVICES), "--epoch-seconds", "60", "--mode", mode, "--json"]
    command = tacit_command("staging", "up", *options, "--per-host", "15", *more, "--state-dir", str(folder))
    with ReadyProcess(command, folder.with_suffix(".log")) as process:
        yield Staging(folder), process.ready(ready_seconds), process


def answered(site: Staging, folder: Path) -> dict[str, Any]:
    """The report after a recipe that every device is asked."""
    recipe = str(folder / "visits.json")
    population = ["--population", str(DEVICES), "--min-batch-size", "20"]
    site.json("recipe", "new", "--name", "visits", *QUESTION, *population, "--out", recipe)
    site.json("recipe", "publish", recipe)
    site.json("collect", "visits", "--wait", "110")
    return site.json("staging", "report")
