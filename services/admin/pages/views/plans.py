"""The form for the plan of a training run, and what the plan would cost."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

from services.admin.pages.page_requests import Visit, question_of
from services.admin.pages.run_facts import forecast_facts, plan_facts
from services.admin.pages.survey_labels import told_members
from services.admin.questions.questions import field_problem, text_of
from services.admin.storage.records import Question
from tacit.errors import Abort, DecodeError, UsageError
from tacit.learning.plan import Plan
from tacit.service.app import abort_of
from tacit.tlog.canonical import parse_json

WHAT = "plan"


async def new(visit: Visit) -> web.StreamResponse:
    """The form for a plan that is to be written."""
    return await form(visit, "")


async def create(visit: Visit) -> web.StreamResponse:
    """Make a draft of the plan. If the button only previews, show what it costs instead."""
    return await sent(visit, None)


async def sent(visit: Visit, question: Question | None) -> web.StreamResponse:
    """Save the plan that was sent, of a new question or of this one; or show what it costs."""
    text = visit.form.get(WHAT, "")
    try:
        body = _body(text)
        if visit.form.get("do") == "look":
            return await form(visit, text, question, forecast=await _forecast(visit, body))
        if question is None:
            found = await visit.act("plan.create", body)
            place = found.headers["Location"].removeprefix("/v1")
        else:
            await visit.act("plan.edit", body, f'"{visit.form.get("revision", "")}"')
            place = f"/questions/{question.id}"
    except (Abort, DecodeError, UsageError) as error:
        problem = _problem(visit, error)
        if problem.status in {401, 404}:
            raise problem from error
        if question is not None:
            question = await question_of(visit)
        newer = problem.status == HTTPStatus.PRECONDITION_FAILED
        if question is None or not newer or question.text != text_of(Plan.from_body(body)):
            return await form(visit, text, question, problem)
        place = f"/questions/{question.id}"  # it is sent again, and was saved before
    raise web.HTTPSeeOther(place)


async def form(
    visit: Visit,
    text: str,
    question: Question | None = None,
    problem: Abort | None = None,
    forecast: dict[str, Any] | None = None,
) -> web.Response:
    """The form with this text, of a new question or of one that is edited, with a refusal or a forecast."""
    newer = problem is not None and problem.status == HTTPStatus.PRECONDITION_FAILED
    revision = "" if question is None else str(question.revision)
    return visit.show(
        "plan.html",
        status=200 if problem is None else problem.status,
        text=text,
        problem=problem,
        told=told_members(problem),
        newer=newer,
        question=question,
        revision=revision if newer else visit.form.get("revision", revision),
        action="/plans/new" if question is None else f"/questions/{question.id}/edit",
        forecast=forecast,
        most=visit.admin.config.max_body,
    )


def text_of_plan(question: Question) -> str:
    """The plan of a question, for the form."""
    return json.dumps(json.loads(question.text), indent=2, ensure_ascii=False)


async def _forecast(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """What the plan would cost: its claim, and pairs of a label and a value. It reads the plan as saving does."""
    plan = Plan.from_body(body)
    visit.admin.publishing.require_run(plan)
    found = (await visit.admin.planner.forecast(visit.who.person.id, plan))["forecast"]
    return {"epsilon": found["epsilon"], "delta": found["delta"], "facts": plan_facts(plan) + forecast_facts(found)}


def _body(text: str) -> dict[str, Any]:
    """The JSON of a plan. Raises ``DecodeError``."""
    found = parse_json(text.encode(), WHAT)
    if not isinstance(found, dict):
        raise DecodeError("a plan is a JSON object with members")
    return found


def _problem(visit: Visit, error: Abort | DecodeError | UsageError) -> Abort:
    return field_problem(error) if isinstance(error, UsageError) else abort_of(visit.request.app, error)
