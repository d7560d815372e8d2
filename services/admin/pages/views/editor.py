"""The form for writing a question: its fields are the survey's members, and cost and accuracy are shown below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from aiohttp import web

from services.admin.api.calls import Admin
from services.admin.pages.learning import plans
from services.admin.pages.page_requests import PageRequest, question_of
from services.admin.pages.preview import Preview, preview_of, preview_of_survey
from services.admin.pages.rendering import render, response
from services.admin.pages.survey_fields import CHOICES_OF, FIELDS, GROUPS, USUAL, body_of, fields_of
from services.admin.pages.survey_labels import told_fields
from services.admin.pages.views.published import listed_of
from services.admin.questions.questions import field_problem, survey_of, text_of
from services.admin.storage.records import Question
from tacit.errors import Abort, FieldError
from tacit.recipe.encoder_specs import Attributes, Occurrences
from tacit.recipe.writing.survey import Survey
from tacit.recipe.writing.survey_table import SurveyField

MOST = 100
"""How many metrics are suggested, the most recently used ones."""

_NAMED_BY: Final = {
    "metric": "a question without a short name is named after it",
    "name": "none can be made from the metric",
}
"""What a question without a name lacks, by the member that would give it one."""
USE: Final = "use:"
"""The prefix of a preview button's value; the name of a way to ask follows it."""


async def new(page_request: PageRequest) -> web.StreamResponse:
    """The form with the usual values, for a new question."""
    return await _form(page_request, USUAL, await preview_of(page_request.admin, page_request.who.person.id, USUAL))


async def create(page_request: PageRequest) -> web.StreamResponse:
    """Save a new draft. If the button only previews, show the form again instead."""
    form, looks = _apply_button(page_request.form)
    preview = await preview_of(page_request.admin, page_request.who.person.id, form)
    if looks:
        return await _form(page_request, form, preview)
    if (error := nameless(page_request.form)) is not None:
        return await _again(page_request, preview, field_problem(error))
    try:
        answer = await page_request.act("question.create", body_of(page_request.form))
    except Abort as problem:
        return await _again(page_request, preview, problem)
    raise web.HTTPSeeOther(answer.headers["Location"].removeprefix("/v1"))


async def edit(page_request: PageRequest) -> web.StreamResponse:
    """The form, filled in from the question."""
    question = await question_of(page_request)
    if question.trains:
        return await plans.form(page_request, plans.text_of_plan(question), question)
    survey = survey_of(question)
    preview = await preview_of_survey(page_request.admin, page_request.who.person.id, survey)
    return await _form(page_request, fields_of(survey), preview, question)


async def save(page_request: PageRequest) -> web.StreamResponse:
    """Save a new text of the question. If the button only previews, show the form again instead."""
    question = await question_of(page_request)
    if question.trains:
        return await plans.save_plan(page_request, question)
    form, looks = _apply_button(page_request.form)
    preview = await preview_of(page_request.admin, page_request.who.person.id, form)
    if looks:
        return await _form(page_request, form, preview, question)
    if (error := nameless(page_request.form)) is not None:
        return await _again(page_request, preview, field_problem(error), question)
    body = body_of(page_request.form)
    try:
        await page_request.act("question.edit", body, f'"{page_request.form.get("revision", "")}"')
    except Abort as problem:
        question = await question_of(page_request)
        if problem.status != HTTPStatus.PRECONDITION_FAILED or question.text != text_of(Survey.from_body(body)):
            return await _again(page_request, preview, problem, question)  # else it is sent again, and was saved before
    raise web.HTTPSeeOther(f"/questions/{question.id}")


async def preview_form(page_request: PageRequest) -> web.StreamResponse:
    """The preview of the form's cost and accuracy, as a part of the page."""
    return response(
        render(
            "preview.html", preview=await preview_of(page_request.admin, page_request.who.person.id, page_request.form)
        )
    )


def _apply_button(form: Mapping[str, str]) -> tuple[Mapping[str, str], bool]:
    """The form after its button was pressed, and whether that button only previews."""
    do = form.get("do", "")
    if do.startswith(USE):
        return {**form, "randomizer": do.removeprefix(USE), "mechanism": ""}, True
    return form, do == "look"


def nameless(form: Mapping[str, str]) -> FieldError | None:
    """Why nobody would find the draft again: it has no name, and nothing of which one can be made. Everything else that
    is missing or wrong is told with it."""
    body = body_of(form)
    if "name" in body:
        return None
    errors: list[FieldError] = []
    lacking = tuple(name for name in ("name", "metric", "population") if name not in body)
    try:
        lacking = Survey.from_body(body).lacking
    except FieldError as error:
        errors += error.every
    named_by = "metric" if "metric" in lacking else "name"
    if "encoder" not in body:
        lacking = (*lacking, "encoder")
    words = {named_by: f"is missing: {_NAMED_BY[named_by]}", **dict.fromkeys(("population", "encoder"), "is missing")}
    first, *others = [FieldError(name, words[name]) for name in words if name in {named_by, *lacking}] + errors
    return FieldError(first.field, first.reason, tuple(others))


async def _again(
    page_request: PageRequest, preview: Preview, problem: Abort, question: Question | None = None
) -> web.Response:
    """The form as it was sent, with the refusal."""
    if problem.status in {401, 404}:
        raise problem
    return await _form(page_request, page_request.form, preview, question, problem)


async def _form(
    page_request: PageRequest,
    said: Mapping[str, str],
    preview: Preview,
    question: Question | None = None,
    problem: Abort | None = None,
) -> web.Response:
    paths = {field.path for field in FIELDS}
    revision = "" if question is None else str(question.revision)
    told = told_fields(problem)
    wrong = {one["field"]: one["reason"] for one in told}
    newer = problem is not None and problem.status == HTTPStatus.PRECONDITION_FAILED
    return page_request.show(
        "editor.html",
        status=200 if problem is None else problem.status,
        groups=GROUPS,
        choices=CHOICES_OF,
        said={path: said.get(path, "") for path in paths},
        wrong=wrong,
        told=told,
        newer=newer,
        problem=problem,
        preview=preview,
        question=question,
        revision=revision if newer else page_request.form.get("revision", revision),
        action="/questions/new" if question is None else f"/questions/{question.id}/edit",
        open={group.title for group in GROUPS if any(_stands_out(one, said, wrong) for one in group.fields)},
        metrics=await known_metrics(page_request.admin),
    )


def _stands_out(field: SurveyField, said: Mapping[str, str], wrong: Mapping[str, str]) -> bool:
    """Whether the field's group has to be open, because the field's value is unusual or wrong."""
    usual = {"", USUAL.get(field.path, "")}
    return field.path in wrong or said.get(field.path, "") not in usual


@dataclass(frozen=True)
class KnownMetric:
    """A metric. ``asked``: how many recipes in the log ask for it; ``answered``: the contributions to the largest of
    their releases, 0 if none is known; ``event``: whether it is an event that devices watch."""

    name: str
    asked: int = 0
    answered: int = 0
    event: bool = False

    @property
    def words(self) -> str:
        """How often the metric was used, in words."""
        recipes = "1 recipe in the log" if self.asked == 1 else f"{self.asked:,} recipes in the log"
        answered = f", answered by {self.answered:,}" if self.answered else ", no known release"
        return f"{'event, ' if self.event else ''}asked for by {recipes}{answered}"


async def known_metrics(admin: Admin) -> list[KnownMetric]:
    """The known metrics, the most recently used first. The list is empty while the log cannot be read; a metric can
    still be typed."""
    try:
        recipes = (await admin.followed_log.live()).recipes
    except Abort:
        return []
    listed, _ = await listed_of(admin)
    counted: dict[str, int] = {}
    for one in listed:
        counted[one.recipe] = max(one.report_count, counted.get(one.recipe, 0))
    metrics: dict[str, KnownMetric] = {}
    for item in recipes:
        question = item.recipe.question
        if isinstance(question.encoder, Attributes):
            continue  # a census asks for attributes, which are not fields of the data
        known = metrics.pop(question.metric, KnownMetric(question.metric))
        answered = max(known.answered, counted.get(item.recipe.hash_text, 0))
        event = isinstance(question.encoder, Occurrences)
        metrics[question.metric] = replace(known, asked=known.asked + 1, answered=answered, event=event)
    return list(reversed(metrics.values()))[:MOST]
