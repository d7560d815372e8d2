"""Every metric that a service may show: its name, type, labels, and which of three rules applies to its numbers.

``docs/schemas/metrics.md`` is made from this table. A number that single devices change is never shown exactly: see
``tacit.service.metrics``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

PATH = "/metrics"
"""Where a service shows them."""


class Rule(enum.StrEnum):
    """How a metric's numbers are made coarse before they are shown."""

    COARSE = "coarse"
    """A count that devices change: the increase in a window, rounded at random to a multiple of the granularity."""
    LEVEL = "level"
    """A level that devices change: read once in ten windows, rounded in the same way."""
    EXACT = "exact"
    """A number that no device changes, or that everybody may know: shown exactly when requested."""


@dataclass(frozen=True)
class Shown:
    """One metric. ``scale``: the unit of its count, in units of its name. ``by``: the services that have it; empty for
    all."""

    name: str
    type: str
    labels: tuple[str, ...]
    rule: Rule
    about: str
    scale: float = 1.0
    by: tuple[str, ...] = ()


BUCKETS = (0.01, 0.1, 1.0, 10.0)
"""Upper bounds, in seconds, of every histogram; one further bucket is open."""

_AGGREGATORS = ("leader", "helper", "analyzer", "shuffler")
_COARSE, _LEVEL, _EXACT = Rule.COARSE, Rule.LEVEL, Rule.EXACT

REQUESTS = "tacit_http_request_duration_seconds"
STORE_WRITES = "tacit_store_write_seconds"

METRICS: dict[str, Shown] = {
    one.name: one
    for one in (
        Shown("tacit_build_info", "gauge", ("service", "version"), _EXACT, "always 1"),
        Shown("tacit_ready", "gauge", (), _EXACT, "1 if /readyz reports ready, otherwise 0"),
        Shown("tacit_store_well", "gauge", (), _EXACT, "1 while the store accepts writes, otherwise 0"),
        Shown("tacit_step_failing", "gauge", ("step",), _EXACT, "1 while this background work fails, otherwise 0"),
        Shown(
            "tacit_step_success_timestamp_seconds",
            "gauge",
            ("step",),
            _EXACT,
            "end of the last whole window in which this background work succeeded",
        ),
        Shown(
            "tacit_step_window_seconds",
            "gauge",
            ("step",),
            _EXACT,
            "the length of such a window; a window without a success means that the work is late",
        ),
        Shown(
            "tacit_certificate_expiry_timestamp_seconds",
            "gauge",
            ("use",),
            _EXACT,
            "end of the certificate that the service shows to callers (listen) or to services that it calls (client)",
        ),
        Shown(
            REQUESTS,
            "histogram",
            ("route", "status"),
            _COARSE,
            "requests by route and class of status, by duration of the answer, without health checks",
        ),
        Shown(
            STORE_WRITES,
            "histogram",
            (),
            _COARSE,
            "write transactions of the service's own probe of its store, one in 5 s, by duration",
        ),
        Shown("process_cpu_seconds_total", "counter", (), _COARSE, "processor time of the process", 0.01),
        Shown("process_resident_memory_bytes", "gauge", (), _LEVEL, "memory of the process (Linux)", float(1 << 16)),
        Shown("process_open_fds", "gauge", (), _LEVEL, "open descriptors of the process (Linux)"),
        Shown("process_start_time_seconds", "gauge", (), _EXACT, "when the application was made"),
        Shown(
            "tacit_reports_counted_total",
            "counter",
            (),
            _COARSE,
            "reports that were added to a sum",
            by=_AGGREGATORS,
        ),
        Shown("tacit_reports_rejected_total", "counter", ("cause",), _COARSE, "reports refused", by=_AGGREGATORS),
        Shown("tacit_tasks", "gauge", ("state",), _EXACT, "recipes of the log that name this party", by=_AGGREGATORS),
        Shown("tacit_batches_released", "gauge", (), _EXACT, "batches closed for good", by=_AGGREGATORS),
        Shown("tacit_reports_waiting", "gauge", (), _LEVEL, "reports without a job", by=("leader",)),
        Shown("tacit_jobs", "gauge", ("state",), _LEVEL, "aggregation jobs by state", by=("leader",)),
        Shown("tacit_jobs_failing", "gauge", (), _LEVEL, "unfinished jobs whose last attempt failed", by=("leader",)),
        Shown("tacit_collections", "gauge", ("state",), _EXACT, "collections by state", by=("collector",)),
        Shown(
            "tacit_results_unpublished",
            "gauge",
            (),
            _EXACT,
            "releases that the recipe server does not have yet",
            by=("collector",),
        ),
        Shown(
            "tacit_tokens_total",
            "counter",
            ("epoch",),
            _COARSE,
            "token signatures of the open epochs: made (issuer), passed on (attester)",
            by=("issuer", "attester"),
        ),
        Shown(
            "tacit_attestations_refused_total",
            "counter",
            ("cause",),
            _COARSE,
            "token requests of devices that were not attested",
            by=("attester",),
        ),
        Shown(
            "tacit_keys_end_timestamp_seconds",
            "gauge",
            (),
            _EXACT,
            "end of the last period for which a key is ready",
            by=("issuer", "gateway"),
        ),
        Shown(
            "tacit_keys_period_seconds",
            "gauge",
            (),
            _EXACT,
            "length of such a period",
            by=("issuer", "gateway"),
        ),
        Shown(
            "tacit_log_entries", "gauge", (), _EXACT, "entries of the log that readers are shown", by=("recipe_server",)
        ),
        Shown("tacit_log_model_bytes", "gauge", (), _EXACT, "bytes of all stored model files", by=("recipe_server",)),
        Shown(
            "tacit_log_cosigned_timestamp_seconds",
            "gauge",
            ("witness",),
            _EXACT,
            "when each witness last cosigned",
            by=("recipe_server",),
        ),
        Shown(
            "tacit_ledger_spent_ratio",
            "gauge",
            ("account",),
            _EXACT,
            "share of a privacy account that the log's recipes have used, in its fullest period",
            by=("recipe_server",),
        ),
        *(
            Shown(f"tacit_witness_{name}_total", "counter", (), _EXACT, about, by=("witness",))
            for name, about in (
                ("cosigned", "checkpoints cosigned"),
                ("refused", "checkpoints refused by a rule"),
                ("conflict", "requests from another origin"),
                ("unsigned", "requests without the log's signature"),
                ("unknown_log", "requests about another log"),
                ("leaves_read", "leaves read"),
            )
        ),
    )
}
"""By name, in the order in which they are shown."""
