"""The operations of docs/operations.md over a whole deployment with real devices at work: services started again one
after another, an organisation away, an older database put back. What was journalled is always what was released."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.stacks.layout import load_layout
from infra.stacks.processes import tacit_command
from tacit.task import CLOCK_LEEWAY
from tests.e2e.staged import QUESTION, Staging, row_of
from tests.kit.processes import ReadyProcess

pytestmark = pytest.mark.slow
DEVICES, EPOCH, DURATION, LEAST = 24, 120, 110, 10
READ_SECONDS = 45
"""Before a recipe begins, in which every device reads it and gets its token."""


class Site(Staging):
    """A deployment, and recipes one after another. On a busy machine a service takes a quarter of a minute to start."""

    patience = 600.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.layout = load_layout(folder)

    def publish(self, name: str) -> float:
        """Publish a recipe to every device; the POSIX second in which it begins."""
        left = EPOCH - time.time() % EPOCH
        time.sleep(left if left < READ_SECONDS else 0)
        path = str(self.folder / f"{name}.json")
        asked = [*QUESTION, "--duration", str(DURATION)]
        population = ["--population", str(DEVICES), "--min-batch-size", str(LEAST)]
        begins: int = self.json("recipe", "new", "--name", name, *asked, *population, "--out", path)["recipe"][
            "interval"
        ]["start"]
        self.json("recipe", "publish", path)
        return float(begins)

    def counted(self, name: str) -> dict[str, Any]:
        """The row of a recipe's report, once it is released; everything that was sent was counted, once."""
        self.until(f"{name} is released", lambda: self.run("collect", name, "--wait", "100", "--json").returncode == 0)
        report = json.loads(self.run("staging", "report", "--json").stdout)
        (recipe,) = [one["hash"] for one in report["recipes"] if one["recipe"] == name]
        row = row_of(report, recipe)
        assert row["released"] >= LEAST
        assert sum(row["journalled"].values()) == DEVICES
        return row

    def backup(self, folder: Path) -> None:
        """Back up every service, while all of them run."""
        for name, config in self.layout.configs.items():
            words = ["backup", name, "--config", str(config), "--out", str(folder / name), "--unencrypted"]
            assert self.given(*words).returncode == 0, name

    def restore(self, name: str, folder: Path) -> None:
        """Put a backup of a service in the place of its database."""
        config = self.layout.configs[name]
        done = self.given("restore", name, str(folder / name), "--config", str(config))
        assert done.returncode == 0, done.stderr


def until(second: float) -> None:
    time.sleep(max(0.0, second - time.time()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("staging") / "stack"
    options = [
        "--agents",
        str(DEVICES),
        "--single",
        "1",
        "--epoch-seconds",
        str(EPOCH),
        "--batch-floor",
        str(LEAST),
        "--json",
    ]
    command = tacit_command("staging", "up", *options, "--state-dir", str(folder))
    with ReadyProcess(command, folder.with_suffix(".log")) as process:
        process.ready()
        yield Site(folder)


def test_services_start_again_one_after_another_while_devices_answer(site: Site) -> None:
    until(site.publish("rolling"))
    answer = site.json("staging", "restart")
    assert answer["done"] == list(site.layout.services)
    assert all(answer["services"].values())
    site.counted("rolling")


def test_an_organisation_that_was_away_for_all_of_a_recipe_counts_it_afterwards(site: Site) -> None:
    begins = site.publish("without-helper")
    site.until("both opted in", lambda: site.json("recipe", "show", "without-helper")["state"] == "active")
    until(begins)
    assert site.json("staging", "stop", "helper")["services"]["helper"] is None
    until(begins + DURATION + 5)
    assert site.run("status", "--json").returncode == 1
    site.json("staging", "start", "helper")
    site.counted("without-helper")


def test_an_older_database_is_noticed_and_what_is_then_accepted_counts_nothing_twice(
    site: Site, tmp_path: Path
) -> None:
    site.backup(tmp_path / "older")
    site.publish("spent")
    row = site.counted("spent")
    site.backup(tmp_path / "newest")
    for name in ("leader", "helper"):
        site.json("staging", "stop", name)
        site.restore(name, tmp_path / "older")
        refused = site.run("staging", "start", name)
        assert refused.returncode == 1
        assert "the database is older than the last state of this service" in refused.stderr
    site.restore("helper", tmp_path / "newest")
    site.json("staging", "start", "helper")
    site.json("staging", "start", "leader", "--serve-with", "accept-rollback")
    until(time.time() + CLOCK_LEEWAY)  # what begins before is closed as well
    site.publish("afterwards")
    site.counted("afterwards")
    report = json.loads(site.run("staging", "report", "--json").stdout)
    (before,) = [one for one in report["recipes"] if one["recipe"] == "spent"]
    assert before["released"] == row["released"], "and nothing of it a second time"
