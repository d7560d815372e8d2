"""``tacit log verify`` and ``monitor`` on a real small stack with two witnesses."""

from __future__ import annotations

import io
import json
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.base.log_watch import Cosigned, LogReport
from infra.cli import run
from infra.lab.kit.recipes import VISITS, survey_from
from infra.stacks.layout import Layout, load_layout, signing_key_of
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.views.log_view import show_report
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.monitor.findings import Finding
from tacit.recipe.model import TokenSlot
from tacit.recipe.writing.builder import propose
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.scripts.live_stack import in_thread, step_until

Capture = pytest.CaptureFixture[str]
EPOCH_SECONDS = 3600
MOST_LOOKS = 600


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stack with witnesses, keys and one recipe, in a thread of its own."""
    folder = tmp_path_factory.mktemp("stack")
    options = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=1, poll_seconds=0.2, witnesses=2)
    layout = create_layout(folder, options, OsEntropy(), SystemClock().now())
    with in_thread(partial(_live, layout)):
        yield folder


async def _live(layout: Layout, ready: threading.Event, ended: threading.Event) -> None:
    local = LocalStack(layout, SystemClock(), OsEntropy())
    async with local.running():
        await local.settle("issuer", "gateway", rounds=5)
        epoch = int(SystemClock().now()) // EPOCH_SECONDS + 1
        recipe = propose(
            survey_from(
                name="visits",
                question=VISITS,
                population=1000,
                rate=Decimal("0.5"),
                token=TokenSlot(issuer=layout.parties.issuer.name, epoch=epoch, slot=0),
                start=epoch * EPOCH_SECONDS,
                duration=EPOCH_SECONDS,
            ),
            layout.parties,
        )
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, signing_key_of(layout))
        async with HttpTransport() as transport:
            url, kind = layout.urls["recipe_server"], {"Content-Type": "application/json"}
            answer = await transport.request("POST", f"{url}/v1/leaves", headers=kind, body=leaf.encode())
            assert answer.status == 201
        await local.settle("leader", "helper")
        ready.set()
        await step_until(ended, local)


def output(capture: Capture, *words: str, status: int = 0) -> Any:
    assert run(["log", *words, "--json"]) == status
    return json.loads(capture.readouterr().out)


def test_an_honest_log_passes_every_check_and_is_remembered(stack: Path, capsys: Capture) -> None:
    first = output(capsys, "monitor", "--state-dir", str(stack))
    assert (first["ok"], first["findings"], first["recipes"]) == (True, [], 1)
    assert {one["witness"] for one in first["witnesses"]} == {"witness-1.example/tacit", "witness-2.example/tacit"}
    assert all(0 <= one["age"] < 600 for one in first["witnesses"])
    assert stat.S_IMODE((stack / "monitor.json").stat().st_mode) == 0o600
    second = output(capsys, "verify", "--state-dir", str(stack))
    assert f"it extends the {first['size']} entries seen before" in second["passed"]
    assert run(["log", "monitor", "--state-dir", str(stack)]) == 0
    text = capsys.readouterr().out
    assert "nothing found" in text
    assert "✓ every claim and every account holds" in text


def test_a_finding_ends_with_one(stack: Path, tmp_path: Path, capsys: Capture) -> None:
    body = json.loads((stack / "policy.json").read_text()) | {"max_epsilon_aggregator": "0.001"}
    strict = tmp_path / "strict.json"
    strict.write_text(json.dumps(body))
    found = output(capsys, "monitor", "--state-dir", str(stack), "--policy", str(strict), status=1)
    assert [(one["kind"], "claim-cap" in one["what"]) for one in found["findings"]] == [("recipe", True)]
    strict.write_text(json.dumps(body | {"witnesses": {**body["witnesses"], "keys": [_stranger(body)], "k": 1}}))
    found = output(capsys, "verify", "--state-dir", str(stack), "--policy", str(strict), status=1)
    assert [one["kind"] for one in found["findings"]] == ["witnesses"]


def _stranger(body: dict[str, Any]) -> str:
    """A witness that has cosigned nothing: the first one under another name."""
    key = NoteKey.decode(body["witnesses"]["keys"][0])
    return NoteKey("stranger.example/w", key.public, COSIGNATURE).encode()


def test_a_log_is_read_from_elsewhere_and_from_a_copy(stack: Path, tmp_path: Path, capsys: Capture) -> None:
    layout = load_layout(stack)
    elsewhere = ["--key", layout.log_key, "--policy", str(layout.policy_path)]
    copy = tmp_path / "copy"
    copy.mkdir()
    server = ["--server", layout.urls["recipe_server"]]
    saved = output(capsys, "verify", *server, *elsewhere, "--save", str(copy))
    assert output(capsys, "verify", "--from", str(copy), *elsewhere)["root"] == saved["root"]
    kept = ["--keep", str(tmp_path / "kept.json")]
    assert output(capsys, "monitor", "--from", str(copy), *elsewhere, *kept)["ok"]
    (copy / "tile/entries").rename(copy / "tile/hidden")
    assert output(capsys, "verify", "--from", str(copy), *elsewhere, status=1)["error"]["kind"] == "failed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "--key", "x"], "--key needs"),
        (["verify", "--server", "http://127.0.0.1:1", "--key", "KEY"], "log at http://127.0.0.1:1 cannot be read"),
        (["verify", "--ca", "x"], "--ca needs"),
        (["verify", "--server", "https://127.0.0.1:1", "--key", "KEY", "--ca", "nowhere"], "nowhere"),
        (["verify", "--server", "http://127.0.0.1:1"], "the log's --key"),
        (["monitor", "--from", ".", "--key", "KEY"], "give --keep"),
        (["verify", "--from", ".", "--key", "nothing"], "--key:"),
        (["verify", "--from", "nowhere", "--key", "KEY"], "no such folder"),
    ],
)
def test_what_is_missing_is_said_in_a_line(stack: Path, words: list[str], said: str, capsys: Capture) -> None:
    key = load_layout(stack).log_key
    assert run(["log", *(key if word == "KEY" else word for word in words)]) in {1, 2}
    assert said in capsys.readouterr().err


def test_a_monitor_that_follows_serves_counts_until_it_is_told_to_stop(stack: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "infra.cli", "log", "monitor", "--follow", "--state-dir", str(stack)]
    keep = ["--keep", str(tmp_path / "kept.json")]
    with subprocess.Popen([*command, *keep, "--json"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = line.split("; ")[1].split("/metrics")[0]
            text = ""
            for _ in range(MOST_LOOKS):
                text = _get(f"{url}/metrics")
                if "tacit_monitor_findings" in text:
                    break
                time.sleep(0.1)
            assert 'outcome="failed"} 0.0\n' in text
            assert "tacit_monitor_findings 0.0\n" in text
            assert "tacit_monitor_recipes 1.0\n" in text
            assert json.loads(_get(f"{url}/healthz"))["status"] == "ok"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def _get(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - a loopback address that this test started
        return str(answer.read().decode())


def test_findings_are_a_table_that_no_leaf_can_break() -> None:
    findings = [Finding("second-leaf", "takes what leaf 1 holds: slot i 2 3", 7), Finding("ledger", "over \x1b[31m")]
    report = LogReport("log.example", 0, 1234567, bytes(32), findings, ["one thing"], [Cosigned("w.example", None)], 3)
    console = Console(file=io.StringIO(), width=120, highlight=False)
    show_report(report, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1,234,567" in text
    assert "w.example: no cosignature" in text
    assert "second-leaf" in text
    assert "\x1b" not in text
    assert "2 findings" in text
