"""Every metric of every service, from the table that services show them by: a section of ``docs/metrics.md``."""

from __future__ import annotations

import re

from infra.tools.documents.words import table
from tacit.errors import UsageError
from tacit.service.metric_names import METRICS

METRICS_PAGE = "metrics.md"
_PLACE = "<!-- metrics: made from the table of metrics by `make documents` -->\n"
_TABLE = re.compile(re.escape(_PLACE) + r"(?:\|.*\n)*")


def listed(text: str) -> str:
    """``text``, the page, with the metrics as they are now. Raises ``UsageError`` if the page has no place for them."""
    if _PLACE not in text:
        raise UsageError(f"the page needs the line {_PLACE.strip()}")
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
    made = table(("metric", "type", "labels", "rule", "services", "what"), rows)
    return _TABLE.sub(lambda _: f"{_PLACE}{made}\n", text)
