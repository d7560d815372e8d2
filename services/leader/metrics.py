"""The metrics of the Leader's queue, in addition to those of every aggregator."""

from __future__ import annotations

from aiohttp import web

from services.leader.store import LeaderStore
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.service.app import METRICS
from tacit.service.metrics import Reading, by_label


def add_leader_metrics(app: web.Application, store: LeaderStore) -> None:
    """Add the counts of ``store`` to the metrics of ``app``."""

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
    metrics.add("tacit_reports_waiting", waiting, shared=True)
    metrics.add("tacit_jobs", jobs, shared=True)
    metrics.add("tacit_jobs_failing", failing, shared=True)
