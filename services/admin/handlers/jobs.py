"""The organisation's unfinished jobs: those of this service, and the collector's collections."""

from __future__ import annotations

from typing import Any

from services.admin.api.calls import Admin, Call, Reply
from services.admin.base.problems import not_found
from services.admin.handlers.recipes import at_collector, collections_of
from services.admin.questions.series_documents import JobList
from tacit.operations.results import PASSING, REFUSED, RELEASED
from tacit.service.app import STEPS
from tacit.service.documents.operator import JobDocument
from tacit.service.operated import Job, background_jobs, background_work
from tacit.service.readiness import Steps

COLLECTION = "collection"


async def list_jobs(call: Call) -> Reply:
    """A page of ``jobs_of``, in that order. The cursor counts jobs, so one that ends meanwhile moves those behind
    it."""
    after, limit = call.page()
    jobs = await jobs_of(call.admin, call.request.app[STEPS])
    more = len(jobs) > after + limit
    return Reply(JobList(jobs=jobs[after : after + limit], next=str(after + limit) if more else None))


async def retry(call: Call) -> Reply:
    """Try a job again now and return it."""
    steps, wanted = call.request.app[STEPS], call.part("id")
    if wanted in (work := background_work(steps)):
        steps.retry(work[wanted])
    elif not call.admin.runs.retry(wanted):
        known = {one.id for one in await jobs_of(call.admin, steps) if one.kind == COLLECTION}
        if wanted not in known:
            raise not_found("job")
        await at_collector(call.admin, "POST", f"/v1/collections/{wanted}/retry")
    job = next((one for one in await jobs_of(call.admin, steps) if one.id == wanted), None)
    if job is None:  # it is over meanwhile
        raise not_found("job")
    return Reply(job, 202, target=wanted)


async def jobs_of(admin: Admin, steps: Steps) -> list[JobDocument]:
    """All jobs: first this service's, then its training runs, then the collections that have not released a result.
    Raises ``Abort``."""
    own = [_document(one) for one in background_jobs(steps)] + admin.runs.jobs()
    if admin.collector is None:
        return own
    documents = await collections_of(admin)
    return own + [_collection(one) for one in documents if one["state"] != RELEASED]


def can_help(job: JobDocument) -> bool:
    """Whether trying ``job`` again may have another outcome. That is true after a failure, and after a refusal because
    something is still missing, but not after a refusal because of the batch or the recipe itself."""
    if job.state != REFUSED:
        return bool(job.stuck)
    return job.detail.partition(": ")[0].rsplit(":", 1)[-1] in PASSING


def _document(job: Job) -> JobDocument:
    return JobDocument(**{name: getattr(job, name) for name in JobDocument.model_fields})


def _collection(found: dict[str, Any]) -> JobDocument:
    rule = str(found.get("rule", ""))
    return JobDocument(
        id=found["id"],
        kind=COLLECTION,
        about=found["recipe_hash"],
        state=found["state"],
        stuck=bool(found.get("stuck")),
        detail=f"{rule}: {found.get('detail', '')}" if rule else "",
        next_attempt=found.get("next_attempt"),
    )
