"""The demo of local pan-privacy: real parties and devices, few of them, and few steps."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.lab.demo import watched_run
from infra.lab.demo.event_counts import Visits
from infra.lab.demo.results.report import write_report
from infra.lab.demo.results.view import Stages, show
from infra.lab.demo.results.watched_result import WatchedResult
from infra.lab.demo.watched_run import WatchedRun, Watching
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import NonZero
from tacit.panprivate.stored import OneServer
from tacit.service.base.log import set_log_level
from tests.kit.logged import Secrets, members_beyond

TWO, ONE = "pan-private", "pan-private-single"
COUNTS = tuple(number % 4 if number % 2 else 0 for number in range(60))
OTHER_CELLS = ((TWO, "count"), (TWO, "histogram"), (ONE, "histogram"), (ONE, "mean"))
TRIED = {ONE: 8, TWO: 8}

pytestmark = pytest.mark.false_alarm(1e-6, "devices draw from the system: estimates lie within 7 standard errors")


def ran(monkeypatch: pytest.MonkeyPatch, folder: Path, model: str, statistic: str) -> WatchedResult:
    monkeypatch.setattr(watched_run, "LEARNING", 20)
    monkeypatch.setattr(watched_run, "GUESSING", 40)
    visits = Visits("rows", "visit", COUNTS)
    watching = Watching(model, statistic, 2, 1 if statistic == "count" else 3)
    stages = Stages(Console(stderr=True, quiet=True))
    return asyncio.run(WatchedRun(visits, watching, folder / "stack", stages).run())


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Secrets]:
    """What is made in a run and must be in no log, while everybody logs all that they ever do."""
    found = Secrets()
    found.spy(monkeypatch)
    set_log_level("debug")
    yield found
    set_log_level("info")


def check_logs(secrets: Secrets, folder: Path, logged: str) -> None:
    """Neither services nor agents wrote what a device keeps or sends, nor any key; lines say what they may and no more,
    so that no number of one device is among them either."""
    secrets.read_files(folder / "stack")
    assert {"state", "token", "report", "key file"} <= set(secrets.kinds)
    lines = [line for line in logged.splitlines() if line]
    assert {json.loads(line)["service"] for line in lines} >= {"issuer", "relay", "gateway", "collector"}
    assert members_beyond(lines) == []
    assert secrets.found_in(logged) == []


def test_what_must_be_in_no_log_is_found_in_every_form_in_which_it_could_be(secrets: Secrets) -> None:
    key = PrivateKey.generate(OsEntropy())
    stored = OneServer(NonZero(key.public_key()))
    state = stored.step(1, stored.initial(OsEntropy()), OsEntropy())
    assert secrets.found_in(b64url(key.scalar)) == []
    secrets.note("key file", key.scalar)
    for form in (state.hex(), b64url(state), b64url(b"x" + state), repr(state), state[20:].hex()):
        assert secrets.found_in(f"a line with {form} in it") == ["state"], form
    assert secrets.found_in(f"{b64url(key.scalar)} {state.hex()}") == ["state", "key file"]
    assert secrets.found_in("deadbeef" * 8) == []
    get_line = '{"event": "released", "level": "info", "service": "analyzer", "timestamp": "", "recipe": "x", %s}'
    assert members_beyond([get_line % '"report_count": 3']) == []
    assert len(members_beyond([get_line % '"report_count": 3, "answer": 1', "answer 1"])) == 2


def check(result: WatchedResult, model: str) -> None:
    document = result.document()
    assert document["recipe"]["model"] == model
    assert (document["devices"], document["sampled"], document["accepted"]) == (60, 60, 60)
    assert (document["rejected"], document["steps"]) == (0, 2)
    for bucket in document["buckets"]:
        assert abs(bucket["estimate"] - bucket["truth"]) < 7 * bucket["stderr"]
    assert document["privacy"]["by_adversary"]["intruder"] == 0
    assert len(document["refused"]) == TRIED[model]
    assert len(document["intruder"]["attackers"]) == 5
    assert all(abs(one["advantage"]) < 7 * one["stderr"] for one in document["intruder"]["attackers"])
    verdict = document["intruder"]["verdict"]
    assert (verdict["false_alarm"], verdict["words"]) == (1e-3, result.verdict.words)
    assert verdict["least_advantage"] < max(one["advantage"] for one in document["intruder"]["attackers"])
    assert f"test of {result.guessed} guesses by each of 5 attackers, false alarm 0.001" in verdict["words"]
    looks = document["intruder"]["looks"]
    assert {look["events"] > 0 for look in looks} <= {True, False}
    assert looks
    for look in looks:
        assert look["bytes"][0] == look["bytes"][1]
        assert look["before"] != look["after"]


@pytest.mark.slow
def test_one_server_counts_what_devices_kept_and_refuses_what_it_must(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secrets: Secrets, capfd: pytest.CaptureFixture[str]
) -> None:
    result = ran(monkeypatch, tmp_path, ONE, "count")
    check(result, ONE)
    check_logs(secrets, tmp_path, capfd.readouterr().err)
    assert [bucket.label for bucket in result.buckets] == ["nonzero"]
    assert result.buckets[0].truth == sum(count > 0 for count in COUNTS)
    seen = {sighting.party: sighting.read for sighting in result.sightings}
    assert list(seen) == ["attester", "issuer", "relay", "gateway", "analyzer", "intruder"]
    assert seen["analyzer"]["randomised_answer"] in {"0", "1"}
    assert {refusal.attempt for refusal in result.refusals} >= {
        "a token spent twice",
        "a report that decrypts to a 2 where a bit belongs",
        "a sealed answer moved into another report",
        "a collection at B-1 = 19",
    }
    for width in (80, 120):
        shown = io.StringIO()
        show(result, Console(file=shown, width=width), write_report(result, tmp_path / "out"))
        lines = shown.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert "8,192 → 8,192" in shown.getvalue()
        assert "nonzero" in shown.getvalue()
        assert "test of 40 guesses" in " ".join(shown.getvalue().replace("│", " ").split())
        assert "coin flip" not in shown.getvalue()
    assert "What an intruder learns" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("model", "statistic"), OTHER_CELLS)
def test_every_statistic_comes_out_of_every_model(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    secrets: Secrets,
    capfd: pytest.CaptureFixture[str],
    model: str,
    statistic: str,
) -> None:
    result = ran(monkeypatch, tmp_path, model, statistic)
    check(result, model)
    assert ("share" in secrets.kinds) == (model == TWO)
    check_logs(secrets, tmp_path, capfd.readouterr().err)
    labels = {"count": ["nonzero"], "mean": ["mean"], "histogram": ["0", "1", "2", "3+"]}
    assert [bucket.label for bucket in result.buckets] == labels[statistic]
    write_report(result, tmp_path / "out")
    show(result, Console(file=io.StringIO(), width=80), [])


@pytest.mark.slow
def test_the_command_prints_one_document(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number % 3 or ''}\n" for number in range(60))
    (tmp_path / "computers.csv").write_text("id,crashes\n" + rows)
    flags = ["--model", TWO, "--input", "computers.csv", "--column", "crashes", "--steps", "2", "--json"]
    command = [sys.executable, "-m", "infra.cli", "demo", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "20 of 60 cells are empty" in done.stderr
    assert '"level"' not in done.stderr, "no service has anything to complain of"
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["buckets"][0]["truth"] == 40
    assert document["question"] == "On how many devices did crashes happen?"
    assert list(tmp_path.iterdir()) == [tmp_path / "computers.csv"]
