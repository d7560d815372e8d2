"""The operators' API of one service: status, jobs, rejections, issuance and keys, beside its metrics.

It is on the listener of the metrics, which devices never use, and requires the token of the service's own operator.
Every number is one of the metrics, shown in the same way: the metrics' rules apply (``docs/metrics.md``), and reading
both reveals no more than reading one of them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from prometheus_client.samples import Sample
from pydantic import BaseModel

from tacit import __version__, media_types
from tacit.errors import Abort
from tacit.service.app import METRICS, SERVICE_ENV, SERVICE_NAME, STEPS, unready
from tacit.service.documents.described import described_page
from tacit.service.documents.openapi import About, add_described, require_known_query
from tacit.service.documents.operator import (
    CauseDocument,
    CertificateDocument,
    EpochDocument,
    HeldKeyDocument,
    HeldKeysDocument,
    IssuanceDocument,
    JobDocument,
    JobPage,
    NumberDocument,
    RejectionsDocument,
    RequestsDocument,
    RetriedDocument,
    StatusDocument,
)
from tacit.service.http.callers import CALLERS
from tacit.service.http.paging import page_of
from tacit.service.metric_names import REQUESTS, Rule
from tacit.service.metrics import GRANULARITY
from tacit.service.operated import OPERATED, Job, background_jobs, background_work

ROLE: Final = "operator"
"""The role of the caller, on the listener of the metrics."""
NOT_FOUND: Final = "urn:tacit:problem:not-found"
TOKENS: Final = "tacit_tokens_total"
_CERTIFICATES: Final = "tacit_certificate_expiry_timestamp_seconds"
_JOBS: Final = ("tacit_jobs", "tacit_jobs_failing", "tacit_reports_waiting", "tacit_collections")
_CAUSES: Final = ("tacit_reports_rejected_total", "tacit_attestations_refused_total")
_WITNESS: Final = re.compile(r"tacit_witness_(refused|conflict|unsigned|unknown_log)_total")
_APART: Final = frozenset({REQUESTS, "tacit_store_write_seconds", TOKENS, _CERTIFICATES, *_CAUSES})
"""Metrics that the status leaves out, because they are shown elsewhere or are only useful as curves."""
Answered = Callable[[web.Application, web.Request], Awaitable[BaseModel]]


@dataclass(frozen=True)
class OperatorRoute:
    """A row of the table. ``metric``: the route exists only in services that have this metric."""

    method: str
    path: str
    name: str
    summary: str
    handler: Answered
    model: type[BaseModel]
    status: int = 200
    problems: tuple[int, ...] = ()
    paged: bool = False
    metric: str = ""
    body: None = None
    takes: bool = False
    tagged: bool = False
    once: bool = False
    query: tuple[str, ...] = ()
    media: str = media_types.JSON
    formats: Mapping[str, str] = field(default_factory=dict)
    needs: str = "The token of this service's own operator."

    @property
    def answers(self) -> Mapping[int, type[BaseModel]]:
        """The status of its success, with the model of the body."""
        return {self.status: self.model}


def about(service: str) -> About:
    """The name and purpose of a service's operators' API."""
    return About(
        title=f"Tacit operators' API of the {service.replace('_', ' ')}",
        description="The state of one service, for the organisation that runs it. Numbers are those of its metrics.",
        schemes={"operator": {"type": "http", "scheme": "bearer", "description": "The operator's token."}},
        opening=({"operator": ()},),
    )


def add_operator_api(site: web.Application, app: web.Application) -> None:
    """Add the operators' API of ``app`` to ``site``, with its description: all routes but those for a metric that the
    service does not have."""
    there = [one for one in ROUTES if not one.metric or app[METRICS].has(one.metric)]
    for route in there:
        site.router.add_route(route.method, route.path, _endpoint(route, app))
    add_described(site, there, about(app[SERVICE_NAME]), described_page)


def _endpoint(route: OperatorRoute, app: web.Application) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        request.app[CALLERS].require(request, ROLE)
        require_known_query(route, request)
        answer = await route.handler(app, request)
        headers = {"Content-Type": media_types.JSON}
        return web.Response(status=route.status, body=answer.model_dump_json().encode(), headers=headers)

    return handle


async def show_status(app: web.Application, _request: web.Request) -> StatusDocument:
    """GET /v1/status: whether the service is ready, and what it does."""
    samples = await app[METRICS].samples()
    trouble = unready(app)
    return StatusDocument(
        service=app[SERVICE_NAME],
        version=__version__,
        at=_now(app),
        ready=not trouble,
        trouble=trouble,
        step=GRANULARITY,
        numbers=[_number(app, one) for one in samples if _metric(app, one) not in _APART],
    )


async def list_jobs(app: web.Application, request: web.Request) -> JobPage:
    """GET /v1/jobs: a page of the service's jobs."""
    after, limit = page_of(request)
    jobs = await _jobs(app)
    samples = await app[METRICS].samples()
    return JobPage(
        jobs=[
            JobDocument(**{name: getattr(one, name) for name in JobDocument.model_fields})
            for one in jobs[after : after + limit]
        ],
        numbers=[_number(app, one) for one in samples if _metric(app, one) in _JOBS],
        next=str(after + limit) if len(jobs) > after + limit else None,
    )


async def _jobs(app: web.Application) -> list[Job]:
    jobs = background_jobs(app[STEPS])
    for kind in app[OPERATED].jobs:
        jobs += await kind.jobs()
    return jobs


async def retry_job(app: web.Application, request: web.Request) -> RetriedDocument:
    """POST /v1/jobs/{id}/retry: try a job again now."""
    job_id = request.match_info["id"]
    known = background_work(app[STEPS])
    if job_id in known:
        app[STEPS].retry(known[job_id])
        return RetriedDocument(id=job_id)
    for kind in app[OPERATED].jobs:
        if await kind.retry(job_id):
            return RetriedDocument(id=job_id)
    raise Abort(NOT_FOUND, "no job has this id", status=404, title="There is no such job.")


async def show_rejections(app: web.Application, _request: web.Request) -> RejectionsDocument:
    """GET /v1/rejections: refused reports and requests, by cause."""
    samples = await app[METRICS].samples()
    causes = [
        CauseDocument(cause=one.labels["cause"], count=one.value, rule=_rule(app, one))
        for one in samples
        if _metric(app, one) in _CAUSES
    ]
    causes += [
        CauseDocument(cause=match[1].replace("_", "-"), count=one.value, rule=_rule(app, one))
        for one in samples
        if (match := _WITNESS.fullmatch(one.name))
    ]
    requests = [
        RequestsDocument(route=one.labels["route"], status=one.labels["status"], count=one.value)
        for one in samples
        if one.name == f"{REQUESTS}_count" and one.labels["status"] in {"4xx", "5xx"}
    ]
    return RejectionsDocument(step=GRANULARITY, causes=causes, requests=requests)


async def show_issuance(app: web.Application, _request: web.Request) -> IssuanceDocument:
    """GET /v1/issuance: tokens by epoch."""
    samples = await app[METRICS].samples()
    epochs = [
        EpochDocument(epoch=one.labels["epoch"], tokens=one.value) for one in samples if _metric(app, one) == TOKENS
    ]
    return IssuanceDocument(step=GRANULARITY, epochs=epochs)


async def show_keys(app: web.Application, _request: web.Request) -> HeldKeysDocument:
    """GET /v1/keys: the keys that the service holds, with their ends."""
    samples = await app[METRICS].samples()
    return HeldKeysDocument(
        at=_now(app),
        keys=[HeldKeyDocument(use=one.use, name=one.name, ends=one.ends) for one in app[OPERATED].held()],
        certificates=[
            CertificateDocument(use=one.labels["use"], ends=int(one.value))
            for one in samples
            if _metric(app, one) == _CERTIFICATES
        ],
    )


def _now(app: web.Application) -> int:
    return int(app[SERVICE_ENV].clock.now())


def _metric(app: web.Application, one: Sample) -> str:
    """The name of the metric to which a sample belongs."""
    return app[METRICS].of_sample(one.name).name


def _rule(app: web.Application, one: Sample) -> Rule:
    return app[METRICS].of_sample(one.name).rule


def _number(app: web.Application, one: Sample) -> NumberDocument:
    return NumberDocument(name=one.name, labels=dict(one.labels), value=one.value, rule=_rule(app, one))


ROUTES: Final[Sequence[OperatorRoute]] = (
    OperatorRoute("GET", "/v1/status", "status.show", "The state of the service.", show_status, StatusDocument),
    OperatorRoute("GET", "/v1/jobs", "job.list", "Its jobs, and which of them are stuck.", list_jobs, JobPage,
                  paged=True),
    OperatorRoute("POST", "/v1/jobs/{id}/retry", "job.retry",
                  "Retry a job now; each request causes one retry.", retry_job, RetriedDocument,
                  status=202, problems=(404,)),
    OperatorRoute("GET", "/v1/rejections", "rejection.list", "What it refused, by cause.", show_rejections,
                  RejectionsDocument),
    OperatorRoute("GET", "/v1/issuance", "issuance.show", "How many tokens were signed or passed on.", show_issuance,
                  IssuanceDocument, metric=TOKENS),
    OperatorRoute("GET", "/v1/keys", "key.list", "Keys and certificates, and when they end.", show_keys,
                  HeldKeysDocument),
)  # fmt: skip
