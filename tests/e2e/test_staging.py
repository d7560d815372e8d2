"""``tacit staging``: a deployment with real devices answers a recipe, and what they journalled is what was released."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.stack_options import ORGANISATIONS
from infra.staging.networks import DEVICES as OF_DEVICES
from infra.staging.networks import HUB, namespaces_of
from tests.conftest import skip_or_fail
from tests.kit.staging import DEVICES, answered, staging

pytestmark = pytest.mark.slow
JOINED, LEFT = 3, 2


def test_real_devices_that_come_and_go_answer_and_their_journals_are_what_was_released(tmp_path: Path) -> None:
    with staging(tmp_path / "stack", "processes") as (site, document, process):
        assert document["mode"] == "processes"
        assert tuple(document["organisations"]) == ORGANISATIONS
        assert all(url.startswith("https://") for urls in document["organisations"].values() for url in urls.values())
        assert document["agents"] == {"hosts": 2, "single": 2, "devices": DEVICES}
        churn = ["--join", str(JOINED), "--leave", str(LEFT), "--restart", "2"]
        present = DEVICES + JOINED - LEFT
        assert site.json("staging", "agents", *churn)["devices"] == present

        def at_work() -> bool:
            agents = site.json("staging", "status")["agents"]
            return agents["working"] == agents["devices"] == present and not agents["failed"]

        site.until("every device at work", at_work)
        found = answered(site, tmp_path)
        assert found["mismatches"] == []
        assert found["answered"] == found["released"] == found["journalled"] >= 20
        assert found["devices"] >= present
        (row,) = found["recipes"]
        assert sum(one["truth"] for one in row["estimates"]) == found["answered"], "every device was asked"
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0
        assert site.run("staging", "status").returncode == 1


def test_every_organisation_in_a_network_of_its_own_reaches_those_it_speaks_with_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        skip_or_fail("netns", "network namespaces need root and the program ip (apt-get install iproute2)")
    with staging(tmp_path / "stack", "namespaces") as (site, document, process):
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
