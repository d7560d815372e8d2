"""The devices of a staging deployment, in counts, over the admin API and on the dashboard; elsewhere nobody counts."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.recipes import NOW
from services.admin.questions.events import Events
from services.admin.questions.fleet import (
    DEVICES_FILE,
    MOST_BYTES,
    MOST_RECIPES,
    QUIET_SECONDS,
    REPORT_FILE,
    FleetWatch,
    devices_of,
    read_fleet,
    report_of,
)
from tacit.service.base.secret_files import write_secret
from tests.http.admin_stage import Stage, serving
from tests.http.test_admin_pages import Browser, Html, signed_in

AT = int(NOW)
HASH = "a" * 43
COUNTS: dict[str, Any] = {
    "hosts": 2, "single": 1, "devices": 40, "working": 38, "changing": 1, "failed": 1, "slots_held": 70,
    "slots_known": 80, "entries": {"sent": 30, "not-sampled": 8}, "troubles": {"device-7 is away": 1},
}  # fmt: skip
REPORT: dict[str, Any] = {
    "devices": 40, "answered": 30, "journalled": 30, "released": 29, "wrong_clocks": {}, "driven_by_mqtt": {},
    "recipes": [
        {"recipe": "visits", "hash": HASH, "journalled": {"sent": 30, "not-sampled": 8}, "released": 29,
         "rejected": {}, "estimates": [{"label": "0", "estimate": 3, "stderr": 1, "truth": 4}]},
    ],
    "mismatches": [{"recipe": HASH, "cause": "lost", "count": 1, "detail": "sent, and neither counted nor rejected"}],
}  # fmt: skip


def tell(folder: Path) -> None:
    write_secret(folder / DEVICES_FILE, devices_of(AT, "namespaces", COUNTS).model_dump_json().encode())
    write_secret(folder / REPORT_FILE, report_of(AT, REPORT).model_dump_json().encode())


async def page(visit: Browser) -> str:
    assert (await visit.get("/fleet")).status == 200
    return visit.page


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, fleet=tmp_path / "fleet") as running:
        yield running


async def test_counts_are_told_to_whoever_may_read_and_nothing_of_one_device(stage: Stage, tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"devices": None, "report": None, "troubles": []}
    assert (await stage.call("GET", "/v1/fleet", role="viewer", status=200))[1] == nothing
    tell(tmp_path / "fleet")
    _, found = await stage.call("GET", "/v1/fleet", role="viewer", status=200)
    assert found["devices"] == {"at": AT, "mode": "namespaces"} | {n: c for n, c in COUNTS.items() if n != "troubles"}
    (row,) = found["report"]["recipes"]
    assert row == {name: REPORT["recipes"][0][name] for name in ("recipe", "hash", "journalled", "released")}
    assert found["report"]["mismatches"] == [{"recipe": HASH, "cause": "lost", "count": 1}]
    assert "device-7" not in json.dumps(found)
    assert (await stage.refused("GET", "/v1/fleet", role=None))[0] == 401


async def test_the_page_says_what_is_wrong_and_when_nothing_is_told_any_more(stage: Stage, tmp_path: Path) -> None:
    visit = await signed_in(stage, "viewer")
    assert 'href="/fleet"' in visit.page
    assert "There are no counts yet" in await page(visit)
    tell(tmp_path / "fleet")
    text = await page(visit)
    assert not Html(text).wrong
    for words in ("1 failed", "2 hosts", "does not agree", "8 not sampled", "1 lost"):
        assert words in text
    await stage.clock.advance(QUIET_SECONDS + 1)
    assert "the deployment seems to have ended" in await page(visit)
    agreeing = REPORT | {"released": 30, "mismatches": []}
    write_secret(tmp_path / "fleet" / REPORT_FILE, report_of(AT, agreeing).model_dump_json().encode())
    assert "Every answer that was sent" in await page(visit)


async def test_without_a_staging_deployment_there_is_no_such_page(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.prepare()
    await stage.start()
    assert (await stage.refused("GET", "/v1/fleet", role="viewer"))[0] == 404
    visit = await signed_in(stage, "viewer")
    assert 'href="/fleet"' not in visit.page
    assert (await visit.get("/fleet")).status == 404
    await stage.inner.close()


def garbage(path: Path) -> None:
    write_secret(path, b"\xff\x00{")


def another_member(path: Path) -> None:
    body = devices_of(AT, "processes", COUNTS).model_dump() | {"addresses": ["192.0.2.7"]}
    write_secret(path, json.dumps(body).encode())


def negative(path: Path) -> None:
    write_secret(path, json.dumps(devices_of(AT, "processes", COUNTS).model_dump() | {"devices": -1}).encode())


def huge(path: Path) -> None:
    path.touch(mode=0o600)
    os.truncate(path, 1 << 31)


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def folder_instead(path: Path) -> None:
    path.mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path)


def readable_by_others(path: Path) -> None:
    write_secret(path, devices_of(AT, "processes", COUNTS).model_dump_json().encode())
    path.chmod(0o644)


def deep(path: Path) -> None:
    write_secret(path, b"[" * (MOST_BYTES - 1))


SPOILED = [garbage, another_member, negative, huge, pipe, folder_instead, circle, readable_by_others, deep]


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda one: one.__name__)
async def test_a_file_that_cannot_be_used_is_a_trouble_and_no_failure(
    stage: Stage, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    (tmp_path / "fleet").mkdir(mode=0o700)
    spoil(tmp_path / "fleet" / DEVICES_FILE)
    _, found = await stage.call("GET", "/v1/fleet", role="viewer", status=200)
    assert found["devices"] is None
    (trouble,) = found["troubles"]
    assert trouble.startswith(DEVICES_FILE)
    assert str(tmp_path) not in trouble
    visit = await signed_in(stage, "viewer")
    assert DEVICES_FILE in await page(visit)


async def test_who_listens_hears_that_something_new_was_told(tmp_path: Path) -> None:
    events = Events()
    watch = FleetWatch(tmp_path, events)
    assert await watch.step() == 0
    with events.listening() as queue:
        tell(tmp_path)
        assert await watch.step() == 1
        assert await watch.step() == 0
        event = queue.get_nowait()
    assert event is not None
    assert (event.kind, event.document) == ("fleet", {})


def test_a_report_of_more_recipes_than_fit_has_the_newest(tmp_path: Path) -> None:
    hashes = [f"{number:043d}" for number in range(MOST_RECIPES + 5)]
    rows = [REPORT["recipes"][0] | {"hash": one} for one in hashes]
    wrong = [{"recipe": one, "cause": "late", "count": 1, "detail": ""} for one in hashes]
    made = report_of(AT, REPORT | {"recipes": rows, "mismatches": wrong})
    write_secret(tmp_path / REPORT_FILE, made.model_dump_json().encode())
    found = read_fleet(tmp_path)
    assert found.troubles == []
    assert found.report is not None
    assert [row.hash for row in found.report.recipes] == hashes[5:]
    assert {one.recipe for one in found.report.mismatches} == set(hashes[5:])
