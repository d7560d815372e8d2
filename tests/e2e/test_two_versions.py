"""An older version and this one side by side: the older one's deployment, whose services and devices are replaced one
after another by this one's, on their own databases, journals and configurations, while recipes run. The tests share one
deployment and run in the order of this file: each takes minutes, and one that lasts ten ends the run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, skip_or_fail
from tests.kit.processes import ReadyProcess

pytestmark = pytest.mark.slow
DEVICES, EPOCH, LEAST, READ_SECONDS, PATIENCE = 30, 120, 20, 50, 600.0
OLDER = "18a8d34a"
"""The commit whose databases this version still opens (``tests/contract/databases_of_18a8d34a``)."""
QUESTION = ["--text", "How many?", "--metric", "mdvis", "--buckets", "0,1,2,4,8", "--rate", "1", "--duration", "110"]
AT_LAST = ("issuer", "attester", "gateway", "relay", "collector", "recipe_server")


def git(*arguments: str) -> bytes:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)  # noqa: S607
    if found.returncode:
        skip_or_fail("history", "an older version is taken from the history of a git checkout, and there is none")
    return found.stdout


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the older version."""
    folder = tmp_path_factory.mktemp("older")
    (folder / "code.tar").write_bytes(git("archive", OLDER))
    with tarfile.open(folder / "code.tar") as archive:
        archive.extractall(folder / "code", filter="data")
    return folder / "code"


class Deployment:
    """The stack in ``folder``; ``code`` is that of the older version, and absent for this one's."""

    def __init__(self, folder: Path, older: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._older = older
        self._stack = stack

    def command(self, code: Path, *arguments: str) -> list[str]:
        temporary = [f"TMPDIR={self._older.parent}"] if code == self._older else []  # it leaves libraries there
        return ["env", f"PYTHONPATH={code}", *temporary, sys.executable, "-P", "-m", "infra.cli", *arguments]

    def given(self, *arguments: str) -> dict[str, Any]:
        """What a command of the older version prints."""
        command = self.command(self._older, *arguments, "--state-dir", str(self.folder), "--json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def start(self, code: Path, *arguments: str) -> dict[str, Any]:
        """Start what stays, for as long as the test takes; what it prints once it is ready."""
        log = self.folder.with_name("-".join(["log", str(time.monotonic_ns())]))
        process = self._stack.enter_context(ReadyProcess(self.command(code, *arguments), log))
        document = process.ready()
        if arguments[0] == "up":  # it would start a service again that ends here, at the address of the new one
            process.signal(signal.SIGSTOP)
        return document

    def replace(self, name: str) -> None:
        """End a service of the older version, and start this one on its configuration and database."""
        pid = json.loads((self.folder / "processes.json").read_text())[name]
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline, name
            time.sleep(0.1)
        self.start(ROOT, "serve", name, "--config", str(self.folder / name / "config.json"))

    @contextlib.contextmanager
    def devices(self, code: Path) -> Iterator[None]:
        """All devices, by one version."""
        configs = [f"--config={path}" for path in sorted(self.folder.glob("agents/*/agent.json"))]
        command = self.command(code, "agent", "run", *configs, "--json")
        with (self.folder / "devices.log").open("ab") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE)

    def publish(self, name: str) -> None:
        """A recipe that every device is asked in the next epoch."""
        left = EPOCH - time.time() % EPOCH
        time.sleep(left if left < READ_SECONDS else 0)
        path = str(self.folder / f"{name}.json")
        population = ["--population", str(DEVICES), "--min-batch-size", str(LEAST)]
        self.given("recipe", "new", "--name", name, *QUESTION, *population, "--out", path)
        self.given("recipe", "publish", path)

    def released(self, name: str) -> int:
        """How many contributions a recipe's release counted."""
        (result,) = self.given("collect", name, "--wait", "500")["results"]
        count: int = result["report_count"]
        return count

    def revision(self, name: str) -> str:
        """At which migration a service's database is."""
        with contextlib.closing(sqlite3.connect(self.folder / name / f"{name}.sqlite3")) as found:
            (revision,) = found.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(revision)


@pytest.fixture(scope="module")
def site(older: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The older version's deployment, as it runs."""
    with contextlib.ExitStack() as stack:
        made = Deployment(tmp_path_factory.mktemp("two-versions") / "stack", older, stack)
        options = ["--agents", str(DEVICES), "--batch-floor", str(LEAST), "--epoch-seconds", str(EPOCH), "--json"]
        made.start(older, "up", *options, "--state-dir", str(made.folder))
        yield made


def test_a_leader_of_this_version_and_everybody_else_of_the_older_one_release_a_recipe(
    site: Deployment, older: Path
) -> None:
    with site.devices(older):
        site.publish("mixed")
        site.replace("leader")
        assert site.released("mixed") >= LEAST


def test_the_others_and_the_devices_are_replaced_one_after_another_and_recipes_go_on(site: Deployment) -> None:
    before = site.revision("recipe_server")
    with site.devices(ROOT):
        site.publish("replaced")
        for name in ("helper", *AT_LAST):
            site.replace(name)
        assert site.revision("recipe_server") != before, "its database was brought up"
        assert site.released("replaced") >= LEAST, "all of this version, on the older one's databases and journals"
