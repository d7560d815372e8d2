"""Releases as the admin service keeps and shows them: what the collector is asked for, and for how much of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.admin.pages.views.published import SHOWN
from services.admin.questions import releases as kept
from tacit.codec import b64url
from tacit.service.http.paging import DEFAULT_LIMIT
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_stage import Stage, prepared
from tests.http.test_admin_pages import Html, release, signed_in

MANY = 450


@pytest.fixture
def collector() -> CollectorStub:
    """One that has released much."""
    found = CollectorStub()
    rest = {
        "privacy": {"epsilon": 1.0, "delta": 0, "mechanism": "coin", "by_adversary": {}},
        "buckets": [{"label": "yes", "count": 250, "estimate": 240.5, "stderr": 9.5}],
    }
    found.released = [release(f"weekly-{number}", recipe(number), number) | rest for number in range(MANY)]
    return found


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


def recipe(number: int) -> str:
    return b64url(number.to_bytes(32, "big"))


async def pages(stage: Stage, query: str = "") -> list[list[dict[str, Any]]]:
    """Read all results page by page."""
    found, cursor = [], "0"
    while cursor is not None:
        _, page = await stage.call("GET", f"/v1/results?cursor={cursor}{query}", status=200)
        found.append(page["results"])
        cursor = page["next"]
    return found


async def test_a_release_is_read_once_however_often_pages_show_it(stage: Stage, collector: CollectorStub) -> None:
    found = await pages(stage)
    assert [one for page in found for one in page] == collector.released
    assert [len(page) for page in found] == [DEFAULT_LIMIT] * (MANY // DEFAULT_LIMIT)
    asked = MANY // DEFAULT_LIMIT
    assert collector.told == MANY + asked - 1, "once each, and the last one whenever somebody looks"
    browser = await signed_in(stage, "viewer")
    before = collector.told
    for number, path in enumerate(("/", "/results", f"/results?cursor={SHOWN}", "/"), 1):
        await browser.get(path)
        assert collector.told == before + number, path
    collector.released.append(release("newest", recipe(MANY), MANY))
    await browser.get("/")
    assert ("newest" in browser.page, collector.told) == (True, before + 6)


async def test_results_are_paged_on_the_page_and_of_one_recipe(stage: Stage, collector: CollectorStub) -> None:
    collector.released += [release("again", recipe(0), MANY + number) for number in range(3)]  # other labels
    assert await pages(stage, f"&limit=3&recipe={recipe(0)}") == [
        [collector.released[0], *collector.released[MANY : MANY + 2]],
        [collector.released[-1]],
    ]
    browser = await signed_in(stage, "viewer")
    await browser.get("/results")
    named = [f"weekly-{number}" for number in reversed(range(MANY))]
    assert ["2 earlier" in browser.page, f"{named[SHOWN - 2]} <" in browser.page] == [True, True]
    assert f"{named[SHOWN - 1]} <" not in browser.page
    (following,) = [one["href"] for one in Html(browser.page).all("a") if one.get("rel") == "next"]
    assert following is not None
    await browser.get(following)
    assert [f"{named[SHOWN - 1]} <" in browser.page, not Html(browser.page).wrong] == [True, True]


async def test_documents_are_kept_within_bounds_and_asked_for_again_where_they_are_shown(
    stage: Stage, collector: CollectorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = len(json.dumps(collector.released[0]))
    monkeypatch.setattr(kept, "MOST_BYTES", 20 * one)
    assert [item for page in await pages(stage) for item in page] == collector.released
    releases = stage.admin.releases
    assert releases is not None
    assert sum(map(len, releases._documents.values())) <= 20 * one
    before = collector.told
    _, page = await stage.call("GET", "/v1/results?cursor=100&limit=30", status=200)
    assert (page["results"], collector.told) == (collector.released[100:130], before + 1 + 30)
    _, table = await stage.call("GET", "/v1/results?format=csv", status=200)
    assert table.count(b"weekly-") >= MANY
    _, part = await stage.call("GET", "/v1/results?format=csv&limit=10", status=200)
    assert len(part.splitlines()) < len(table.splitlines()) / 10


async def test_releases_are_read_anew_where_the_collectors_database_went_back(
    stage: Stage, collector: CollectorStub
) -> None:
    await pages(stage)
    for changed in (
        collector.released[:-3],
        [*collector.released[:-3], *(release(f"other-{number}", recipe(number), 9_000) for number in range(6))],
        [],
    ):
        collector.released = changed
        assert [one for page in await pages(stage) for one in page] == changed


async def test_what_cannot_be_read_is_the_collectors_doing(stage: Stage, collector: CollectorStub) -> None:
    collector.released[7] = {"name": "nothing else"}
    assert await stage.refused("GET", "/v1/results") == (502, "problem:peer-answer")
    collector.released = collector.released[:7]
    assert (await pages(stage)) == [collector.released]
    browser = await signed_in(stage, "viewer")
    stage.network.partition(COLLECTOR_URL)
    for path in ("/", "/results"):
        assert (await browser.get(path)).status == 200
        assert "it does not answer" in browser.page


@pytest.mark.parametrize(
    "page",
    [{"results": [], "next": "0"}, {"results": [], "next": "450"}, {"results": 7, "next": None}, {}, []],
    ids=str,
)
async def test_a_page_that_leads_nowhere_is_refused_and_not_asked_for_again(
    stage: Stage, collector: CollectorStub, page: Any
) -> None:
    collector.instead = page
    assert await stage.refused("GET", "/v1/results") == (502, "problem:peer-answer")
    collector.instead = None
    assert [one for page in await pages(stage) for one in page] == collector.released
    collector.instead = page
    assert await stage.refused("GET", "/v1/results") == (502, "problem:peer-answer")
