"""The pages of questions: the list, one question with its steps from draft to release, and the acts of its buttons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from services.admin.base.problems import Problem, refuse
from services.admin.handlers.questions import names_of
from services.admin.pages.claims import claim_rows
from services.admin.pages.learning.facts import forecast_facts, plan_facts
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.preview import Preview, judge
from services.admin.pages.survey_fields import CHOICES_OF, FIELDS, fields_of
from services.admin.pages.survey_labels import chosen, told_fields, told_members
from services.admin.pages.views.passkeys import answer_of
from services.admin.pages.views.published import release_row, releases_of, yield_row
from services.admin.people.people import Permission
from services.admin.questions.publishing import fixed_of, recipe_document
from services.admin.questions.questions import Asked, asked_of, etag_of, is_over, survey_document
from services.admin.storage.records import Act, Question, QuestionState
from tacit.errors import Abort, DecodeError, UsageError
from tacit.learning.plan import Plan
from tacit.recipe.candidates import candidates_of, label_of
from tacit.recipe.encoder_specs import Prefixes
from tacit.recipe.logged import RecipeState
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.survey import Survey
from tacit.recipe.writing.survey_table import SurveyField, Value
from tacit.service.http.paging import DEFAULT_LIMIT
from tacit.time_format import format_utc

ROUNDS: Final = 50
"""How many of the newest submissions and approvals of a question are shown."""
MOST_PREFIXES: Final = 60
"""How many prefixes of a round are shown."""
SUBMITTED, APPROVED = "question.submit", "question.approve"
ACTS: Final = ("submit", "approve", "publish", "collect", "end", "delete", "signature")


async def list_questions(page_request: PageRequest) -> web.StreamResponse:
    """A page of questions in one state or in all, in the order in which they were written."""
    stated = page_request.request.query.get("state", "")
    if stated and stated not in set(QuestionState):
        raise DecodeError(f"state must be one of {', '.join(QuestionState)}")
    after = page_request.cursor()
    async with page_request.admin.store.read() as tx:
        questions = await tx.questions(after, DEFAULT_LIMIT + 1, QuestionState(stated) if stated else None)
        names = await names_of(tx, questions)
        counts = await tx.question_counts()
    page = [row_of(one, names, page_request.admin.now) for one in questions[:DEFAULT_LIMIT]]
    following = questions[DEFAULT_LIMIT - 1].number if len(questions) > DEFAULT_LIMIT else None
    return page_request.show(
        "questions.html", rows=page, following=following, first=not after, chosen=stated,
        states=[(state.value, counts.get(state, 0)) for state in QuestionState],
    )  # fmt: skip


def row_of(question: Question, names: Mapping[str, str], now: int) -> dict[str, Any]:
    """A question as a row of a list, at POSIX second ``now``."""
    body = survey_document(question)
    return {
        "id": question.id,
        "state": question.state.value,
        "word": RecipeState.OVER.value if is_over(question, now) else question.state.value,
        "name": body.get("name", "without a name"),
        "text": body.get("text", ""),
        "epsilon": body.get("epsilon", "1") if question.series_hash is None else "–",
        "population": body.get("population"),
        "authors": [names.get(one, one) for one in question.authors],
        "changed": question.changed,
        "waits": waits_for(question),
    }


def waits_for(question: Question) -> str:
    """The person or thing that a question waits for, in words."""
    if question.state is QuestionState.DRAFT:
        return "its author"
    if question.state is QuestionState.SUBMITTED:
        return "an approver who wrote none of it"
    if question.state is QuestionState.APPROVED:
        if question.leaf:
            return "the log"
        return "a signature" if question.recipe else "somebody to publish it"
    if question.state is QuestionState.MISSED and question.series_hash is None:
        return "somebody to publish it again: its interval began while the log could not be reached"
    return ""


async def show_question(page_request: PageRequest) -> web.StreamResponse:
    """Render the page of the question whose id is in the path."""
    return await _page(page_request)


async def act(page_request: PageRequest) -> web.StreamResponse:
    """Carry out the act of a button; a refusal is shown on the same page."""
    what, question = page_request.part("act"), page_request.part("id")
    if what not in ACTS:
        raise web.HTTPNotFound
    tag = f'"{revision}"' if (revision := page_request.form.get("revision", "")) else ""
    try:
        if what == "signature":
            await page_request.act("question.sign", {"leaf": _leaf(page_request.form.get("leaf", ""))})
        elif what == "collect":
            await _collect(page_request)
        else:
            shown = answer_of(page_request.form.get("passkey", ""))
            await page_request.act(f"question.{what}", {} if shown is None else {"assertion": shown}, tag)
    except Abort as problem:
        if problem.status in {401, 404}:
            raise
        return await _page(page_request, problem)
    raise web.HTTPSeeOther("/questions" if what == "delete" else f"/questions/{question}")


async def _collect(page_request: PageRequest) -> None:
    """Ask for the batch of the question's recipe."""
    async with page_request.admin.store.read() as tx:
        question = await page_request.admin.questions.at(tx, page_request.part("id"), None)
    await page_request.act("collection.ask", {"recipe": question.recipe_hash})


def _leaf(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise refuse(Problem.USAGE, "paste the file that `tacit recipe sign` wrote") from error


async def _page(page_request: PageRequest, problem: Abort | None = None) -> web.Response:
    admin = page_request.admin
    async with admin.store.read() as tx:
        question = await admin.questions.at(tx, page_request.part("id"), None)
        acts = [row.act for row in await tx.done_to(question.id, (SUBMITTED, APPROVED), ROUNDS)]
        names = await names_of(tx, [question], {one.who for one in acts})
        by_passkey = ["approve", "publish"] if await admin.passkeys.needed(tx, page_request.who.person) else []
    if not admin.config.passkeys_publish:
        by_passkey = by_passkey[:1]
    asked = asked_of(question)
    fixed = fixed_of(question) if question.recipe else None
    recipe, series = (fixed, None) if isinstance(fixed, Recipe) else (None, fixed)
    published = question.position is not None and series is None
    filled = await yield_row(admin, question.recipe_hash) if published else None
    releases, trouble = await releases_of(admin, question.recipe_hash) if published else ([], "")
    preview = Preview()
    if fixed is None and question.state is not QuestionState.ENDED:
        preview = await judge(admin, page_request.who.person.id, asked, preview)
    return page_request.show(
        "question.html", status=200 if problem is None else problem.status, problem=problem,
        told=told_members(problem) if question.trains else told_fields(problem),
        question=question,
        row=row_of(question, names, admin.now),
        tag=etag_of(question).strip('"'),
        approver=names.get(question.approver, question.approver),
        facts=facts_of(asked),
        series=question.series_hash,
        becomes=series,
        searches=question.becomes_series and not question.trains,
        trains=question.trains,
        forecast=await _forecast(page_request, asked),
        steps=_steps(question, names, fixed, admin.now, releases, acts),
        rounds=_rounds(acts, names),
        buttons=_buttons(page_request, question),
        by_passkey=by_passkey,
        own=page_request.who.person.id in question.authors,
        recipe=recipe, body=recipe_document(question), canonical=question.recipe.decode(),
        published=published,
        ended=fixed is not None and fixed.interval.end <= admin.now,
        filled=filled,
        releases=[release_row(one) for one in releases],
        trouble=trouble,
        claims=_claims(fixed) or preview.claims,
        preview=preview,
    )  # fmt: skip


def _claims(fixed: Recipe | Series | None) -> list[dict[str, Any]]:
    """The rows of the claim of what is fixed for a question; empty while nothing is."""
    if isinstance(fixed, Series):
        return claim_rows(fixed.probe, fixed)
    return [] if fixed is None else claim_rows(fixed)


async def _forecast(page_request: PageRequest, asked: Asked) -> list[tuple[str, str]]:
    """What a training run costs, as pairs of a label and a value; empty for other questions, and while it is
    unknown."""
    if not isinstance(asked, Plan):
        return []
    try:
        forecast = await page_request.admin.planner.forecast(page_request.who.person.id, asked)
    except (Abort, UsageError):
        return []
    return forecast_facts(forecast["forecast"])


def _buttons(page_request: PageRequest, question: Question) -> dict[str, bool]:
    """The acts, each with whether the question's state and the visitor's role allow it."""
    state, write, operate = question.state, page_request.may(Permission.WRITE), page_request.may(Permission.OPERATE)
    free = not question.leaf
    return {
        "edit": write
        and free
        and question.series_hash is None
        and state not in {QuestionState.PUBLISHED, QuestionState.ENDED},
        "submit": write and state is QuestionState.DRAFT,
        "delete": write and state is QuestionState.DRAFT,
        "approve": page_request.may(Permission.APPROVE) and state is QuestionState.SUBMITTED,
        "publish": operate and state in {QuestionState.APPROVED, QuestionState.MISSED},
        "signature": operate and state is QuestionState.APPROVED and bool(question.recipe) and free,
        "collect": operate
        and state is QuestionState.PUBLISHED
        and page_request.admin.collector is not None
        and not question.becomes_series,
        "end": operate and state in {QuestionState.PUBLISHED, QuestionState.MISSED},
    }


def _steps(
    question: Question,
    names: Mapping[str, str],
    fixed: Recipe | Series | None,
    now: int,
    releases: Sequence[Mapping[str, Any]],
    acts: Sequence[Act],
) -> list[dict[str, Any]]:
    """The steps of a question from draft to end: for each, whether it is done, who did it, and when it was last done
    (from ``acts``)."""
    order = list(QuestionState)
    at = order.index(question.state)
    if question.position is None:
        at = min(at, order.index(QuestionState.APPROVED))
    last = {one.what: one for one in acts}
    submitted, approved = (last.get(what) if at >= step else None for step, what in ((1, SUBMITTED), (2, APPROVED)))
    steps: list[dict[str, Any]] = [
        {"name": "written", "by": [names.get(one, one) for one in question.authors], "at": question.created},
        {
            "name": "submitted",
            "by": [names.get(submitted.who, submitted.who)] if submitted else [],
            "at": submitted.at if submitted else None,
        },
        {
            "name": "approved",
            "by": [names.get(question.approver, question.approver)] if question.approver else [],
            "at": approved.at if approved else None,
        },
        {"name": "published", "by": [], "at": question.changed if at == 3 else None},
    ]
    for index, step in enumerate(steps):
        step["done"] = index <= at
    if fixed is not None and at >= order.index(QuestionState.PUBLISHED):
        span = fixed.interval
        steps.append({"name": "reports begin", "by": [], "at": span.start, "done": span.start <= now})
        steps.append({"name": "reports end", "by": [], "at": span.end, "done": span.end <= now})
        at_last = releases[-1]["released_at"] if releases else None
        steps.append({"name": "released", "by": [], "at": at_last, "done": bool(releases)})
    if question.state is QuestionState.ENDED:
        steps.append({"name": "ended", "by": [], "at": question.changed, "done": True})
    return steps


def _rounds(acts: Sequence[Act], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every submission with the approval that followed it, if there is one, the oldest first."""
    rounds: list[dict[str, Any]] = []
    for one in acts:
        told = {"by": names.get(one.who, one.who), "at": one.at}
        if one.what == SUBMITTED or not rounds or rounds[-1]["approved"]:
            rounds.append({"submitted": None, "approved": None})
        rounds[-1]["submitted" if one.what == SUBMITTED else "approved"] = told
    return rounds


def facts_of(asked: Asked) -> list[tuple[str, str]]:
    """What is asked as pairs of a label and a value, for readers: the members of a survey or plan, or what a round
    asks."""
    if isinstance(asked, Recipe):
        return _facts_of_round(asked)
    if isinstance(asked, Plan):
        return plan_facts(asked)
    if not isinstance(asked, Survey):
        return []
    said = {path: value.replace("\n", ", ") for path, value in fields_of(asked).items() if value}
    strange = set() if asked.form.may_mix else {"through", "aggregator_flips"}
    strange |= set() if asked.kind.is_vector else {"proof"}
    return [(field.label, _fact(field, said[field.path])) for field in FIELDS if field.path in said.keys() - strange]


def _fact(field: SurveyField, said: str) -> str:
    """What a field says, for readers: choices by their labels, moments in UTC."""
    if field.path in CHOICES_OF:
        return chosen(said)
    return format_utc(int(said)) if field.value is Value.MOMENT else said


def _facts_of_round(recipe: Recipe) -> list[tuple[str, str]]:
    """What a round of a series asks: its number, its time, and the prefixes that it counts."""
    spec, candidates, place = recipe.question.encoder, candidates_of(recipe.question), recipe.series
    facts = [("Metric", recipe.question.metric), ("Model", recipe.model)]
    if place is not None:
        facts.append(("Round", f"{place.index + 1:,}"))
    facts.append(("Reports", f"{format_utc(recipe.interval.start)} to {format_utc(recipe.interval.end)}"))
    if isinstance(spec, Prefixes) and candidates is not None:
        told = [label_of(spec, one, candidates.bits) for one in candidates.prefixes[:MOST_PREFIXES]]
        more = len(candidates.prefixes) - len(told)
        listed = ", ".join(told) + (f" and {more:,} more" if more else "")
        facts += [("Bits", str(candidates.bits)), ("Prefixes", listed)]
    return facts
