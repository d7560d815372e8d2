"""Jobs of the analyst's organisation, and the log's series and censuses, over the admin API and on the dashboard."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from services.admin.questions.followed_log import BESIDE_SECONDS, FollowedLog
from tacit.logview.live import LiveLog
from tacit.operations.prefix_rounds import progress
from tacit.operations.series_rounds import Asked
from tacit.recipe.candidates import asked_prefixes
from tacit.recipe.census import Census
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import PrefixSearch
from tacit.recipe.model import Question
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.service.app import STEPS
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_stage import KIT, Stage, prepared
from tests.http.test_admin_pages import Html, release, signed_in
from tests.http.test_admin_recipes import published


@pytest.fixture
def collector() -> CollectorStub:
    return CollectorStub()


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


async def test_a_stuck_collection_is_a_job_that_is_tried_again_and_that_is_an_act(
    stage: Stage, collector: CollectorStub
) -> None:
    recipes = [await published(stage, f"visits-{number}") for number in range(2)]
    for recipe in recipes:
        await stage.call("POST", "/v1/collections", {"recipe": recipe}, status=201)
    collector.stuck = {1}
    _, page = await stage.call("GET", "/v1/jobs", role="viewer", status=200)
    assert [(one["about"], one["stuck"]) for one in page["jobs"]] == [(recipes[0], False), (recipes[1], True)]
    stuck = page["jobs"][1]
    assert (stuck["detail"], stuck["next_attempt"]) == ("leader-unreachable: nobody answers", 1_000_000)
    _, first = await stage.call("GET", "/v1/jobs?limit=1", role="viewer", status=200)
    _, second = await stage.call("GET", f"/v1/jobs?limit=1&cursor={first['next']}", role="viewer", status=200)
    assert first["jobs"] + second["jobs"] == page["jobs"]
    assert second["next"] is None
    assert await stage.refused("POST", "/v1/jobs/c1/retry", role="viewer") == (403, "problem:forbidden")
    assert await stage.refused("POST", "/v1/jobs/c9/retry") == (404, "problem:not-found")
    assert collector.stuck == {1}
    _, done = await stage.call("POST", "/v1/jobs/c1/retry", status=202)
    assert (done["id"], done["stuck"], collector.stuck) == ("c1", False, set())
    _, acts = await stage.call("GET", "/v1/audit", status=200)
    told = [(one["what"], one["target"], one["outcome"]) for one in acts["acts"]]
    assert told[-3:] == [
        ("job.retry", "c1", "forbidden"), ("job.retry", "c9", "not-found"), ("job.retry", "c1", "done"),
    ]  # fmt: skip


async def test_work_of_the_service_itself_is_a_job_too(stage: Stage) -> None:
    assert stage.app is not None
    steps = stage.app[STEPS]
    again = steps.expect("publishing what was signed", 5.0)
    for number in range(1, 4):
        steps.told("publishing what was signed", ValueError(), number)
    _, page = await stage.call("GET", "/v1/jobs", status=200)
    (job,) = page["jobs"]
    assert (job["id"], job["state"], job["stuck"]) == ("background.publishing-what-was-signed", "failing", True)
    await stage.call("POST", f"/v1/jobs/{job['id']}/retry", status=202)
    assert again.is_set()


async def test_the_page_of_jobs_shows_what_is_stuck_first_with_a_button_for_who_may(
    stage: Stage, collector: CollectorStub
) -> None:
    for number in range(2):
        recipe = await published(stage, f"visits-{number}")
        await stage.call("POST", "/v1/collections", {"recipe": recipe}, status=201)
    collector.stuck = {1}
    viewer = await signed_in(stage, "viewer")
    assert (await viewer.get("/jobs")).status == 200
    assert "1 stuck" in viewer.page
    assert "/jobs/c1/retry" not in viewer.page
    browser = await signed_in(stage, "analyst")
    await browser.get("/jobs")
    assert not Html(browser.page).wrong
    assert re.findall(r'action="(/jobs/[^"]+)"', browser.page) == ["/jobs/c1/retry"]
    assert "leader-unreachable: nobody answers" in browser.page
    answer = await browser.post("/jobs/c1/retry")
    assert (answer.status, answer.headers["location"], collector.stuck) == (303, "/jobs", set())
    await browser.get("/jobs")
    assert "Nothing is stuck" in browser.page
    await stage.inner.unmount(COLLECTOR_URL)
    assert (await browser.get("/jobs")).status == 503
    assert "collector" in browser.page


async def test_series_and_censuses_are_those_of_the_log(stage: Stage) -> None:
    _, empty = await stage.call("GET", "/v1/series", status=200)
    assert empty == {"series": [], "next": None}
    assert (await stage.call("GET", "/v1/censuses", status=200))[1] == {"censuses": [], "next": None}
    series = KIT.series()
    assert (await stage.post_leaf(KIT.series_leaf(series))).status == 201
    for index in (0, 1):
        assert (await stage.post_leaf(KIT.recipe_leaf(KIT.round(series, index)))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)  # for so long what was read before is told
    _, page = await stage.call("GET", "/v1/series", role="viewer", status=200)
    (shown,) = page["series"]
    assert (shown["hash"], shown["name"], shown["rounds"]) == (series.hash_text, "training", 3)
    assert shown["published"] == [{"index": one, "recipe": KIT.round(series, one).hash_text} for one in (0, 1)]
    assert (await stage.call("GET", f"/v1/series/{series.hash_text}", status=200))[1] == shown
    assert await stage.refused("GET", "/v1/series/none") == (404, "problem:not-found")


def release_of(series: Series, index: int, estimate: float) -> dict[str, Any]:
    recipe = KIT.round(series, index)
    return {
        "name": recipe.name, "recipe_hash": recipe.hash_text, "batch": 0, "statistic": "sum",
        "report_count": 400 + index,
        "released_at": recipe.interval.end + 9,
        "interval": {"start": recipe.interval.start, "duration": 3600},
        "buckets": [{"label": "<b>all", "estimate": estimate, "stderr": 2.0}],
    }  # fmt: skip


async def test_rounds_of_a_series_stand_over_time_with_their_error_bars(stage: Stage, collector: CollectorStub) -> None:
    browser = await signed_in(stage, "viewer")
    await browser.get("/series")
    assert "The log has no series" in browser.page
    series = KIT.series()
    await stage.post_leaf(KIT.series_leaf(series))
    for index in (0, 1, 2):
        assert (await stage.post_leaf(KIT.recipe_leaf(KIT.round(series, index)))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    await browser.get("/series")
    path = f"/series/{series.hash_text}"
    assert path in {attrs["href"] for attrs in Html(browser.page).all("a")}
    await browser.get(path)
    assert "No round has been released yet" in browser.page
    collector.released = [release_of(series, 1, 20.0), release_of(series, 0, 10.0), release("other", "A" * 43, 1)]
    await browser.get(path)
    found = Html(browser.page)
    assert not found.wrong
    (drawing,) = found.all("svg")
    assert drawing["aria-label"] == "<b>all: estimates by time with 95 % intervals"
    first, second = ({name: float(value or 0) for name, value in one.items() if name != "class"} for one in bars(found))
    assert first["x1"] < second["x1"]
    assert first["y1"] > second["y1"] > second["y2"]
    assert "3 of 3, 2 released" in browser.page
    assert browser.page.index("20 ± 4") < browser.page.index("10 ± 4")
    (entry, *_) = re.findall(r'href="(/log/[0-9]+)"><code>' + KIT.round(series, 2).hash_text[:10], browser.page)
    await browser.get(entry)
    assert path in {attrs["href"] for attrs in Html(browser.page).all("a")}
    assert (await browser.get("/series/none")).status == 404
    await stage.inner.unmount(COLLECTOR_URL)
    assert (await browser.get(path)).status == 200
    assert not Html(browser.page).wrong


async def test_a_search_shows_what_each_round_kept_and_then_the_ranking(stage: Stage, collector: CollectorStub) -> None:
    encoder = asked_prefixes(
        PrefixSearch(kind="prefixes", length=2, alphabet="<ab", levels=(2, 4), candidates=12), "no value"
    )
    question = Question(text="Which text?", metric="text", encoder=encoder, statistic="histogram")
    recipe = KIT.recipe(name="texts", question=question, population=20_000, rate=Decimal(1), randomizer="krr")
    series = propose_series(recipe, Shape(2, 2, recipe.interval.start, 1_800, per_epoch=4))
    assert (await stage.post_leaf(KIT.series_leaf(series))).status == 201
    browser, path = await signed_in(stage, "viewer"), f"/series/{series.hash_text}"
    rounds: list[Asked] = []
    for shown in ("Round 1 of 2 can be asked now, with 3 candidates", "Round 2 of 2 can be asked now, with 4"):
        found = progress(series, rounds)
        assert found.following is not None
        await stage.clock.advance(BESIDE_SECONDS)
        await browser.get(path)
        assert shown in browser.page
        made = series.round(len(rounds), series.window(len(rounds)), found.following.text())
        assert (await stage.post_leaf(KIT.recipe_leaf(made))).status == 201
        await stage.clock.advance(BESIDE_SECONDS)
        await browser.get(path)
        assert "is published and not released yet" in browser.page
        counts = [5_000 if label.startswith('"<') else 50 for label in labels(made)]
        document = {
            **release_of(series, len(rounds), 1.0), "recipe_hash": made.hash_text, "name": made.name,
            "statistic": "histogram", "report_count": sum(counts),
            "buckets": [
                {"label": label, "count": count, "estimate": count, "stderr": 2.0}
                for label, count in zip(labels(made), counts, strict=True)
            ],
        }  # fmt: skip
        collector.released = [*collector.released, document]
        rounds.append((made, [document]))
    await browser.get(path)
    assert not Html(browser.page).wrong
    found = progress(series, rounds)
    assert found.ranked is not None
    for item in found.ranked.items:
        assert html.escape(item.text) in browser.page
    assert "every other text of the domain is below" in browser.page.lower()
    assert "<svg" not in browser.page, "rounds ask of different prefixes, and are no series over time"


def bars(page: Html) -> list[dict[str, str | None]]:
    return [attrs for attrs in page.all("line") if attrs.get("class") == "interval"]


async def test_a_census_is_told_with_how_many_it_sums(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = KIT.census()
    shares = {role: KIT.census_share(recipe, role, 450, [100, 90]) for role in ("leader", "helper")}

    async def live(_log: FollowedLog) -> LiveLog:
        return LiveLog(censuses=(Census(recipe, shares, 7),))

    monkeypatch.setattr(FollowedLog, "live", live)
    _, found = await stage.call("GET", "/v1/censuses", role="viewer", status=200)
    end = recipe.interval.end
    told = {"recipe": recipe.hash_text, "name": "census", "index": 7, "report_count": 450, "end": end}
    assert found == {"censuses": [told], "next": None}
