"""The next round of a search for frequent texts, drafted by a click or over the API, approved by a second person."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.operations.prefix_rounds import next_round, progress
from tacit.operations.series_rounds import Asked
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_searches import search
from tests.http.admin_stage import KIT, Stage, prepared
from tests.http.test_admin_pages import Html, signed_in


@pytest.fixture
def collector() -> CollectorStub:
    return CollectorStub()


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


def released(recipe: Recipe, large: str = '"<') -> dict[str, Any]:
    """A release of a round, in which the texts that begin with ``large`` stand out."""
    counts = [5_000 if label.startswith(large) else 50 for label in labels(recipe)]
    told = zip(labels(recipe), counts, strict=True)
    return {
        "name": recipe.name, "recipe_hash": recipe.hash_text, "batch": 0, "statistic": "histogram",
        "report_count": sum(counts), "released_at": recipe.interval.end + 9,
        "interval": {"start": recipe.interval.start, "duration": recipe.interval.duration},
        "buckets": [{"label": label, "count": count, "estimate": count, "stderr": 2.0} for label, count in told],
    }  # fmt: skip


async def published(stage: Stage, series: Series, rounds: list[Asked]) -> Recipe:
    """The next round in the log, put there by command."""
    recipe = next_round(series, progress(series, rounds), stage.clock.now())
    assert recipe is not None
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    return recipe


async def logged(stage: Stage) -> Series:
    series = search()
    assert (await stage.post_leaf(KIT.series_leaf(series))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    return series


async def test_rounds_are_drafted_by_a_click_and_approved_by_another_person(
    stage: Stage, collector: CollectorStub
) -> None:
    series = await logged(stage)
    path, rounds = f"/series/{series.hash_text}", list[Asked]()
    author, approver = await signed_in(stage, "analyst"), await signed_in(stage, "approver")
    for index in range(2):
        await author.get(path)
        assert f"Draft round {index + 1}</button>" in author.page
        assert "disabled" not in author.page
        answer = await author.post(f"{path}/rounds")
        question = answer.headers["location"]
        assert (answer.status, question.startswith("/questions/")) == (303, True)
        await author.get(question)
        assert not Html(author.page).wrong
        assert "nobody can edit it" in author.page
        assert f"{question}/edit" not in author.page
        tag = re.search(r'name="revision" value="([^"]*)"', author.page)
        assert tag is not None
        assert (await author.post(f"{question}/submit", revision=tag[1])).status == 303
        assert await stage.refused("POST", f"/v1{question}/publish", {}) == (409, "problem:question-state")
        assert await stage.refused("POST", f"/v1{question}/approve", {}) == (403, "problem:own-draft")
        await author.get(question)
        await approver.get(question)
        assert (await approver.post(f"{question}/approve")).status == 303
        assert (await author.post(f"{question}/publish")).status == 303
        await stage.clock.advance(BESIDE_SECONDS)
        _, shown = await stage.call("GET", f"/v1{question}", status=200)
        recipe = Recipe.from_body(shown["recipe"])
        expected = next_round(series, progress(series, rounds), series.interval.start)
        assert (recipe, shown["round"]) == (expected, {"series": series.hash_text, "index": index})
        assert shown["survey"]["metric"] == "text"
        assert (await stage.recipes())[-1] == recipe.hash_text
        await author.get(path)
        if index == 0:
            assert re.search(r"<button[^>]* disabled[^>]*>Draft round 2</button>", author.page)
            assert "Round 1 is published and not released yet; its reports come until" in author.page
            assert question in author.page
        collector.released = [*collector.released, released(recipe)]
        rounds.append((recipe, [released(recipe)]))
        await stage.clock.advance(max(0, recipe.interval.end + 10 - stage.clock.now()))
    await author.get(path)
    assert "Draft round" not in author.page
    assert "Devices" in author.page
    assert not Html(author.page).wrong
    _, acts = await stage.call("GET", "/v1/audit", status=200)
    drafted = [one for one in acts["acts"] if one["what"] == "round.create"]
    assert [one["outcome"] for one in drafted] == ["done", "done"]
    assert f"round 1 of series {series.hash_text}" in drafted[1]["detail"]


async def test_two_clicks_at_once_make_one_draft(stage: Stage) -> None:
    series = await logged(stage)
    path = f"/series/{series.hash_text}"
    author, other = await signed_in(stage, "analyst"), await signed_in(stage, "approver")
    await author.get(path)
    await other.get(path)
    answers = await asyncio.gather(*(one.post(f"{path}/rounds") for one in (author, other, author)))
    assert {one.status for one in answers} == {303}
    assert len({one.headers["location"] for one in answers}) == 1
    assert len((await stage.call("GET", "/v1/questions"))[1]["questions"]) == 1
    assert await stage.refused("POST", f"/v1{path}/rounds", {}) == (409, "problem:round-drafted")
    await author.get(path)
    assert "Draft round" not in author.page
    assert answers[0].headers["location"] in author.page
    question = answers[0].headers["location"]
    _, shown = await stage.call("GET", f"/v1{question}", status=200)
    await stage.call("DELETE", f"/v1{question}", headers={"If-Match": f'"{shown["revision"]}"'}, status=204)
    await stage.call("POST", f"/v1{path}/rounds", {}, status=201)


async def test_a_round_waits_for_the_release_before_it_and_is_never_edited(
    stage: Stage, collector: CollectorStub
) -> None:
    series = await logged(stage)
    rounds = f"/v1/series/{series.hash_text}/rounds"
    assert await stage.refused("POST", rounds, {}, role="viewer") == (403, "problem:forbidden")
    assert await stage.refused("POST", "/v1/series/none/rounds", {}) == (404, "problem:not-found")
    first = await published(stage, series, [])
    assert await stage.refused("POST", rounds, {}) == (409, "problem:round-waits")
    collector.released = [released(first)]
    answer, draft = await stage.call("POST", rounds, {}, status=201)
    path, tag = f"/v1/questions/{draft['id']}", {"If-Match": answer.headers["etag"]}
    assert await stage.refused("PUT", path, {"name": "other"}, headers=tag) == (409, "problem:round-fixed")
    _, verdict = await stage.call("POST", f"{path}/check", {}, status=200)
    assert (verdict["accepted"], verdict["hash"], verdict["recipe"]) == (
        True, Recipe.from_body(draft["recipe"]).hash_text, draft["recipe"],
    )  # fmt: skip
    other = KIT.series(2, 2, name="training", slot=2)
    assert (await stage.post_leaf(KIT.series_leaf(other))).status == 201
    assert await stage.refused("POST", f"/v1/series/{other.hash_text}/rounds", {}) == (422, "problem:usage")
    await stage.inner.unmount(COLLECTOR_URL)
    await stage.clock.advance(2)
    assert await stage.refused("POST", rounds, {}) == (503, "problem:peer-away")


async def test_what_does_not_follow_from_the_releases_any_more_is_not_published(
    stage: Stage, collector: CollectorStub
) -> None:
    series = await logged(stage)
    first = await published(stage, series, [])
    collector.released = [released(first)]
    _, draft = await stage.call("POST", f"/v1/series/{series.hash_text}/rounds", {}, status=201)
    path = f"/v1/questions/{draft['id']}"
    await stage.call("POST", f"{path}/submit", {}, status=200)
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    collector.released = [released(first, '"a')]  # a collector with an older database
    assert await stage.refused("POST", f"{path}/publish", {}) == (409, "problem:round-fixed")
    collector.released = [released(first)]
    await stage.clock.advance(series.window(1).start - stage.clock.now() + 1)
    await stage.call("POST", f"{path}/publish", {}, status=200)  # devices still decide
    assert json.dumps(draft["recipe"]) == json.dumps((await stage.shown(draft["id"]))["recipe"])


async def test_a_round_that_devices_cannot_decide_about_any_more_is_told_and_not_drafted(stage: Stage) -> None:
    series = await logged(stage)
    _, draft = await stage.call("POST", f"/v1/series/{series.hash_text}/rounds", {}, status=201)
    path = f"/v1/questions/{draft['id']}"
    await stage.call("POST", f"{path}/submit", {}, status=200)
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    await stage.clock.advance(series.window(0).start + 300 - stage.clock.now())
    assert await stage.refused("POST", f"{path}/publish", {}) == (409, "problem:round-waits")
    browser = await signed_in(stage, "analyst")
    await browser.get(f"/series/{series.hash_text}")
    assert "until when devices decide" in browser.page
    assert not Html(browser.page).wrong


async def test_a_search_is_written_in_the_form_and_becomes_a_series(stage: Stage) -> None:
    author = await signed_in(stage, "analyst")
    await author.get("/questions/new")
    answer = await author.post(
        "/questions/new", do="save", metric="word", encoder__kind="prefixes", encoder__length="2",
        encoder__alphabet="<ab", encoder__levels="2, 4", encoder__candidates="12", population="20000", rate="1",
        duration="600",
    )  # fmt: skip
    assert answer.status == 303, author.page
    question = answer.headers["location"]
    await author.get(question)
    assert not Html(author.page).wrong
    assert "It becomes a series of rounds" in author.page
    _, verdict = await stage.call("POST", f"/v1{question}/check", {}, status=200)
    assert verdict["accepted"], verdict["refusals"]
    await stage.call("POST", f"/v1{question}/submit", {}, status=200)
    await stage.call("POST", f"/v1{question}/approve", {}, role="approver", status=200)
    _, shown = await stage.call("POST", f"/v1{question}/publish", {}, status=200)
    series = Series.from_body(shown["recipe"])
    assert (shown["state"], shown["hash"], series.rounds) == ("published", series.hash_text, 2)
    assert series.donation is not None
    assert series.donation.pause >= series.donation.window_seconds == 600
    assert await stage.recipes() == []
    await stage.clock.advance(BESIDE_SECONDS)
    await author.get(question)
    assert not Html(author.page).wrong
    assert f"/series/{series.hash_text}" in author.page
    for page in ("/", "/questions", f"/series/{series.hash_text}"):
        assert (await author.get(page)).status == 200
    assert "Draft round 1</button>" in author.page
    answer = await author.post(f"/series/{series.hash_text}/rounds")
    assert (answer.status, answer.headers["location"].startswith("/questions/")) == (303, True)


async def test_a_series_may_be_signed_elsewhere(stage: Stage) -> None:
    await stage.start(analyst_key=None)
    encoder = {"kind": "prefixes", "length": 2, "alphabet": "<ab", "levels": [2, 4], "candidates": 12}
    asked = {"name": "words", "metric": "word", "encoder": encoder, "population": 20_000, "rate": 1, "text": "Which?"}
    question = await stage.approved(**asked)
    _, waiting = await stage.call("POST", f"/v1/questions/{question}/publish", {}, status=202)
    series = Series.from_body(waiting["recipe"])
    leaf = json.loads(KIT.series_leaf(series).encode())
    body = {"leaf": leaf}
    _, shown = await stage.call("POST", f"/v1/questions/{question}/signature", body, status=200)
    assert (shown["state"], shown["hash"]) == ("published", series.hash_text)


async def test_a_series_is_ended_on_its_page_for_good_and_no_round_follows(
    stage: Stage, collector: CollectorStub
) -> None:
    series = await logged(stage)
    path = f"/series/{series.hash_text}"
    viewer, author = await signed_in(stage, "viewer"), await signed_in(stage, "analyst")
    await viewer.get(path)
    assert "End this series" not in viewer.page
    await author.get(path)
    assert not Html(author.page).wrong
    assert "End it for good" in author.page
    assert (await author.post(f"{path}/end")).status == 303
    _, ended = await stage.call("GET", f"/v1{path}", status=200)
    live = await stage.admin.followed_log.live()
    ending = live.ended(series.hash)
    assert ending is not None
    assert ended["ended"] == ending.index
    await author.get(path)
    assert f"entry {ending.index}</a> of the log; no further round is asked" in author.page
    assert "End it for good" not in author.page
    assert not Html(author.page).wrong
    _, again = await stage.call("POST", f"/v1{path}/end", {}, status=200)
    assert again["ended"] == ending.index, "once is enough"
    status, document = await stage.call("POST", f"/v1{path}/rounds", {})
    assert (status.status, document["type"]) == (409, "urn:tacit:problem:round-waits")
    assert document["detail"] == f"entry {ending.index} of the log has ended {series.name}: no round follows"
    acts = (await stage.call("GET", "/v1/audit", status=200))[1]["acts"]
    assert [one["outcome"] for one in acts if one["what"] == "series.end"] == ["done", "done"]


async def test_a_series_is_ended_by_its_own_analyst_and_by_a_service_with_the_key_only(
    stage: Stage, collector: CollectorStub
) -> None:
    series = await logged(stage)
    path = f"/series/{series.hash_text}"
    assert await stage.refused("POST", f"/v1{path}/end", {}, role="viewer") == (403, "problem:forbidden")
    assert await stage.refused("POST", "/v1/series/none/end", {}) == (404, "problem:not-found")
    await stage.start(**await beside(stage, collector), analyst_key=None)
    author = await signed_in(stage, "analyst")
    await author.get(path)
    assert "End it for good" not in author.page
    _, document = await stage.call("POST", f"/v1{path}/end", {}, status=422)
    assert "tacit series end FILE" in document["detail"]
