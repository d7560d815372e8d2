"""When a batch may be released, and what is released with it (DAP-18 section 4.6; P13, P15; R3, R9, R11:
the attacks of ``tests/simulation/test_attacks.py``).

Leader and Helper each apply these rules to their own counts and do not rely on the other's.
"""

from __future__ import annotations

from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Abort, DecodeError
from tacit.messages import (
    AggregateShareReq,
    BatchSelector,
    CollectionJobReq,
    Interval,
    Query,
    strictly_increasing,
)
from tacit.task import CLOCK_LEEWAY, BatchClose, Task

RATE_FACTOR = 2
"""A task with more than this many times its expected contributions is refused (P15)."""

RATE_BOUND_PROBLEM = "urn:tacit:refusal:rate-bound"
INTERVAL_OPEN_PROBLEM = "urn:tacit:problem:interval-open"
INTERVAL_OPEN_RETRY = 60
"""After this many seconds, a Leader whose clock is ahead of ours is told to ask again."""


def check_collection(task: Task, request: CollectionJobReq) -> None:
    """Check everything about a collection request that does not depend on stored data; raises ``DapAbort``."""
    if request.query.batch_mode is not task.batch_mode:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the query's batch mode is not the task's")
    if request.agg_param:
        raise DapAbort(DapProblem.INVALID_AGGREGATION_PARAMETER, "the aggregation parameter is not empty")
    if task.batch_close is BatchClose.INTERVAL_END and request.query.config != task.interval.encode():
        raise DapAbort(DapProblem.BATCH_INVALID, "a query must name the whole task interval")
    if task.batch_close is BatchClose.ON_QUERY:
        _span(request.query)
    check_extensions(request)


def batch_of(task: Task, named: Query | BatchSelector, batch_id: bytes | None) -> bytes | Interval | None:
    """The buckets of a task to which a request refers: those of a batch, those of a part of the task's interval, or
    all. Raises ``DapAbort`` for an invalid interval."""
    return _span(named) if task.batch_close is BatchClose.ON_QUERY else batch_id


def _span(named: Query | BatchSelector) -> Interval:
    """The interval of a query or selector, which must not be empty."""
    try:
        interval = named.interval
    except DecodeError as error:
        raise DapAbort(DapProblem.BATCH_INVALID, str(error)) from error
    if interval.duration < 1:
        raise DapAbort(DapProblem.BATCH_INVALID, "the interval is empty")
    return interval


def check_extensions(request: CollectionJobReq) -> None:
    """No collection job extension is defined, so any is unsupported; raises ``DapAbort``."""
    # before the types are looked at: as none is known, an order that is wrong would otherwise never be named
    if not strictly_increasing(request.extensions):
        raise DapAbort(DapProblem.INVALID_EXTENSION, "collection extensions are not strictly increasing")
    if request.extensions:
        raise DapAbort(DapProblem.UNSUPPORTED_EXTENSION, "a collection extension is not known")


def check_share_request(task: Task, request: AggregateShareReq) -> None:
    """The Helper's own check of everything that does not depend on stored data; raises ``DapAbort``."""
    selector, query = request.batch_selector, request.collection_job_req.query
    if selector.batch_mode is not task.batch_mode or query.batch_mode is not task.batch_mode:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the batch mode is not the task's")
    if task.batch_close is BatchClose.ON_QUERY and not _span(query).covers(_span(selector)):
        raise DapAbort(DapProblem.BATCH_INVALID, "the batch reaches outside the query")
    if task.batch_close is BatchClose.INTERVAL_END and (
        selector.config != task.interval.encode() or query.config != task.interval.encode()
    ):
        raise DapAbort(DapProblem.BATCH_INVALID, "the request does not name the whole task interval")
    if request.collection_job_req.agg_param:
        # the draft has another error here than for the Collector's request (`check_collection`)
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the aggregation parameter differs from that of the jobs")
    check_extensions(request.collection_job_req)


def check_interval_over(task: Task, now: float) -> None:
    """A time-interval batch is released only after its end, on our own clock. Raises ``Abort`` (503: the same request
    is valid later, and a Leader that took the refusal as final would lose the batch)."""
    if task.batch_close is BatchClose.INTERVAL_END and now + CLOCK_LEEWAY < task.end_seconds:
        raise Abort(
            INTERVAL_OPEN_PROBLEM,
            "the task interval is not over",
            status=503,
            title="The batch is still open.",
            headers={"Retry-After": str(INTERVAL_OPEN_RETRY)},
        )


def check_size(task: Task, distinct_nullifiers: int) -> None:
    """Require at least B tokens, by our own count; raises ``DapAbort``."""
    # tokens, not report ids: who keeps back all honest reports but one can make ids to fill the batch, but no tokens
    # (R3)
    if distinct_nullifiers < task.min_batch_size:
        raise DapAbort(
            DapProblem.INVALID_BATCH_SIZE,
            f"the batch holds fewer than the recipe's minimum of {task.min_batch_size} contributions",
        )


def check_rate(task: Task, accepted_in_task: int) -> None:
    """Require at most twice the expected contributions within the task's window; raises ``Abort``."""
    most = RATE_FACTOR * task.expected_contributions
    if accepted_in_task > most:
        raise Abort(
            RATE_BOUND_PROBLEM,
            f"{accepted_in_task} contributions were accepted, more than twice the expected "
            f"{task.expected_contributions}; at most {most} are released",
            status=403,
            title="The task received more contributions than its recipe allows for.",
        )
