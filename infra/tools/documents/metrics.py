"""Every metric of every service, from the table that services show them by."""

from __future__ import annotations

from infra.tools.documents.words import MADE, page, table
from tacit.service.metric_names import METRICS


def metrics_page() -> str:
    """The page of metrics."""
    rows = [
        (
            f"`{one.name}`",
            one.type,
            ", ".join(f"`{label}`" for label in one.labels),
            one.rule.value,
            ", ".join(one.by) or "every one",
            one.about,
        )
        for one in METRICS.values()
    ]
    return page(
        "# Every metric",
        f'{MADE} Rules (coarse, level, exact): "The rule" in [metrics](../metrics.md).',
        table(("metric", "type", "labels", "rule", "services", "what"), rows),
    )
