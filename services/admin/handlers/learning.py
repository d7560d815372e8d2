"""Training runs: what a plan costs, where a run is, and its newest model; and the routes to them."""

from __future__ import annotations

from typing import Final

from services.admin.api.calls import Call, Reply, Route, Storing
from services.admin.base.problems import not_found
from services.admin.handlers import questions
from services.admin.people.people import Permission
from tacit.errors import UsageError
from tacit.learning.model_file import name_of
from tacit.learning.plan import Plan
from tacit.media_types import OCTET_STREAM
from tacit.operations.learning.documents import run_document
from tacit.service.documents.admin import ForecastDocument, QuestionDocument, RunDocument


async def forecast(call: Call) -> Reply:
    """What the run of a plan would cost, and how noisy it would be."""
    return Reply(ForecastDocument(**await call.admin.planner.forecast(call.who.person.id, call.body)))


async def show_run(call: Call) -> Reply:
    """Where a run is. Its model is left out where log and releases are not of its plan."""
    admin = call.admin
    run = await admin.run_reader.read(await admin.followed_log.live(), call.part("hash"))
    try:
        model = await admin.run_reader.model(call.who.person.id, run)
    except UsageError:
        model = None
    return Reply(RunDocument(**run_document(run.series, run.rows, None if model is None else name_of(model))))


async def model(call: Call) -> Reply:
    """The file of a run's newest model. Raises ``Abort`` (404) where the run's plan is not here."""
    admin = call.admin
    run = await admin.run_reader.read(await admin.followed_log.live(), call.part("hash"))
    file = await admin.run_reader.model(call.who.person.id, run)
    if file is None:
        raise not_found("model of a plan of this service")
    kept = f'attachment; filename="{run.series.series.name}.model"'
    return Reply(None, headers={"Content-Type": OCTET_STREAM, "Content-Disposition": kept}, content=file)


_READ, _WRITE = Permission.READ, Permission.WRITE
_ONE: Final = {200: QuestionDocument}

ROUTES: Final = (
    Route(
        "POST", "/v1/plans", "plan.create",
        "Make a draft of the plan of a training run (docs/learning.md). It is submitted, approved and published as a "
        "question; then this service publishes every round.",
        questions.create, _WRITE, {201: QuestionDocument}, body=Plan, problems=(501,), storing=Storing.WRITE,
    ),
    Route(
        "PUT", "/v1/plans/{id}", "plan.edit", "Replace the plan of a question, which becomes a draft again.",
        questions.edit, _WRITE, _ONE, body=Plan, problems=(404, 409, 412, 428, 501), storing=Storing.WRITE,
        tagged=True,
    ),
    Route(
        "POST", "/v1/forecast", "plan.forecast",
        "What the run of a plan would cost and how noisy it would be, as `tacit learn plan --json` tells it.",
        forecast, _READ, {200: ForecastDocument}, body=Plan, problems=(501,), storing=Storing.NOTHING,
        computes=True,
    ),
    Route("GET", "/v1/series/{hash}/run", "run.show",
          "Where a training run is, as `tacit learn show --json` tells it.", show_run, _READ, {200: RunDocument},
          problems=(404, 501, 502), storing=Storing.NOTHING),
    Route("GET", "/v1/series/{hash}/model", "run.model",
          "The file of a training run's newest model; 404 where the run's plan is not one of this service.",
          model, _READ, {200: None}, problems=(404, 422, 501, 502), storing=Storing.NOTHING, media=OCTET_STREAM),
)  # fmt: skip
"""The routes of plans and runs."""
