"""Metrics of every aggregator about its reports and recipes, over all tasks together.

They come from the database: of several processes on one database, one shows them (``Metrics.only_own``).
"""

from __future__ import annotations

from aiohttp import web

from tacit.aggregator.store import CommonTx, SqlStore
from tacit.service.app import METRICS
from tacit.service.metrics import Reading, by_label


def add_aggregator_metrics(app: web.Application, store: SqlStore[CommonTx]) -> None:
    """Add the counts of ``store`` to the metrics of ``app``."""

    async def counted() -> Reading:
        async with store.read() as tx:
            return {(): await tx.all_counted()}

    async def rejected() -> Reading:
        async with store.read() as tx:
            return by_label(await tx.all_rejections())

    async def tasks() -> Reading:
        async with store.read() as tx:
            return by_label(await tx.tasks_by_state())

    async def released() -> Reading:
        async with store.read() as tx:
            return {(): await tx.all_released()}

    metrics = app[METRICS]
    metrics.add("tacit_reports_counted_total", counted, shared=True)
    metrics.add("tacit_reports_rejected_total", rejected, shared=True)
    metrics.add("tacit_tasks", tasks, shared=True)
    metrics.add("tacit_batches_released", released, shared=True)
