"""Training runs: what a plan costs, where a run is, and its newest model."""

from __future__ import annotations

from services.admin.api.calls import Call, Reply
from services.admin.base.problems import not_found
from tacit.errors import UsageError
from tacit.learning.model_file import name_of
from tacit.media_types import OCTET_STREAM
from tacit.operations.learning.documents import run_document
from tacit.service.documents.admin import ForecastDocument, RunDocument


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
