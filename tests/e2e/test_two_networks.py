"""Leader and helper processes on two machines, as far as the network goes: two namespaces and a cable between them.

The database, the stream and the broker are in the first, a worker of the leader and the helper in the second.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.conftest import skip_or_fail
from tests.e2e.two_networks import HERE, THERE

SCENARIO = Path(__file__).with_name("two_networks.py")
SECONDS = 600.0


def ip(*arguments: str) -> str:
    """Run ``ip``. Raises ``subprocess.CalledProcessError``."""
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout


@pytest.fixture
def networks() -> Iterator[tuple[str, str]]:
    """Two network namespaces of this test's own with a cable between them; whatever runs in them ends with them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        skip_or_fail("netns", "two network namespaces need root and the program ip (apt-get install iproute2)")
    mark = secrets.token_hex(3)
    names = (f"tacit-a-{mark}", f"tacit-b-{mark}")
    with contextlib.ExitStack() as stack:
        try:
            for name in names:
                ip("netns", "add", name)
                stack.callback(_remove, name)
            ends = (f"tca{mark}", f"tcb{mark}")
            ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
            for name, end, address in zip(names, ends, (HERE, THERE), strict=True):
                ip("-n", name, "address", "add", f"{address}/30", "dev", end)
                ip("-n", name, "link", "set", end, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            skip_or_fail("netns", f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield names


def _remove(name: str) -> None:
    """End what is left in a namespace that this test made, and the namespace."""
    for pid in ip("netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    ip("netns", "delete", name)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can reach."""
    made = Path(tempfile.mkdtemp(prefix="tacit-networks-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def scenario(folder: Path, names: tuple[str, str]) -> dict[str, Any]:
    """What happened, as the scenario tells it."""
    authority = Authority(folder, "authority")
    authority.issue("helper", (THERE,))
    command = ["ip", "netns", "exec", names[0], sys.executable, str(SCENARIO), str(folder), names[1]]
    environment = {**os.environ, "SSL_CERT_FILE": str(authority.certificate)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    logs = [f"{path.name}: {path.read_text()[-600:]}" for path in sorted(folder.glob("*.log"))]
    assert done.returncode == 0, "\n".join([done.stderr[-3000:], *logs])
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


@pytest.mark.slow
@pytest.mark.usefixtures("postgres", "make_redis", "make_mosquitto")
def test_worker_in_another_network_counts_its_part_and_what_it_leaves_is_finished_here(
    networks: tuple[str, str], folder: Path
) -> None:
    found = scenario(folder, networks)
    assert found["remarks"] == []
    different = {what: pair for what, pair in found["findings"].items() if pair[0] != pair[1]}
    assert different == {}
    assert {"leader: accepted", "helper: accepted", "released: contributions", "released: a"} <= set(found["findings"])
    accepted = found["findings"]["leader: accepted"][0]
    assert accepted == found["sampled"] > 0
    assert found["counted"] == accepted, "each once, whoever counted it"
    assert 0 < found["counted_there"] < accepted, "a part by the worker there, the rest by the one here"
