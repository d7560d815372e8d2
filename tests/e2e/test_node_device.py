"""``examples/node``: a device in JavaScript, written from the documents, against the vectors and against a stack."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from client_agent.config import LOCK
from infra.authoring.devices_at_work import crowd_of
from infra.lab.kit.recipes import survey_from
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout, signing_key_of
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit import media_types
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.one_bit import OneBit
from tacit.recipe.derive import randomizer_of, task_id
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.writing.builder import propose
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.conftest import ROOT, skip_or_fail
from tests.e2e.test_up import Operator, Stack, collected
from tests.kit.processes import ReadyProcess

EXAMPLE = ROOT / "examples" / "node"
OLDEST = 18
DEVICES = 8
FLOOR = 6
DURATION = 8
STARTING = 9  # seconds that a stack takes to start, about
LEAST_LEFT = 9  # seconds of an epoch in which devices fetch the tokens of the next one
SENT = "visits: sent, the leader has it"
LEFT_OUT = (
    "visits: failed",
    "visits: expired",
    "visits: met after",
    "visits: no token",
)  # on a machine that is too slow
QUESTIONS: dict[str, dict[str, Any]] = {
    "histogram": {"encoder": {"kind": "buckets", "edges": [0, "0.5", "2.75", 4]}},
    "mean": {"encoder": {"kind": "number", "low": 0, "high": 10, "unit": "0.5"}, "randomizer": OneBit.NAME},
}
"""What is asked, by its statistic; every device has the datum 3."""


@pytest.fixture(scope="module")
def node() -> str:
    """The path of the program ``node``, of version 18 or newer."""
    found = shutil.which("node")
    if found is None:
        skip_or_fail("node", "node is not installed")
        raise AssertionError
    words = subprocess.run([found, "--version"], capture_output=True, check=True, text=True).stdout
    version = re.match(r"v([0-9]+)\.", words)
    if version is None or int(version[1]) < OLDEST:
        skip_or_fail("node", f"node {words.strip()} is older than {OLDEST}")
    return found


def test_the_example_device_computes_every_step_as_the_vectors_have_it(node: str) -> None:
    files = sorted(map(str, EXAMPLE.glob("*.test.mjs")))
    done = subprocess.run([node, "--test", *files], capture_output=True, check=False, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"^[#ℹ] pass ([0-9]+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= len(files)


def test_one_agent_works_in_a_folder_whichever_program_it_is(node: str, tmp_path: Path) -> None:
    """The one lock, taken by each while the other holds it, and free once its holder was killed."""
    layout = create_layout(tmp_path / "stack", StackOptions(), OsEntropy(), time.time())
    (config,) = provision_agents(layout, 1, OsEntropy(), time.time())
    python = [sys.executable, "-P", "-m", "infra.cli", "agent", "run", "--config", str(config), "--once"]
    javascript = [node, str(EXAMPLE / "device.mjs"), "--config", str(config), "--seconds"]
    with alone_in(config.parent, LOCK, "this test holds it"):
        done = subprocess.run([*javascript, "1"], capture_output=True, check=False, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"another agent is at work here (pid {os.getpid()})" in done.stderr
    with subprocess.Popen([*javascript, "120"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it works, without a stack: the log cannot be read"
            assert crowd_of(layout).working == 1, "it is counted among the agents at work"
            done = subprocess.run(python, capture_output=True, check=False, text=True, timeout=60)
            assert done.returncode == 1
            assert f"another agent is at work here (pid {process.pid})" in done.stderr
        finally:
            process.kill()
    with alone_in(config.parent, LOCK, "the killed device holds it"):
        pass


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack with short token epochs, the next of which begins soon after it is ready."""
    earliest = time.time() + STARTING + LEAST_LEFT
    epoch_seconds = min(range(DURATION + 2, DURATION + 26), key=lambda length: -earliest % length)
    options = StackOptions(
        epoch_seconds=epoch_seconds,
        batch_floor=FLOOR,
        poll_seconds=1,
        idle_seconds=0.2,
        slots_per_epoch=1,
        witnesses=2,
    )
    layout = create_layout(tmp_path / "stack", options, OsEntropy(), time.time())
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0"]
    with ReadyProcess([*command, "--state-dir", str(layout.state_dir)], tmp_path / "stderr") as process:
        yield Stack(layout, process, process.ready())


@contextmanager
def node_devices(node: str, layout: Layout, output: Path) -> Iterator[None]:
    """All devices of the stack in one Node process; each has the answer 3."""
    configs = provision_agents(layout, DEVICES, OsEntropy(), time.time())
    flags = [word for path in configs for word in ("--config", str(path))]
    command = [node, str(EXAMPLE / "device.mjs"), *flags, "--value", "mdvis=3", "--seconds", "170"]
    with output.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        try:
            yield
        finally:
            process.terminate()


def recipe_of_next_epoch(layout: Layout, statistic: str, now: float) -> Recipe:
    epoch = int(now // layout.options.epoch_seconds) + 1
    options = dict(QUESTIONS[statistic])
    asked = {"text": "How many doctor visits?", "metric": "mdvis", "statistic": statistic}
    return propose(
        survey_from(
            name="visits",
            question=Question.model_validate({**asked, "encoder": options.pop("encoder")}),
            population=DEVICES,
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=epoch, slot=0),
            start=epoch * layout.options.epoch_seconds,
            duration=DURATION,
            rate=Decimal(1),
            min_batch_size=FLOOR,
            time_precision=1,
            **options,
        ),
        layout.parties,
    )


async def publish(stack: Stack, http: HttpTransport, statistic: str = "histogram") -> Recipe:
    """A recipe of the next epoch, in the log as soon as its directory is, early enough for tokens."""
    layout = stack.layout
    deadline = time.monotonic() + 60
    while True:
        left = layout.options.epoch_seconds - time.time() % layout.options.epoch_seconds
        if left < LEAST_LEFT:
            await asyncio.sleep(left)
        recipe = await asyncio.to_thread(recipe_of_next_epoch, layout, statistic, time.time())
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), layout.parties.analyst.operator, signing_key_of(layout))
        headers = {"Content-Type": media_types.JSON}
        url = f"{stack.url('recipe_server')}/v1/leaves"
        answer = await http.request("POST", url, headers=headers, body=leaf.encode())
        if answer.status == 201:
            return recipe
        assert b"slot-key-missing" in answer.body, answer.body
        assert time.monotonic() < deadline
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("statistic", ["histogram", pytest.param("mean", marks=pytest.mark.slow)])
async def test_devices_in_javascript_contribute_and_every_acknowledged_report_is_counted(
    node: str, stack: Stack, tmp_path: Path, statistic: str
) -> None:
    output = tmp_path / "devices"
    async with HttpTransport() as http:
        operator = Operator(stack, http)
        with node_devices(node, stack.layout, output):
            recipe = await publish(stack, http, statistic)

            async def settled() -> bool:
                return sum(output.read_text().count(words) for words in (SENT, *LEFT_OUT)) == DEVICES

            await operator.until("every report", settled, seconds=90)
        sent = output.read_text().count(SENT)
        assert sent >= FLOOR
        await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
        result = await collected(operator, recipe)
        assert result["report_count"] == sent
        counted = sum(bucket["count"] for bucket in result["buckets"])
        if statistic == "histogram":
            assert counted == sent
        else:
            (row,), method, everybody = result["buckets"], randomizer_of(recipe), SampleDesign(1.0)
            assert row["estimate"] == estimator_of(method).estimate([counted], sent, everybody).values[0]
            (deviation,) = estimator_of(method).expected_stderrs([3], sent, everybody)
            assert abs(row["estimate"] - 3) < 4.5 * deviation, "which no number of ones among eight bits exceeds"
        status = f"/v1/tasks/{b64url(task_id(recipe))}/status"
        for service in ("leader", "helper"):
            assert (await operator.document(service, status))["distinct_nullifiers"] == sent
