"""``tacit bench dap`` against our own leader and helper: every report is counted, and what is not is said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from infra.backing.postgres import PostgresServer
from infra.cli import run
from infra.lab.bench.dap import run as running
from infra.lab.bench.dap.run import Found, Load, Prepared, measure, named_processes, require_near
from infra.lab.bench.dap.statistics import Statistics
from infra.lab.bench.dap.tasks import Collecting, DapTask, fresh_task, known_task
from infra.lab.commands.bench_dap import _show, _total_of
from infra.tools.interop.run import storage_of
from tacit.aggregator.keys import generate_hpke_key, write_hpke_key
from tacit.codec import b64url
from tacit.errors import Fatal, UsageError
from tacit.messages import Role
from tacit.service.base.secret_files import write_secret
from tacit.version import VERSIONS
from tests.http.interop_stage import Bench, bench

pytestmark = pytest.mark.false_alarm(0, "sums are exact, orders and pauses are nobody's", runs=3)
COUNT: dict[str, Any] = {"vdaf": {"type": "Prio3Count"}, "min_batch_size": 1, "time_precision": 60}
HISTOGRAM = {**COUNT, "vdaf": {"type": "Prio3Histogram", "length": "5", "chunk_length": "2"}}
HERE = {"this process": os.getpid()}
LOAD = Load(40, 2000.0, settle=0.0)


@pytest.fixture
async def servers() -> AsyncIterator[Bench]:
    async with bench("dap-18") as found:
        yield found


def urls_of(servers: Bench) -> dict[Role, str]:
    return {Role.LEADER: servers.urls["leader"], Role.HELPER: servers.urls["helper"]}


@pytest.mark.parametrize("shape", [COUNT, HISTOGRAM], ids=["count", "histogram"])
async def test_every_report_is_uploaded_collected_and_paid_for(
    servers: Bench, monkeypatch: pytest.MonkeyPatch, shape: dict[str, Any]
) -> None:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.05)
    asked = await fresh_task(servers.http, urls_of(servers), shape, VERSIONS["dap-18"])
    found = await measure(servers.http, asked, HERE, LOAD)
    assert (found.accepted, found.collected, found.errors) == (40, True, [])
    (uploading, afterwards) = found.us_per_report()["this process"]
    assert uploading > 0
    assert found.total == pytest.approx(uploading + afterwards)


async def test_a_task_that_the_servers_have_is_read_from_its_description(
    servers: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.05)
    key = generate_hpke_key(7, os.urandom)
    await servers.describe({"type": "Prio3Count"}, batch=1)
    for role in ("leader", "helper"):
        told = await servers.told(role, "add_task", servers.of_aggregator(role, b64url(key.config.encode())))
        assert told == {"status": "success"}
    collecting = Collecting(key, servers.collector_token)
    asked = await known_task(servers.http, servers.members, VERSIONS["dap-18"], collecting)
    found = await measure(servers.http, asked, HERE, LOAD)
    assert (found.accepted, found.collected, found.errors) == (40, True, [])
    watched = DapTask(asked.task, None)
    found = await measure(servers.http, watched, HERE, LOAD)
    assert (found.accepted, found.collected) == (40, False)


async def test_a_leader_that_loses_or_changes_reports_is_told_on(
    servers: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.05)
    asked = await fresh_task(servers.http, urls_of(servers), COUNT, VERSIONS["dap-18"])
    early = await measure(servers.http, DapTask(asked.task, None), HERE, Load(3, 2000.0, settle=0.0))
    assert early.accepted == 3
    more = await measure(servers.http, asked, HERE, LOAD)
    assert more.errors == ["43 of 40 accepted reports were collected"]
    other = await fresh_task(servers.http, urls_of(servers), COUNT, VERSIONS["dap-18"])
    monkeypatch.setattr(Prepared, "_answers", lambda _self, count: [1] * count)
    changed = await measure(servers.http, other, HERE, LOAD)
    assert changed.errors == ["the collected aggregate is not that of the reports that were sent"]


async def test_a_report_that_is_answered_with_an_error_is_not_accepted(
    servers: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bytes] = []

    async def every_fourth(request: web.Request) -> web.Response:
        answered.append(await request.read())
        return web.Response(body=b"" if len(answered) % 4 else b"an upload error")

    asked = await fresh_task(servers.http, urls_of(servers), COUNT, VERSIONS["dap-18"])
    app = web.Application()
    app.router.add_post("/reports", every_fourth)
    async with TestServer(app) as server:
        monkeypatch.setattr(DapTask, "uploads", str(server.make_url("/reports")))
        found = await measure(servers.http, DapTask(asked.task, None), HERE, LOAD)
    assert len(set(answered)) == 40
    assert (found.accepted, found.errors) == (30, ["10 uploads were answered with an error"])


async def test_words_of_a_server_that_refuses_the_task_are_passed_on(servers: Bench) -> None:
    wrong = {**COUNT, "vdaf": {"type": "Prio4"}}
    with pytest.raises(UsageError, match=r"add_task at .*Prio4 is not supported"):
        await fresh_task(servers.http, urls_of(servers), wrong, VERSIONS["dap-18"])
    async with TestServer(web.Application()) as empty:
        nowhere = dict.fromkeys(urls_of(servers), str(empty.make_url("/")))
        with pytest.raises(UsageError, match=r"endpoint_for_task at .*: status 404"):
            await fresh_task(servers.http, nowhere, COUNT, VERSIONS["dap-18"])


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:80/", "http://8.8.8.8:80/", "https://127.0.0.1:1/", "http://127.0.0.1/"]
)
def test_no_load_is_sent_to_strangers(url: str) -> None:
    if "192.0.2" not in url:
        with pytest.raises(UsageError):
            require_near(url)
    for near in ("http://127.0.0.1:1/", "http://10.1.2.3:80/", "http://[::1]:80/"):
        require_near(near)


def test_processes_are_named_and_none_is_counted_twice() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            named = named_processes([child.pid], None)
            assert list(named.values()) == [child.pid]
            assert str(child.pid) in next(iter(named))
            assert named_processes([], child.pid) == {f"database {child.pid}": child.pid}
            with pytest.raises(UsageError, match="is a child of another one"):
                named_processes([os.getpid(), child.pid], None)
        finally:
            child.kill()
    with pytest.raises(UsageError, match="no process has the id"):
        named_processes([2**22 + 1], None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --leader and --helper, or --task"),
        (["--leader", "http://127.0.0.1:1/"], "give --leader and --helper, or --task"),
        (["--task", "x", "--leader", "a", "--helper", "b"], "give --leader and --helper, or --task"),
        (["--leader", "a", "--helper", "b", "--collector-key", "x"], "--collector-key goes with --task"),
        (
            ["--leader", "a", "--helper", "b", "--profile", "dap-09"],
            "--profile must be one of dap-18, dap-19, janus-main",
        ),
        (["--leader", "a", "--helper", "b", "--processes", "1,x"], "--processes takes process ids"),
        (["--leader", "a", "--helper", "b"], "name the processes to count"),
        (["--leader", "a", "--helper", "b", "--processes", "1", "--vdaf", "sum"], "--vdaf must be count or histogram"),
        (["--leader", "http://1.1.1.1:80", "--helper", "b", "--processes", "1"], "no load is sent there"),
        (["--task", "missing.json", "--processes", "1"], "not a task as the interoperation test API describes it"),
        (["--task", "missing.json", "--processes", "1", "--collector-key", "x"], "go together"),
        (["--task", "missing.json", "--processes", "1", "--beside", "x"], "not a document of tacit bench dap --json"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["bench", "dap", *arguments]) in {1, 2}
    assert words in capsys.readouterr().err


def test_a_comparison_says_how_many_times_the_other_one_s_cost_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found(accepted=1000, collected=True, uploading={"leader": 0.2}, afterwards={"leader": 0.1})
    assert found.total == pytest.approx(300.0)
    for before, words in ((250.0, "1.20 times the other implementation (wanted: at most 1.5): met"), (150.0, "missed")):
        _show(found, "fresh", before)
        assert words in (shown := capsys.readouterr().out)
        assert "PostgreSQL's statistics: fresh" in shown


async def test_statistics_are_made_of_what_the_tables_hold_before_anything_is_measured_and_after_the_uploads(
    servers: Bench, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "url").touch(0o600)
    (tmp_path / "url").write_text(postgres.url)
    engine, statistics, looks = create_async_engine(postgres.url), Statistics([tmp_path / "url"]), list[float]()
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE measured AS SELECT generate_series(1, 4321) AS number"))
    estimated = text("SELECT reltuples FROM pg_class WHERE relname = 'measured'")
    asked = DapTask((await fresh_task(servers.http, urls_of(servers), COUNT, VERSIONS["dap-18"])).task, None)

    def look(_pid: int) -> float:
        looks.append(statistics.seconds)
        return 7.0 + statistics.seconds

    monkeypatch.setattr(running, "cpu_of_tree", look)
    try:
        found = await measure(servers.http, asked, {"database 1": 1}, LOAD, statistics)
        async with engine.begin() as connection:
            assert (await connection.execute(estimated)).scalar_one() == 4321
    finally:
        async with engine.begin() as connection:
            await connection.execute(text("DROP TABLE measured"))
        await engine.dispose()
    assert statistics.state == "fresh"
    assert 0 < looks[0] < looks[1]
    assert found.total == pytest.approx(0, abs=1e-6), "what ANALYZE took is not the database's"


async def test_statistics_that_cannot_be_made_are_told_without_the_url(tmp_path: Path) -> None:
    for host, words in (("127.0.0.1:1", r"url: ANALYZE failed there"), ("192.0.2.7", "must be on this machine")):
        (tmp_path / "url").touch(0o600)
        (tmp_path / "url").write_text(f"postgresql://one:hidden@{host}/two")
        with pytest.raises(UsageError, match=words) as caught:
            await Statistics([tmp_path / "url"]).make()
        assert "hidden" not in str(caught.value)


def test_a_comparison_of_two_states_of_statistics_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"us_per_report": 250.0, "statistics": "fresh"}')
    assert _total_of(file, "fresh") == 250.0
    with pytest.raises(
        UsageError, match=r"with statistics fresh, this would be with statistics as found \(--analyze\)"
    ):
        _total_of(file, "as found")
    file.write_text('{"us_per_report": 250.0}')
    assert _total_of(file, "as found") == 250.0


def test_storage_is_an_aggregator_s_and_its_url_is_read_from_a_secret_file(tmp_path: Path) -> None:
    file = tmp_path / "leader.url"
    write_secret(file, b"postgresql://one:two@127.0.0.1:5432/three")
    kept = storage_of("leader", file, batch_crypto=False)
    assert kept.url == "postgresql+asyncpg://one:two@127.0.0.1:5432/three"
    assert kept.limits.group_delay > storage_of("leader", None, batch_crypto=False).limits.group_delay
    for role in ("client", "collector"):
        with pytest.raises(UsageError, match="are for leader and helper"):
            storage_of(role, file, batch_crypto=False)


def test_both_files_of_a_collector_are_needed_and_read(tmp_path: Path) -> None:
    key = generate_hpke_key(3, os.urandom)
    write_hpke_key(tmp_path / "key.json", key)
    write_secret(tmp_path / "token", b"tacit-of-the-collector")
    read = Collecting.of_files(tmp_path / "key.json", tmp_path / "token")
    assert read is not None
    assert (read.key.config, read.headers) == (key.config, {"Authorization": "Bearer tacit-of-the-collector"})
    assert Collecting.of_files(None, None) is None
    with pytest.raises(UsageError, match="go together"):
        Collecting.of_files(tmp_path / "key.json", None)


async def test_a_leader_that_never_releases_is_given_up(servers: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(running, "PATIENCE", 0.3)
    asked = await fresh_task(servers.http, urls_of(servers), {**COUNT, "min_batch_size": 1000}, VERSIONS["dap-18"])
    with pytest.raises(Fatal, match=r"released nothing|answered 400 to the collector"):
        await measure(servers.http, asked, HERE, Load(5, 2000.0))
