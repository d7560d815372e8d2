"""Metrics of every aggregator about its reports and recipes, over all tasks together.

They come from the database: of several processes on one database, one shows them (``Metrics.only_own``).
"""

from __future__ import annotations

from aiohttp import web

from tacit.aggregator.store import CommonTx, SqlStore
from tacit.service.app import METRICS
from tacit.service.metric_names import Rule, Shown
from tacit.service.metrics import Reading, by_label

_AGGREGATORS = ("leader", "helper", "analyzer", "shuffler")
SHOWN = (
    Shown(
        "tacit_reports_counted_total",
        "counter",
        (),
        Rule.COARSE,
        "reports that were added to a sum",
        by=_AGGREGATORS,
    ),
    Shown("tacit_reports_rejected_total", "counter", ("cause",), Rule.COARSE, "reports refused", by=_AGGREGATORS),
    Shown("tacit_tasks", "gauge", ("state",), Rule.EXACT, "recipes of the log that name this party", by=_AGGREGATORS),
    Shown("tacit_batches_released", "gauge", (), Rule.EXACT, "batches closed for good", by=_AGGREGATORS),
)
"""What they are called, and how they are shown."""


def add_aggregator_metrics(app: web.Application, store: SqlStore[CommonTx]) -> None:
    """Declare ``SHOWN`` on the metrics of ``app``, read from ``store``, which other processes may read too."""

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
    metrics.declare(*SHOWN)
    metrics.add("tacit_reports_counted_total", counted, shared=True)
    metrics.add("tacit_reports_rejected_total", rejected, shared=True)
    metrics.add("tacit_tasks", tasks, shared=True)
    metrics.add("tacit_batches_released", released, shared=True)
