"""The metrics of the Leader's queue, in addition to those of every aggregator."""

from __future__ import annotations

from aiohttp import web

from services.leader.store import LeaderStore
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.service.app import METRICS
from tacit.service.metric_names import Rule, Shown
from tacit.service.metrics import Reading, by_label

SHOWN = (
    Shown("tacit_reports_waiting", "gauge", (), Rule.LEVEL, "reports without a job", by=("leader",)),
    Shown("tacit_jobs", "gauge", ("state",), Rule.LEVEL, "aggregation jobs by state", by=("leader",)),
    Shown("tacit_jobs_failing", "gauge", (), Rule.LEVEL, "unfinished jobs whose last attempt failed", by=("leader",)),
)
"""What they are called, and how they are shown."""


def add_leader_metrics(app: web.Application, store: LeaderStore) -> None:
    """Add what both aggregators count, and the Leader's waiting reports, jobs by state and failing jobs. Of the
    processes that share ``store``, one shows them."""

    async def waiting() -> Reading:
        async with store.read() as tx:
            return {(): await tx.all_pending()}

    async def jobs() -> Reading:
        async with store.read() as tx:
            return by_label(await tx.all_jobs())

    async def failing() -> Reading:
        async with store.read() as tx:
            return {(): await tx.all_failing_jobs()}

    add_aggregator_metrics(app, store)
    metrics = app[METRICS]
    metrics.declare(*SHOWN)
    metrics.add("tacit_reports_waiting", waiting, shared=True)
    metrics.add("tacit_jobs", jobs, shared=True)
    metrics.add("tacit_jobs_failing", failing, shared=True)
