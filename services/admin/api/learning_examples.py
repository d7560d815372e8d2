"""Examples of what the admin API takes and answers about training runs."""

from __future__ import annotations

from typing import Any, Final

from tacit.learning.plan import EXAMPLE
from tacit.service.documents.examples import HASH

_FORECAST: Final[dict[str, Any]] = {
    "epsilon": {"aggregator": "1.9923", "both_aggregators": "unbounded"}, "delta": "0.00001", "rounds": 30,
    "seconds": 144_000, "contributions": 500.0, "min_batch_size": 400, "parameters": 650, "sent": 650, "clip": 1.0,
    "noise_length": 2.7, "refusals": [],
}  # fmt: skip
_RUN: Final[dict[str, Any]] = {
    "series": {"name": "digits", "hash": HASH, "log_index": 12, "rounds": 30},
    "devices": 10_000,
    "rounds": [{
        "round": 0, "contributions": 511, "loss": None, "accuracy": None, "recipe_hash": HASH, "log_index": 13,
    }],
    "accuracy": None, "central_accuracy": None, "private": True, "epsilon": {"aggregator": "1.9923"},
    "delta": "0.00001", "clip": 1.0, "model": HASH, "seconds": 3600,
}  # fmt: skip
EXAMPLES: Final[dict[str, Any]] = {
    "Plan": EXAMPLE,
    "ForecastDocument": {"plan": EXAMPLE, "forecast": _FORECAST},
    "RunDocument": _RUN,
}
