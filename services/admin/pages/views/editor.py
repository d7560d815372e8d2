"""Writing a question: one form whose fields are the survey's members, with what it would cost and give below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from services.admin.core.questions import survey_of
from services.admin.core.records import Question
from services.admin.pages.preview import Preview, preview_of, preview_of_survey
from services.admin.pages.rendering import rendered, response
from services.admin.pages.survey_fields import FIELDS, GROUPS, body_of, fields_of
from services.admin.pages.visits import Visit
from tacit.errors import Abort

USUAL: Final = {
    "encoder.kind": "boolean",
    "rate": "0.5",
    "epsilon": "1",
    "delta": "0.000001",
    "model": "secure-aggregation",
    "close": "interval_end",
    "account": "default",
    "aggregator_flips": "0",
}


async def new(visit: Visit) -> web.StreamResponse:
    """An empty form."""
    return _form(visit, USUAL, await preview_of(visit.admin, visit.who.person.id, USUAL))


async def create(visit: Visit) -> web.StreamResponse:
    """A new draft; or, for the button that only looks, the form again."""
    preview = await preview_of(visit.admin, visit.who.person.id, visit.form)
    if visit.form.get("do") == "look":
        return _form(visit, visit.form, preview)
    try:
        found = await visit.act("question.create", body_of(visit.form))
    except Abort as problem:
        return _again(visit, preview, problem)
    raise web.HTTPSeeOther(found.headers["Location"].removeprefix("/v1"))


async def edit(visit: Visit) -> web.StreamResponse:
    """The form as the question is."""
    question = await _question(visit)
    survey = survey_of(question)
    return _form(visit, fields_of(survey), await preview_of_survey(visit.admin, visit.who.person.id, survey), question)


async def save(visit: Visit) -> web.StreamResponse:
    """The question with another text."""
    question = await _question(visit)
    preview = await preview_of(visit.admin, visit.who.person.id, visit.form)
    if visit.form.get("do") == "look":
        return _form(visit, visit.form, preview, question)
    try:
        await visit.act("question.edit", body_of(visit.form), f'"{visit.form.get("revision", "")}"')
    except Abort as problem:
        return _again(visit, preview, problem, question)
    raise web.HTTPSeeOther(f"/questions/{question.id}")


async def looked(visit: Visit) -> web.StreamResponse:
    """What the form would cost and give, as a part of the page."""
    return response(rendered("preview.html", preview=await preview_of(visit.admin, visit.who.person.id, visit.form)))


def _again(visit: Visit, preview: Preview, problem: Abort, question: Question | None = None) -> web.Response:
    """The form as it was sent, with what was refused."""
    if problem.status in {401, 404}:
        raise problem
    return _form(visit, visit.form, preview, question, problem)


def _form(
    visit: Visit,
    said: Mapping[str, str],
    preview: Preview,
    question: Question | None = None,
    problem: Abort | None = None,
) -> web.Response:
    wrong = None if problem is None else str(problem.extensions.get("field", ""))
    paths = {field.path for field in FIELDS}
    revision = "" if question is None else str(question.revision)
    return visit.show(
        "editor.html",
        status=200 if problem is None else problem.status,
        groups=GROUPS,
        said={path: said.get(path, "") for path in paths},
        wrong=wrong if wrong in paths else "",
        problem=problem,
        preview=preview,
        question=question,
        revision=visit.form.get("revision", revision),
        action="/questions/new" if question is None else f"/questions/{question.id}/edit",
        filled={group.title: any(said.get(one.path) not in {None, "", USUAL.get(one.path)} for one in group.fields)
                for group in GROUPS},
    )  # fmt: skip


async def _question(visit: Visit) -> Question:
    async with visit.admin.store.read() as tx:
        return await visit.admin.questions.at(tx, visit.part("id"), None)
