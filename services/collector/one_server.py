"""Reads the answer of a model's one server to its collector: the number of reports, and their sum."""

from __future__ import annotations

import json
from typing import Any

from tacit.errors import Refusal
from tacit.messages import Interval
from tacit.roles.collector import AggregateResult
from tacit.task.one_server import OneServerTask

MAX_NUMBER = (1 << 63) - 1


def read_aggregate(task: OneServerTask, body: bytes) -> AggregateResult:
    """The aggregate in an answer's body, with its interval in seconds. Raises ``Refusal``: ``collection-malformed`` if
    the aggregate does not fit the recipe, ``collection-size`` for fewer than B reports."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("collection-malformed", "the aggregate is not JSON") from error
    if not isinstance(found, dict) or set(found) != {"report_count", "values"} or not isinstance(found["values"], list):
        raise Refusal("collection-malformed", "the aggregate must have the members report_count and values")
    count, values = found["report_count"], found["values"]
    if not all(type(one) is int and 0 <= one <= MAX_NUMBER for one in (count, *values)):
        raise Refusal("collection-malformed", "the aggregate's numbers must be whole and not negative")
    if len(values) != task.cells:
        raise Refusal("collection-malformed", f"the aggregate has {len(values)} values; {task.cells} are expected")
    if count < task.min_batch_size:
        raise Refusal("collection-size", f"{count} reports are fewer than {task.min_batch_size}")
    interval = Interval(task.start_seconds, task.end_seconds - task.start_seconds)
    return AggregateResult(count, interval, tuple(values))
