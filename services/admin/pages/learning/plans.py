"""The form for the plan of a training run, and what the plan would cost."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from services.admin.pages.learning.facts import forecast_facts, plan_facts
from services.admin.pages.page_requests import Page, PageRequest, question_of
from services.admin.pages.survey_labels import told_members
from services.admin.people.people import Permission
from services.admin.questions.questions import field_problem, text_of
from services.admin.storage.records import Question
from tacit.errors import Abort, DecodeError, UsageError
from tacit.learning.plan import Plan
from tacit.service.app import abort_of
from tacit.tlog.canonical import parse_json

WHAT = "plan"


async def new(page_request: PageRequest) -> web.StreamResponse:
    """The empty form of a plan."""
    return await form(page_request, "")


async def create(page_request: PageRequest) -> web.StreamResponse:
    """Make a draft of the plan. If the button only previews, show what it costs instead."""
    return await save_plan(page_request, None)


async def save_plan(page_request: PageRequest, question: Question | None) -> web.StreamResponse:
    """Save the plan that was sent, of a new question or of this one; or show what it costs."""
    text = page_request.form.get(WHAT, "")
    try:
        body = _body(text)
        if page_request.form.get("do") == "look":
            return await form(page_request, text, question, forecast=await _forecast(page_request, body))
        if question is None:
            answer = await page_request.act("plan.create", body)
            place = answer.headers["Location"].removeprefix("/v1")
        else:
            await page_request.act("plan.edit", body, f'"{page_request.form.get("revision", "")}"')
            place = f"/questions/{question.id}"
    except (Abort, DecodeError, UsageError) as error:
        problem = _problem(page_request, error)
        if problem.status in {401, 404}:
            raise problem from error
        if question is not None:
            question = await question_of(page_request)
        newer = problem.status == HTTPStatus.PRECONDITION_FAILED
        if question is None or not newer or question.text != text_of(Plan.from_body(body)):
            return await form(page_request, text, question, problem)
        place = f"/questions/{question.id}"  # it is sent again, and was saved before
    raise web.HTTPSeeOther(place)


async def form(
    page_request: PageRequest,
    text: str,
    question: Question | None = None,
    problem: Abort | None = None,
    forecast: dict[str, Any] | None = None,
) -> web.Response:
    """The form with this text, of a new question or of one that is edited, with a refusal or a forecast."""
    newer = problem is not None and problem.status == HTTPStatus.PRECONDITION_FAILED
    revision = "" if question is None else str(question.revision)
    return page_request.show(
        "plan.html",
        status=200 if problem is None else problem.status,
        text=text,
        problem=problem,
        told=told_members(problem),
        newer=newer,
        question=question,
        revision=revision if newer else page_request.form.get("revision", revision),
        action="/plans/new" if question is None else f"/questions/{question.id}/edit",
        forecast=forecast,
        most=page_request.admin.config.max_body,
    )


def text_of_plan(question: Question) -> str:
    return json.dumps(json.loads(question.text), indent=2, ensure_ascii=False)


async def _forecast(page_request: PageRequest, body: dict[str, Any]) -> dict[str, Any]:
    """What the plan would cost: its claim, and pairs of a label and a value. It reads the plan as saving does."""
    plan = Plan.from_body(body)
    page_request.admin.publishing.require(plan)
    forecast = (await page_request.admin.planner.forecast(page_request.who.person.id, plan))["forecast"]
    return {
        "epsilon": forecast["epsilon"],
        "delta": forecast["delta"],
        "facts": plan_facts(plan) + forecast_facts(forecast),
    }


def _body(text: str) -> dict[str, Any]:
    """The JSON of a plan. Raises ``DecodeError``."""
    body = parse_json(text.encode(), WHAT)
    if not isinstance(body, dict):
        raise DecodeError("a plan is a JSON object with members")
    return body


def _problem(page_request: PageRequest, error: Abort | DecodeError | UsageError) -> Abort:
    return field_problem(error) if isinstance(error, UsageError) else abort_of(page_request.request.app, error)


PAGES: Final = (
    Page("GET", "/plans/new", new, Permission.WRITE),
    Page("POST", "/plans/new", create, Permission.WRITE),
)
