"""What the dashboard shows is what is so: whose recipes, how far they are, what jobs can do, and what accounts tell."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from services.admin.handlers.jobs import can_help
from services.admin.handlers.routes import ROUTES
from services.admin.pages.rendering import format_epsilon, lasting, left
from services.admin.questions.followed_log import BESIDE_SECONDS, BURN_SECONDS
from tacit.recipe.writing.survey import Survey
from tacit.service.documents.operator import JobDocument
from tests.http.admin_collector import CollectorStub, beside
from tests.http.admin_stage import KIT, Stage, prepared
from tests.http.test_admin_pages import Browser, Html, release, signed_in
from tests.http.test_admin_recipes import published

ACCOUNT = {"epsilon": "10", "delta": "0.001", "window_seconds": 30 * 86400}


@pytest.fixture
def collector() -> CollectorStub:
    return CollectorStub()


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    policy = KIT.policy.model_validate({**KIT.policy.model_dump(), "accounts": {"default": ACCOUNT}})
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector), policy=policy)
        yield running


async def test_a_recipe_that_was_published_by_command_stands_in_the_overview(stage: Stage) -> None:
    recipe = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    here = await published(stage, "asked-here")
    browser = await signed_in(stage, "viewer")
    await browser.get("/")
    assert not Html(browser.page).wrong
    section = browser.page.partition('id="running"')[2].partition("</section>")[0]
    assert f">{recipe.name}</a>" in section
    assert section.count("published from the command line") == 1
    assert section.index("asked-here") < section.index(recipe.name), "the newest first"
    assert here not in section


async def test_a_recipe_whose_reports_have_ended_is_called_over_everywhere(stage: Stage) -> None:
    question = await stage.approved(name="soon-over")
    _, document = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    interval = document["recipe"]["interval"]
    browser = await signed_in(stage, "viewer")
    for path in ("/", "/questions", f"/questions/{question}", "/ledger"):
        await browser.get(path)
        assert ">over<" not in browser.page, path
    await stage.clock.advance(interval["start"] + interval["duration"] + 1 - stage.clock.now() + BURN_SECONDS)
    browser = await signed_in(stage, "viewer")
    for path in ("/", "/questions", f"/questions/{question}"):
        await browser.get(path)
        assert '<span class="state over">over</span>' in browser.page, path
        assert "finished" not in browser.page
    assert (await stage.shown(question))["over"]


async def test_a_young_account_shows_neither_a_forecast_nor_a_time_that_has_not_passed(stage: Stage) -> None:
    question = await stage.approved(name="first")
    _, document = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    browser = await signed_in(stage, "viewer")
    await browser.get("/ledger")
    assert "the first of which has not begun yet" in browser.page
    await stage.clock.advance(document["recipe"]["interval"]["start"] + 7 * 60 - stage.clock.now() + 0.4)
    await stage.clock.advance(0)
    browser = await signed_in(stage, "viewer")
    await browser.get("/ledger")
    assert not Html(browser.page).wrong
    assert re.search(r"1 recipe in the [67] minutes since the first: too little for a forecast", browser.page)
    assert "recent pace" not in browser.page
    _, ledger = await stage.call("GET", "/v1/ledger", role="viewer", status=200)
    (burnt,) = ledger["burn_down"]
    assert (burnt["has_forecast"], burnt["used_up"]) == (False, {"at": None, "earliest": None, "latest": None})


async def test_a_job_names_its_recipe_and_offers_another_try_where_it_can_help(
    stage: Stage, collector: CollectorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("silent-leader", "small-batch"):
        await stage.call("POST", "/v1/collections", {"recipe": await published(stage, name)}, status=201)
    collector.stuck = {0}
    usual = collector._document

    def document(number: int) -> dict[str, Any]:
        refused = {"state": "refused", "rule": "urn:ietf:params:ppm:dap:error:invalidBatchSize", "stuck": True}
        return {**usual(number), **(refused if number == 1 else {})}

    monkeypatch.setattr(collector, "_document", document)
    browser = await signed_in(stage, "analyst")
    await browser.get("/jobs")
    assert not Html(browser.page).wrong
    assert re.findall(r"Collection of <a [^>]+>([^<]+)</a>", browser.page) == ["silent-leader", "small-batch"]
    assert re.findall(r'action="(/jobs/[^"]+)"', browser.page) == ["/jobs/c0/retry"]
    assert "refused for good" in browser.page


@pytest.mark.parametrize(
    ("state", "detail", "helps"),
    [
        ("requested", "leader-unreachable: nobody answers", True),
        ("refused", "opt-in-missing: by helper", True),
        ("refused", "urn:ietf:params:ppm:dap:error:invalidTask: not opted in", True),
        ("refused", "urn:ietf:params:ppm:dap:error:batchOverlap: collected before", False),
        ("refused", "result-share: does not open", False),
    ],
)
def test_another_try_helps_where_what_was_missing_may_still_come(state: str, detail: str, helps: bool) -> None:
    job = JobDocument(id="c", kind="collection", about="x", state=state, stuck=True, detail=detail, next_attempt=None)
    assert can_help(job) is helps


async def test_estimates_of_devices_are_whole_and_their_margin_is_the_same_everywhere(
    stage: Stage, collector: CollectorStub
) -> None:
    found = release("weekly", "A" * 43, 1)
    found["buckets"] = [{"label": "a", "estimate": 7.342, "stderr": 21.431}]
    found["privacy"]["delta"] = 1e-6
    collector.released = [found, {**found, "released_at": found["released_at"] + 1}]
    browser = await signed_in(stage, "viewer")
    await browser.get("/results")
    assert not Html(browser.page).wrong
    assert browser.page.count("7 ± 42") == 2, "the drawing, and the table of earlier ones"
    assert "7.34" not in browser.page
    assert "-35 to 49" in browser.page
    assert "± 1.96 s.e." in browser.page
    assert "Standard error" not in browser.page
    assert "δ 0.000001" in browser.page


def test_lengths_of_time_and_epsilons_have_one_precision() -> None:
    assert [lasting(one) for one in (59, 379, 7 * 60, 86_400, 2 * 86_400)] == [
        "59 seconds", "6 minutes", "7 minutes", "24 hours", "2 days",
    ]  # fmt: skip
    assert (format_epsilon("0.99991234"), left("98.00031234"), format_epsilon("unbounded")) == (
        "1",
        "98.0003",
        "unbounded",
    )


async def test_every_request_and_answer_of_the_api_has_an_example_that_its_schema_and_its_model_take(
    stage: Stage,
) -> None:
    _, document = await stage.call("GET", "/openapi.json", role=None, status=200)
    for route in ROUTES:
        described = document["paths"][route.path][route.method.lower()]
        if route.body is not None:
            shown = described["requestBody"]["content"]["application/json"]
            require(shown, document)
            taken = shown["example"]
            assert Survey.from_body(taken) if route.body is Survey else route.body.model_validate(taken)
        for status, answer in described["responses"].items():
            for kind, shown in answer.get("content", {}).items():
                if "schema" in shown:
                    assert shown["example"], (route.name, status, kind)
                    require(shown, document)


def require(shown: dict[str, Any], document: dict[str, Any]) -> None:
    """The example is what the schema says."""
    schema = {**shown["schema"], "components": document["components"]}
    wrong = [error.message for error in Draft202012Validator(schema).iter_errors(shown["example"])]
    assert not wrong, (shown["example"], wrong)


async def test_the_page_of_the_api_looks_like_the_others_and_shows_every_example(stage: Stage) -> None:
    browser = Browser(stage)
    assert (await browser.get("/docs")).status == 200
    found = Html(browser.page)
    assert not found.wrong
    assert not found.all("script")
    assert "style.css" in browser.page
    assert browser.page.count('class="card request"') == len(ROUTES)
    shown = [unescape(one) for one in re.findall(r'<pre class="bytes"[^>]*>(.*?)</pre>', browser.page, re.DOTALL)]
    documents = [json.loads(one) for one in shown if not one.startswith("event:")]
    assert len(shown) > 2 * len(ROUTES)
    assert all(isinstance(one, dict) for one in documents)


async def test_the_log_grows_by_command_and_its_recipes_are_still_listed_while_it_is_away(stage: Stage) -> None:
    await published(stage, "asked-here")
    await stage.clock.advance(BESIDE_SECONDS)
    browser = await signed_in(stage, "viewer")
    await browser.get("/")
    assert "asked-here" in browser.page
