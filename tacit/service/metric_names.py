"""The metrics of every service: name, type, labels, and which of three rules applies to their numbers.

A service declares its own beside its code; ``docs/schemas/metrics.md`` is made from all of them. A number that single
devices change is never shown exactly: see ``tacit.service.metrics``.
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

_COARSE, _LEVEL, _EXACT = Rule.COARSE, Rule.LEVEL, Rule.EXACT

REQUESTS = "tacit_http_request_duration_seconds"
STORE_WRITES = "tacit_store_write_seconds"

OF_EVERY_SERVICE: dict[str, Shown] = {
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
    )
}
"""By name, in the order in which they are shown, before those of the service itself."""

TOKENS = Shown(
    "tacit_tokens_total",
    "counter",
    ("epoch",),
    Rule.COARSE,
    "token signatures of the open epochs: made (issuer), passed on (attester)",
    by=("issuer", "attester"),
)
KEY_METRICS = (
    Shown(
        "tacit_keys_end_timestamp_seconds",
        "gauge",
        (),
        Rule.EXACT,
        "end of the last period for which a key is ready",
        by=("issuer", "gateway"),
    ),
    Shown(
        "tacit_keys_period_seconds",
        "gauge",
        (),
        Rule.EXACT,
        "length of such a period",
        by=("issuer", "gateway"),
    ),
)
"""Shown by two kinds of services."""
