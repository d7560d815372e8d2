"""The collector's metrics: the progress of its collections and of publishing results. No device affects them."""

from __future__ import annotations

from aiohttp import web

from services.collector.store import CollectorStore
from tacit.service.app import METRICS
from tacit.service.metric_names import Rule, Shown
from tacit.service.metrics import Reading, by_label

SHOWN = (
    Shown("tacit_collections", "gauge", ("state",), Rule.EXACT, "collections by state", by=("collector",)),
    Shown(
        "tacit_results_unpublished",
        "gauge",
        (),
        Rule.EXACT,
        "releases that the recipe server does not have yet",
        by=("collector",),
    ),
)
"""What they are called, and how they are shown."""


def add_collector_metrics(app: web.Application, store: CollectorStore) -> None:
    """Add the number of collections in each state, and of releases that the recipe server has not acknowledged."""

    async def states() -> Reading:
        async with store.read() as tx:
            return by_label(await tx.collections_by_state())

    async def unpublished() -> Reading:
        async with store.read() as tx:
            return {(): await tx.all_unpublished()}

    app[METRICS].declare(*SHOWN)
    app[METRICS].add("tacit_collections", states)
    app[METRICS].add("tacit_results_unpublished", unpublished)
