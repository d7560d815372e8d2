"""``tacit staging``: a deployment with real devices answers a recipe, and what they journalled is what was released."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infra.backing.mosquitto import find_mosquitto
from infra.base.service_calls import DEVICES as OF_DEVICES
from infra.stacks.options import ORGANISATIONS
from infra.tools.staging.networks import HUB, namespaces_of
from tests.conftest import skip_or_fail
from tests.e2e.staged import QUESTION, Staging, all_at_work, has_namespaces, published, row_of, staging

DEVICES, JOINED, LEFT = 26, 3, 2
MINUTES = ["--epoch-seconds", "60", "--per-host", "15"]
FEW, LEAST, EPOCH, SECONDS, EARLY = 13, 10, 40, 30, 15
"""The small deployment: its devices, B, its epoch, and a recipe's interval, published while so many seconds of the
epoch before are left."""


def answered(site: Staging, folder: Path, devices: int = DEVICES) -> dict[str, Any]:
    """The report after a recipe that every device is asked."""
    recipe = str(folder / "visits.json")
    population = ["--population", str(devices), "--min-batch-size", "20", "--duration", "40"]
    site.json("recipe", "new", "--name", "visits", *QUESTION, *population, "--out", recipe)
    site.json("recipe", "publish", recipe)
    site.json("collect", "visits", "--wait", "110")
    return site.json("staging", "report")


@pytest.mark.slow
def test_a_small_deployment_answers_a_question_of_two_persons_and_every_answer_is_counted_once(tmp_path: Path) -> None:
    mode = "namespaces" if has_namespaces() else "processes"
    given = ["--epoch-seconds", str(EPOCH), "--batch-floor", str(LEAST), "--single", "1"]
    with staging(tmp_path / "stack", mode, *given, devices=FEW) as (site, document, process):
        assert document["mode"] == mode
        assert tuple(document["organisations"]) == ORGANISATIONS
        assert document["agents"] == {"hosts": 1, "single": 1, "devices": FEW}
        left = EPOCH - time.time() % EPOCH
        time.sleep(left if left < EARLY else 0)
        recipe = published(site, "visits", FEW, LEAST, SECONDS)
        site.json("collect", "visits", "--wait", "110")
        report = site.json("staging", "report")
        assert report["devices"] == FEW
        fleet = site.json("admin", "fleet")
        assert fleet["troubles"] == []
        assert (fleet["devices"]["devices"], fleet["devices"]["mode"]) == (FEW, mode)
        assert fleet["report"]["released"] == report["released"]
        row = row_of(report, recipe)
        assert row["released"] >= LEAST
        assert sum(row["journalled"].values()) == FEW
        assert site.run("staging", "stop", "attester").returncode == 0
        told = site.run("staging", "status").stdout
        assert "attester is down: " in told
        assert "next: tacit staging start attester" in told
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0


@pytest.mark.slow
def test_real_devices_that_come_and_go_answer_and_their_journals_are_what_was_released(tmp_path: Path) -> None:
    with staging(tmp_path / "stack", "processes", *MINUTES, devices=DEVICES) as (site, document, process):
        assert document["mode"] == "processes"
        assert tuple(document["organisations"]) == ORGANISATIONS
        assert all(url.startswith("https://") for urls in document["organisations"].values() for url in urls.values())
        assert document["agents"] == {"hosts": 2, "single": 2, "devices": DEVICES}
        churn = ["--join", str(JOINED), "--leave", str(LEFT), "--restart", "2"]
        present = DEVICES + JOINED - LEFT
        assert site.json("staging", "agents", *churn)["devices"] == present
        site.until("every device at work", lambda: all_at_work(site, present))
        found = answered(site, tmp_path)
        assert found["mismatches"] == []
        assert found["answered"] == found["released"] == found["journalled"] >= 20
        assert found["devices"] >= present
        (row,) = found["recipes"]
        assert sum(one["truth"] for one in row["estimates"]) == found["answered"], "every device was asked"
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0
        assert site.run("staging", "status").returncode == 1


@pytest.mark.slow
def test_devices_with_wrong_clocks_and_those_that_a_broker_wakes_answer_beside_the_others(tmp_path: Path) -> None:
    if find_mosquitto() is None:
        skip_or_fail("mosquitto", "a broker needs Mosquitto (apt-get install mosquitto)")
    devices, wrong = 36, 6
    given = ["--clock-skew", "12", "--skewed", str(wrong / devices), "--driven-by", "both"]
    with staging(tmp_path / "stack", "processes", *MINUTES, *given, devices=devices) as (site, _, process):
        found = answered(site, tmp_path, devices)
        assert found["mismatches"] == []
        assert found["answered"] == found["released"] == found["journalled"] >= 20
        clocks = found["wrong_clocks"]
        assert clocks["devices"] == wrong
        assert 20 <= found["released"] - clocks["answered"] <= devices - wrong
        ends = clocks["answered"] + clocks["late"] + sum(clocks["refused"].values()) + clocks["not_asked"]
        assert ends <= wrong
        assert found["driven_by_mqtt"]["devices"] == devices / 2
        assert found["driven_by_mqtt"]["answered"] > 0
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0


@pytest.mark.slow
def test_every_organisation_in_a_network_of_its_own_reaches_those_it_speaks_with_alone(tmp_path: Path) -> None:
    if not has_namespaces():
        skip_or_fail("netns", "network namespaces need root and the program ip (apt-get install iproute2)")
    with staging(tmp_path / "stack", "namespaces", *MINUTES, devices=DEVICES) as (site, document, process):
        hosts = {
            name: {url.rpartition(":")[0] for url in urls.values()} for name, urls in document["organisations"].items()
        }
        assert len(set.union(*hosts.values())) == len(ORGANISATIONS), "an address each"
        names = namespaces_of(site.folder)
        reached = {name for name in ORGANISATIONS if reaches(names[OF_DEVICES], document["organisations"][name])}
        assert reached == {"relay", "attester"}
        assert not reaches(names["attester"], document["organisations"]["analyst"])
        found = answered(site, tmp_path)
        assert found["mismatches"] == []
        assert found["answered"] == found["released"] == found["journalled"] >= 20
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout  # noqa: S607
        assert not {names[HUB], names[OF_DEVICES]} & set(left.split())


def reaches(namespace: str, urls: dict[str, str]) -> bool:
    """Whether something in ``namespace`` connects to the first service."""
    host, _, port = next(iter(urls.values())).removeprefix("https://").rpartition(":")
    program = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
