"""Every metric that a service may show: its name, type, labels, and which of three rules its numbers follow.

``docs/metrics.md`` is made from this table. A number that single devices move is never shown as it is: see
``tacit.service.metrics``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Rule(enum.StrEnum):
    """How a number is shown."""

    COARSE = "coarse"
    """A count that devices move: what a window added, rounded at random to a multiple of the granularity."""
    LEVEL = "level"
    """A level that devices move: looked at once in ten windows, rounded in the same way."""
    EXACT = "exact"
    """What no device moves, or everybody may know: as it is when somebody asks."""


@dataclass(frozen=True)
class Shown:
    """One metric. ``scale``: the unit of its count, in that of its name. ``by``: the services that have it, empty for
    every one."""

    name: str
    type: str
    labels: tuple[str, ...]
    rule: Rule
    about: str
    scale: float = 1.0
    by: tuple[str, ...] = ()


BUCKETS = (0.01, 0.1, 1.0, 10.0)
"""Upper bounds, in seconds, of every histogram; one more is open."""

_AGGREGATORS = ("leader", "helper", "analyzer")
_COARSE, _LEVEL, _EXACT = Rule.COARSE, Rule.LEVEL, Rule.EXACT

REQUESTS = "tacit_http_request_duration_seconds"
STORE_WRITES = "tacit_store_write_seconds"

METRICS: dict[str, Shown] = {
    one.name: one
    for one in (
        Shown("tacit_build_info", "gauge", ("service", "version"), _EXACT, "always 1"),
        Shown("tacit_ready", "gauge", (), _EXACT, "1 where /readyz says yes, otherwise 0"),
        Shown("tacit_store_well", "gauge", (), _EXACT, "1 while the store takes writes, 0 while it does not"),
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
            "the length of such a window; one without a success means that the work is late",
        ),
        Shown(
            "tacit_certificate_expiry_timestamp_seconds",
            "gauge",
            ("use",),
            _EXACT,
            "end of the certificate that the service shows: to those who call (listen), or whom it calls (client)",
        ),
        Shown(
            REQUESTS,
            "histogram",
            ("route", "status"),
            _COARSE,
            "requests by route and class of status, by how long the answer took; health checks left out",
        ),
        Shown(
            STORE_WRITES,
            "histogram",
            (),
            _COARSE,
            "write transactions of the service's own probe of its store, one in 5 s, by how long each took",
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
        Shown("tacit_jobs_failing", "gauge", (), _LEVEL, "unfinished jobs that failed last time", by=("leader",)),
        Shown("tacit_collections", "gauge", ("state",), _EXACT, "collections by state", by=("collector",)),
        Shown(
            "tacit_results_unpublished", "gauge", (), _EXACT, "releases that the log's server lacks", by=("collector",)
        ),
        Shown(
            "tacit_tokens_total",
            "counter",
            ("epoch",),
            _COARSE,
            "token signatures of the epochs that are open: given (issuer), passed on (attester)",
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
            "tacit_log_entries", "gauge", (), _EXACT, "entries of the log that readers are shown", by=("recipe_server",)
        ),
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
            "part of a privacy account that the log's recipes have taken, in its fullest period",
            by=("recipe_server",),
        ),
        *(
            Shown(f"tacit_witness_{name}_total", "counter", (), _EXACT, about, by=("witness",))
            for name, about in (
                ("cosigned", "checkpoints cosigned"),
                ("refused", "checkpoints refused by a rule"),
                ("conflict", "requests that began elsewhere"),
                ("unsigned", "requests without the log's signature"),
                ("unknown_log", "requests about another log"),
                ("leaves_read", "leaves read"),
            )
        ),
    )
}
"""By name, in the order in which they are shown."""
