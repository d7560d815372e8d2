"""Writing a question on the dashboard: five fields, what is wrong in words, and the way to ask that is used."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.admin.pages.survey_fields import FIELDS, GROUPS, body_of
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.recipe.writing.survey import Survey
from tests.http.admin_collector import CollectorStub, beside
from tests.http.admin_stage import KIT, Stage, prepared
from tests.http.test_admin_pages import Browser, Html, release, signed_in

FOUR = {"kind": "categories", "categories": ["a", "b", "c", "d"]}
INTERNAL = ("pydantic", "^[", "Input should", "valid string", "valid integer", "string_", "{0,")


@pytest.fixture
def collector() -> CollectorStub:
    return CollectorStub()


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


async def writing(stage: Stage, path: str = "/questions/new") -> Browser:
    browser = await signed_in(stage, "analyst")
    await browser.get(path)
    return browser


async def test_a_question_begins_with_five_fields_and_the_others_stay_folded_with_what_holds_in_words(
    stage: Stage,
) -> None:
    first, *folded = GROUPS
    assert [one.path for one in first.fields if not one.kinds] == [
        "text", "metric", "encoder.kind", "population", "epsilon",
    ]  # fmt: skip
    assert len([one for one in FIELDS if not one.kinds]) >= 25
    browser = await writing(stage)
    assert not Html(browser.page).wrong
    details = re.findall(
        r'<details class="group"( open)?><summary>([^<]+)<span class="usual">([^<]+)</span>', browser.page
    )
    assert [(title.strip(), words) for _, title, words in details] == [(one.title, one.usual) for one in folded]
    assert not any(opened for opened, _, _ in details)
    before = browser.page.partition("<details")[0]
    assert 'name="metric"' in before
    assert 'name="rate"' not in before


async def test_five_fields_are_a_whole_question_that_is_published(stage: Stage) -> None:
    browser = await writing(stage)
    five = {
        "text": "Which?",
        "metric": "Region of_work",
        "encoder__kind": "boolean",
        "population": "1000",
        "epsilon": "1",
    }
    answer = await browser.post("/questions/new", **five)
    assert answer.status == 303
    question = answer.headers["location"].rpartition("/")[2]
    assert (await stage.shown(question))["survey"]["name"] == "region-of-work"
    for act, role in (("submit", "analyst"), ("approve", "approver"), ("publish", "analyst")):
        await stage.call("POST", f"/v1/questions/{question}/{act}", role=role, status=200)
    number = {"encoder.kind": "number", "metric": "m", "encoder.low": "0", "encoder.high": "9"}
    assert Survey.from_body(body_of(number)).statistic == "mean"


async def test_all_wrong_fields_are_told_at_once_beside_them_and_in_words(stage: Stage) -> None:
    browser = await writing(stage)
    fields = {
        "name": "Not A Name", "metric": "m", "encoder__kind": "number", "encoder__low": "9", "encoder__high": "3",
        "population": "many", "epsilon": "much", "rate": "2", "slot": "-1", "criteria": "Locale=de", "duration": "0",
    }  # fmt: skip
    answer = await browser.post("/questions/new", **fields)
    assert answer.status == 422
    found = Html(browser.page)
    assert not found.wrong
    marked = {attrs["name"] for attrs in found.all("input", "textarea", "select") if "aria-invalid" in attrs}
    expected = {"name", "encoder.low", "population", "epsilon", "rate", "slot", "criteria", "duration"}
    assert marked == expected
    assert "8 fields are wrong" in browser.page
    assert {attrs["href"] for attrs in found.all("a")} >= {f"#f-{one.replace('.', '-')}" for one in expected}
    assert "must be a whole number" in browser.page
    assert "a letter or digit first" in browser.page
    assert not any(words in browser.page for words in INTERNAL)
    looked = await browser.post("/questions/preview", **fields)
    assert set(re.findall(r'data-field="([^"]+)"', looked.body.decode())) >= expected
    assert not any(words in looked.body.decode() for words in INTERNAL)


async def test_a_wrong_entry_of_a_list_is_told_at_its_field_with_its_place(stage: Stage) -> None:
    browser = await writing(stage)
    fields = {"metric": "m", "encoder__kind": "buckets", "encoder__edges": "0, 1, abc", "population": "60"}
    await browser.post("/questions/new", **fields)
    assert "Lower edges</a> entry 3 must be a whole number" in browser.page
    assert "encoder.edges.2" not in browser.page
    looked = (await browser.post("/questions/preview", **fields)).body.decode()
    assert 'data-field="encoder.edges"' in looked
    assert "<b>Lower edges</b> entry 3 must be a whole number" in looked


async def test_the_api_names_every_wrong_member_and_everything_that_is_lacking(stage: Stage) -> None:
    _, problem = await stage.call("POST", "/v1/questions", {"name": "A B", "population": 0, "rate": "7"}, status=422)
    assert [one["field"] for one in problem["fields"]] == ["name", "population", "rate"]
    assert problem["field"] == "name"
    assert not any(words in json.dumps(problem) for words in INTERNAL)
    _, draft = await stage.call("POST", "/v1/questions", {}, status=201)
    _, lacking = await stage.call("POST", f"/v1/questions/{draft['id']}/submit", status=422)
    assert [one["field"] for one in lacking["fields"]] == ["name", "metric", "population", "encoder"]


def test_no_pattern_of_a_survey_is_told_as_a_regular_expression() -> None:
    patterns = set(re.findall(r'"pattern": "([^"]+)"', json.dumps(Survey.model_json_schema())))
    assert len(patterns) > 3
    for name, value in {"name": "?", "account": "\0", "criteria": {"?": "?"}, "metric": "", "text": ""}.items():
        with pytest.raises(ValueError, match=f"^{name}") as caught:
            raise ValueError(_said(name, value))
        assert not any(words in str(caught.value) for words in INTERNAL)


def _said(name: str, value: Any) -> str:
    try:
        Survey.from_body({name: value})
    except Exception as error:
        return str(error)
    return ""


async def test_metrics_are_offered_from_the_log_with_where_they_are_known_from(
    stage: Stage, collector: CollectorStub
) -> None:
    browser = await writing(stage)
    assert "known-metrics" not in browser.page
    assert (await stage.post_leaf(KIT.recipe_leaf(KIT.recipe()))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    recipe = KIT.recipe()
    collector.released = [release("x", recipe.hash_text, 1)]
    await browser.get("/questions/new")
    assert not Html(browser.page).wrong
    offered = re.findall(r'<option value="([^"]+)">([^<]+ in the log[^<]*)</option>', browser.page)
    assert offered == [(recipe.question.metric, "asked for by 1 recipe in the log, answered by 413")]
    assert 'list="known-metrics"' in browser.page


@pytest.mark.parametrize("wish", [{}, {"randomizer": "oue"}, {"mechanism": "local"}, {"accuracy": "0.02"}])
async def test_the_way_to_ask_that_is_proposed_is_the_one_that_is_published_with_its_error(
    stage: Stage, wish: dict[str, str]
) -> None:
    survey = {"name": "regions", "metric": "region", "encoder": FOUR, "population": 4000, **wish}
    _, design = await stage.call("POST", "/v1/design", survey, status=200)
    question = await stage.approved(**survey)
    _, published = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    recipe = published["recipe"]
    proposed = design["proposal"]
    assert recipe["randomizer"]["name"] == proposed["randomizer"]
    assert (
        recipe["randomizer"].get("epsilon0") == pytest.approx(proposed["epsilon0"])
        or proposed["epsilon0"] is None
        or (float(recipe["randomizer"]["epsilon0"]) == pytest.approx(proposed["epsilon0"]))
    )
    assert (recipe["batch"]["min_batch_size"], float(recipe["sampling"]["rate"])) == (
        proposed["batch_size"], proposed["rate"],
    )  # fmt: skip


async def test_another_way_is_used_by_its_button_without_a_script(stage: Stage) -> None:
    browser = await writing(stage)
    fields = {"name": "regions", "metric": "region", "encoder__kind": "categories", "population": "4000"}
    fields |= {"encoder__categories": "a\nb\nc\nd", "epsilon": "1", "mechanism": "local"}
    await browser.post("/questions/new", **fields, do="look")
    used = re.search(r"The question will use <b>(\w+)</b>", browser.page)
    others = re.findall(r'name="do" value="use:(\w+)"', browser.page)
    assert used is not None
    assert others
    assert used[1] not in others
    answer = await browser.post("/questions/new", **fields, do=f"use:{others[0]}")
    assert answer.status == 200
    assert f"The question will use <b>{others[0]}</b>" in browser.page
    assert f'<option value="{others[0]}" selected>' in browser.page
    assert not Html(browser.page).wrong
    assert not (await stage.recipes())
