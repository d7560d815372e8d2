"""The demo as a user runs it: a process, its JSON document, its files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.lab.demo import crowded
from infra.lab.demo import run as run_module
from infra.lab.demo.dataset import Dataset, Question, load_randhie
from infra.lab.demo.proposed import Shown
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DemoRun, rate_of
from tacit.dp.amplification import epsilon_fmt22
from tacit.recipe.writing.survey import NO_VALUE
from tests.kit.processes import running

DEVICES = 200
ROOT = Path(run_module.__file__).parents[3]
PATIENCE_SECONDS = 120.0


def tacit(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = tacit("demo", "--devices", str(DEVICES), "--json", cwd=tmp_path_factory.mktemp("demo"))
    assert done.returncode == 0, done.stderr
    assert '"level"' not in done.stderr, "no service has anything to complain of"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_demo_that_is_told_to_stop_or_killed_leaves_no_keys_behind(tmp_path: Path, number: int, status: int) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "infra.cli", "demo", "--devices", str(DEVICES), "--json"]
    with running(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        while demo.poll() is None and not any(tmp_path.glob("tacit-demo-*/*")):
            time.sleep(0.05)
        demo.send_signal(number)
        demo.communicate(timeout=120)
    assert demo.returncode == status
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_every_sampled_device_is_counted_once_and_nothing_else(document: dict[str, Any]) -> None:
    assert document["devices"] == DEVICES
    assert document["accepted"] == document["sampled"]
    assert document["rejected"] == 0
    assert document["rejected_by_cause"] == {}
    assert document["recipe"]["min_batch_size"] == int(0.8 * document["recipe"]["sampling_rate"] * DEVICES)


def test_truth_is_over_all_devices_and_estimates_sum_to_the_population_seen(document: dict[str, Any]) -> None:
    buckets = document["buckets"]
    data = load_randhie(DEVICES, Shown(rate_of))
    assert data.question.edges == (0, 1, 3), "as many as so few devices can show"
    assert [bucket["label"] for bucket in buckets] == ["0", "1 to <3", "3+", NO_VALUE]
    rows = Counter(0 if value == "0" else 1 if value in {"1", "2"} else 3 for value in data.values)
    assert [bucket["truth"] for bucket in buckets] == [rows[0], rows[1], rows[3], 0], "no row was changed"
    assert document["staged_devices"] == 51, "the attacks have devices of their own"
    seen = document["accepted"] / document["recipe"]["sampling_rate"]
    assert sum(bucket["estimate"] for bucket in buckets) == pytest.approx(seen, abs=0.1)
    for bucket in buckets:
        assert abs(bucket["estimate"] - bucket["truth"]) < 7 * bucket["stderr"]


def test_the_local_epsilon_is_the_largest_that_costs_one_without_sampling(document: dict[str, Any]) -> None:
    privacy = document["privacy"]
    assert privacy["n"] == document["recipe"]["min_batch_size"]
    assert privacy["delta"] == 1e-6
    assert epsilon_fmt22(privacy["epsilon0"], privacy["n"], 1e-6) <= 1
    assert epsilon_fmt22(privacy["epsilon0"] + 0.001, privacy["n"], 1e-6) > 1
    assert privacy["epsilon"] == privacy["by_adversary"]["aggregator"] < 1
    assert privacy["by_adversary"]["both_aggregators_with_relay"] == privacy["epsilon0"]


def test_every_party_saw_its_part_only(document: dict[str, Any]) -> None:
    seen = {sighting["party"]: sighting["read"] for sighting in document["observed"]}
    assert list(seen) == ["attester", "issuer", "relay", "gateway", "leader", "helper"]
    assert seen["relay"] == {"client_address": "127.0.0.1", "ciphertext_bytes": 4096}
    assert set(seen["attester"]) == {"device", "epoch", "slot"}
    assert "client_address" not in seen["gateway"]
    assert seen["leader"]["report_id"] == seen["helper"]["report_id"]
    assert seen["leader"]["first_bytes"] != seen["helper"]["first_bytes"]


def test_every_staged_attack_was_refused(document: dict[str, Any]) -> None:
    refused = {refusal["attempt"]: refusal["refused_by"] for refusal in document["refused"]}
    assert len(refused) == 7
    assert refused["a value outside the answers, told by who takes part"] == "every device"
    assert refused["a second history of the log, with a gateway key for one device"] == "witnesses, device"
    assert refused["a token spent twice"] == "leader"
    assert refused["a collection at B-1 = 49"] == "leader, helper"


@pytest.mark.slow
def test_own_data_gets_a_report_that_opens_offline(tmp_path: Path) -> None:
    rows = "".join(f"{number},{'cat' if number % 3 else 'dog'}\n" for number in range(200))
    (tmp_path / "pets.csv").write_text("id,pet\n" + rows)
    done = tacit("demo", "--input", "pets.csv", "--column", "pet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--categories cat,dog" in done.stderr
    assert "How is pet distributed?" in done.stdout
    page = (tmp_path / "demo-out" / "report.html").read_text()
    assert "http://" not in page.replace("http://127.0.0.1", "")
    assert "data:image/png;base64," in page
    assert (tmp_path / "demo-out" / "result.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_crowd_is_counted_once_each_by_the_same_parties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty agents, and the devices behind them in batches."""
    for name in ("MOST_AGENTS", "AGENTS_OF_A_CROWD"):
        monkeypatch.setattr(run_module, name, 60)
    monkeypatch.setattr(crowded, "SETTLE_SECONDS", 0.2)
    values = tuple(str(number % 4) for number in range(360)) + ("",) * 20
    question = Question("How many?", "visits", edges=(0, 1, 2, 3))
    stages = Stages(Console(stderr=True, quiet=True))
    found = asyncio.run(DemoRun(Dataset("rows", question, values), tmp_path, stages).run())
    assert found.devices == len(values)
    assert 0 < found.recipe["sampling_rate"] < 1
    assert 118 < found.sampled < 262, "half of them, but for a chance below 1e-12"
    assert (found.accepted, found.rejected) == (found.sampled, 0)
    assert len(found.refusals) == 7
    assert [bucket.truth for bucket in found.buckets] == [90, 90, 90, 90, 20], "what the rows say, with nothing changed"
    assert found.staged == 51
    for bucket in found.buckets:
        assert abs(bucket.estimate - bucket.truth) < 7 * bucket.stderr + 20


FAULTS = """
import itertools
from tacit.adapters.network import http
from tacit.ports import TransportError

calls, request = itertools.count(1), http.HttpTransport.request


async def sometimes(*arguments, **named):
    if next(calls) % 20 == 0:
        raise TransportError("somebody on the way is busy")
    return await request(*arguments, **named)


http.HttpTransport.request = sometimes
"""


@pytest.mark.slow
def test_a_demo_of_which_every_twentieth_request_fails_counts_everybody_once(tmp_path: Path) -> None:
    """Devices, services and the operator alike: every process of the run is made to fail."""
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULTS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'faults'}{os.pathsep}{ROOT}"}
    done = tacit("demo", "--devices", str(DEVICES), "--json", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["accepted"], found["rejected"]) == (found["sampled"], 0)
