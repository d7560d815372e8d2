"""``tacit status`` on a real small stack, on one that is half down, and on recorded status pages."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from rich.console import Console

from infra.backing.backing_servers import broker, redis
from infra.base.service_names import SERVICES
from infra.cli import run
from infra.commands.status import show
from infra.lab.kit.network import InProcessTransport
from infra.stacks.layout import Layout
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import PIDS
from infra.stacks.status import stack_status
from tacit import __version__
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.operations.issuance import SlotIssuance
from tacit.operations.servers import ServerStatus
from tacit.operations.status import DeploymentStatus, ProcessStatus, TaskStatus
from tacit.service.app import ServiceEnv, make_app
from tests.scripts.live_stack import in_thread, step_until

EPOCH_SECONDS = 3600
AS_JSON = "--json"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    options = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=2, batch_floor=2, poll_seconds=0.2)
    return create_layout(tmp_path_factory.mktemp("stack"), options, OsEntropy(), SystemClock().now())


@pytest.fixture(scope="module")
def stack(layout: Layout) -> Iterator[Path]:
    """A stack without devices in a thread of its own, in real time."""
    with in_thread(partial(_live, layout)):
        yield layout.state_dir


async def _live(layout: Layout, ready: threading.Event, ended: threading.Event) -> None:
    local = LocalStack(layout, SystemClock(), OsEntropy())
    async with local.running():
        await local.settle("issuer", "gateway", rounds=5)
        ready.set()
        await step_until(ended, local)


def asked(capsys: pytest.CaptureFixture[str], folder: Path) -> tuple[int, Any]:
    code = run(["status", "--state-dir", str(folder), AS_JSON])
    return code, json.loads(capsys.readouterr().out)


def test_stack_that_runs_is_well_and_shows_its_tasks(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = asked(capsys, stack)
    assert (code, document["ok"], document["problems"], document["tasks"]) == (0, True, [], [])
    assert {one["version"] for one in document["processes"]} == {__version__}
    assert all(one["up"] for one in document["processes"])
    assert len(document["processes"]) == len(SERVICES)
    assert document["servers"] == []
    file = str(tmp_path / "visits.json")
    question = ["--name", "visits", "--metric", "mdvis", "--buckets", "0,1,2", "--rate", "1", "--min-batch-size", "2"]
    where = ["--state-dir", str(stack)]
    assert run(["recipe", "new", *question, "--population", "3", "--out", file, *where]) == 0
    assert run(["recipe", "publish", file, *where]) == 0
    capsys.readouterr()
    for _ in range(200):
        code, document = asked(capsys, stack)
        (task,) = document["tasks"] or [{"state": "unseen"}]
        if task["state"] == "active" and task["helper"]:
            break
    assert (code, task["recipe"], task["state"], task["rule"]) == (0, "visits", "active", "")
    assert (task["leader"]["uploaded"], task["leader"]["released"], task["helper"]["aggregated"]) == (0, 0, 0)
    (stack / PIDS).write_text(json.dumps({"leader": os.getpid(), "helper": 2**22 + 1}))
    _, document = asked(capsys, stack)
    pids = {one["name"]: one["pid"] for one in document["processes"]}
    assert (pids["leader"], pids["helper"], pids["relay"]) == (os.getpid(), None, None)
    assert run(["status", *where]) == 0
    shown = capsys.readouterr().out
    assert "all is well" in shown
    assert "visits" in shown


def test_recipe_of_one_server_is_shown_as_its_analyzer_sees_it(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, where = str(tmp_path / "watched.json"), ["--state-dir", str(stack)]
    question = ["--name", "watched", "--model", "pan-private-single", "--event", "visit", "--statistic", "count"]
    asked_of = ["--steps", "3", "--step-seconds", "60", "--population", "300", "--min-batch-size", "2"]
    assert run(["recipe", "new", *question, *asked_of, "--out", file, *where]) == 0, capsys.readouterr()
    assert run(["recipe", "publish", file, *where]) == 0, capsys.readouterr()
    capsys.readouterr()
    for _ in range(200):
        _, document = asked(capsys, stack)
        found: list[dict[str, Any]] = [one for one in document["tasks"] if one["recipe"] == "watched"]
        (task,) = found or [{"state": "unseen"}]
        if task["state"] == "active":
            break
    assert (task["state"], task["rule"]) == ("active", "")
    assert (task["leader"], task["analyzer"]["aggregated"], task["analyzer"]["released"]) == ({}, 0, 0)
    assert run(["status", *where]) == 0
    assert "watched" in capsys.readouterr().out


def test_stack_that_is_down_is_told_service_by_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = create_layout(tmp_path / "stack", StackOptions(), OsEntropy(), SystemClock().now())
    code, document = asked(capsys, layout.state_dir)
    assert (code, document["ok"]) == (1, False)
    assert [line.split()[0] for line in document["problems"]] == list(layout.configs)
    assert run(["status", "--state-dir", str(layout.state_dir)]) == 1
    shown = capsys.readouterr().out
    assert "! leader is down" in " ".join(shown.split())
    assert "all is well" not in shown


def test_folder_without_a_stack_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--state-dir", str(tmp_path)]) == 1
    assert "no stack here" in capsys.readouterr().err


@pytest.mark.usefixtures("make_redis", "make_mosquitto")
def test_servers_are_asked_as_the_services_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entropy = OsEntropy()
    layout = create_layout(tmp_path / "stack", StackOptions(), entropy, SystemClock().now())
    with (
        redis(layout, wanted=True, url_file=None, entropy=entropy),
        broker(layout, wanted=True, url_file=None, entropy=entropy),
    ):
        pass
    _, document = asked(capsys, layout.state_dir)
    kept, heard = document["servers"]
    assert (kept["name"], kept["used_by"], kept["up"]) == ("redis", ["gateway"], False)
    assert (heard["name"], heard["up"]) == ("mosquitto", False)
    assert heard["used_by"] == ["analyzer", "collector", "helper", "leader", "recipe_server", "shuffler"]
    with redis(layout, wanted=False, url_file=None, entropy=entropy):
        _, document = asked(capsys, layout.state_dir)
    assert [one["up"] for one in document["servers"]] == [True, False]


LEADER = {
    "uploaded": 1_234_567,
    "pending": 3_210,
    "waiting": 1_210,
    "in_jobs": 2_000,
    "oldest_waiting_seconds": 300.4,
    "aggregated": 1_231_000,
    "rejected": 357,
    "rejected_by_cause": {"token-spent": 300, "report-replayed": 57},
    "jobs": {"done": 1231, "sent": 1, "formed": 1, "failed": 1},
    "failing_jobs": [
        {"job_id": "abcdefghijkl", "state": "sent", "size": 1000, "attempts": 7, "expired": 0, "cause": "answer 503"},
        {"job_id": "zyxwvutsrqpo", "state": "formed", "size": 1000, "attempts": 2, "expired": 2, "cause": ""},
    ],
    "released": 12,
}
HELPER = {"aggregated": 1_231_000, "rejected": 2, "rejected_by_cause": {"vdaf-verify": 2}}
FULL = DeploymentStatus(
    [
        ProcessStatus(
            "leader worker-1",
            "http://127.0.0.1:54321",
            up=True,
            version="0.1.0",
            pid=12345,
            ready=True,
            kernels={"prio3": "ifma", "batches": "off"},
        ),
        ProcessStatus("leader", "http://127.0.0.1:54320", up=True, detail="there is no room for the database"),
        ProcessStatus("recipe_server", "http://127.0.0.1:54322", up=False, detail="connection refused"),
    ],
    [
        ServerStatus("postgres", ["attester", "collector", "gateway", "helper", "issuer", "leader"], up=True),
        ServerStatus("mosquitto", ["helper", "leader"], up=False, detail="there is no announcement of the log"),
    ],
    [
        TaskStatus("doctor-visits", "hash", "active", "", cast("dict[str, Any]", LEADER), HELPER),
        TaskStatus("a-name-that-is-longer-than-any-table-has-room-for", "h", "refused", "budget-exceeded"),
    ],
    issuance=[
        SlotIssuance(20_000, 0, "doctor-visits", 1_240_000, 1_239_000, 1_241_000, 1_238_500, 1_231_000),
        SlotIssuance(20_000, 1, "", 4, 4, 4, 4, 0),
        SlotIssuance(20_000, 2, "", 12, 11, 11, 11, 0),
    ],
)


@pytest.mark.parametrize("width", [80, 120])
def test_screen_holds_everything_within_its_width(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(FULL, console)
    text = cast("io.StringIO", console.file).getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "reports are verified with: AVX-512 IFMA (leader worker-1)" in text
    assert "tokens and messages are opened with: OpenSSL, one by one (leader worker-1)" in text
    flat = " ".join(text.split())
    for expected in (
        "1,234,567",
        "1,231,000",
        "jobs: 1,231 done, 1 failed, 1 formed, 1 sent",
        "rejected: 57 report-replayed, 300 token-spent",
        "the oldest report has waited for 5 min",
        "helper: 1,231,000 counted, rejected: 2 vdaf-verify",
        "job abcdefgh of 1000 reports, sent, 7 attempts: answer 503",
        "2 attempts: its worker ended",
        "refused by rule budget-exceeded",
        "! leader is not ready: there is no room for the database",
        "! recipe_server is down: connection refused",
        "! mosquitto: there is no announcement of the log",
        "! doctor-visits: 1 job failed for good",
        "! doctor-visits: 2 jobs not progressing",
        "20000 0 1,241,000 1,240,000 1,238,500 1,239,000 1,231,000",
        "20000 2 11 12 11 11 0",
        "! slot 2 of epoch 20000: the issuer signed 12, more than the 11 requests that the attester released",
    ):
        assert expected in flat
    assert "20000 1 4" not in flat, "a slot without a recipe that is well"
    assert not FULL.document()["ok"]


@pytest.mark.parametrize(("leader", "log", "shown"), [("active", "over", "over"), ("active", "active", "active")])
async def test_a_recipe_whose_interval_has_ended_is_over_here_as_it_is_in_the_list(
    tmp_path: Path, leader: str, log: str, shown: str
) -> None:
    layout = create_layout(tmp_path, StackOptions(), OsEntropy(), SystemClock().now())
    network = InProcessTransport()
    recipe = {"hash": "h", "name": "visits", "state": log, "token": None, "interval": {"start": 60, "duration": 60}}
    rows = {
        "leader": {"recipes": [{"recipe_hash": "h", "task_id": None, "state": leader, "rule": ""}], "next": None},
        "recipe_server": {"recipes": [recipe], "next": None},
    }
    for name, answer in rows.items():
        app = make_app(name, ServiceEnv(SystemClock(), OsEntropy(), network, background=False))

        async def listed(_request: web.Request, answer: object = answer) -> web.Response:
            return web.json_response(answer)

        app.router.add_get("/v1/recipes", listed)
        await network.mount(layout.urls[name], app)
    async with network:
        (task,) = (await stack_status(layout, network)).tasks
    assert (task.recipe, task.state) == ("visits", shown)
