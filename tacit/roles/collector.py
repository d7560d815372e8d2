"""The Collector's part (DAP-18, collection): request a batch, open and add up the two aggregate shares.

Pure. The response is checked against the task and the request: neither aggregator can pass off a batch that is too
small, outside the query, or whose values could not be the sum of ``report_count`` valid reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.hpke import KeyPair
from tacit.messages import (
    BatchMode,
    CollectionJobReq,
    CollectionJobResp,
    HpkeCiphertext,
    Interval,
    Query,
    Role,
)
from tacit.task import Task, open_aggregate_share
from tacit.vdaf.release import added_up


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """A released batch: how many reports, the smallest interval that holds their times (units of the time precision),
    and the sum per coordinate of the randomised measurements (one value for scalar VDAFs), including the noise of the
    aggregators where the task has it. ``search``: what one server found in reports that cannot be added up."""

    report_count: int
    interval: Interval
    values: tuple[int, ...]
    search: Any = None


def collection_request(task: Task, interval: Interval | None = None) -> CollectionJobReq:
    """The request for a batch: ``interval`` (by default the whole task interval), or, in leader-selected mode,
    the next batch that the Leader has. Raises ``ValueError`` for an interval that does not fit the task."""
    if task.batch_mode is BatchMode.LEADER_SELECTED:
        if interval is not None:
            raise ValueError("a leader-selected batch cannot be requested by interval")
        return CollectionJobReq(Query.leader_selected())
    chosen = interval or task.interval
    if chosen.duration < 1 or not task.interval.covers(chosen):
        raise ValueError("the query interval must be within the task interval")
    return CollectionJobReq(Query.time_interval(chosen))


def open_collection(
    task: Task, key_pair: KeyPair, request: CollectionJobReq, response: CollectionJobResp
) -> AggregateResult:
    """Open, check and unshard the Leader's response to ``request``.

    Raises ``CryptoError`` when a share does not open for this request, ``Refusal`` with rule ``collection-size`` (fewer
    than B reports), ``collection-interval`` (times outside the query), ``collection-share`` (not a share of the task's
    VDAF) or ``collection-values`` (not a sum of that many valid measurements).
    """
    # count and interval are the Leader's word: the associated data of the shares hold the request alone
    count = response.report_count
    if count < task.min_batch_size:
        raise Refusal("collection-size", f"{count} reports are fewer than {task.min_batch_size}")
    asked = task.interval if task.batch_mode is BatchMode.LEADER_SELECTED else request.query.interval
    if response.interval.duration < 1 or not asked.covers(response.interval):
        raise Refusal("collection-interval", "the batch reaches outside the query")
    # encodings are unique, so that these are the bytes that the Leader got and passed on to the Helper
    sent = request.encode()
    shares = [
        _open_share(task, key_pair, Role.LEADER, sent, response.leader_encrypted_agg_share),
        _open_share(task, key_pair, Role.HELPER, sent, response.helper_encrypted_agg_share),
    ]
    try:
        values = added_up(task.vdaf, shares, count, task.aggregator_flips)
    except ValueError as error:
        raise Refusal("collection-values", str(error)) from error
    return AggregateResult(count, response.interval, values)


def _open_share(task: Task, key_pair: KeyPair, role: Role, request: bytes, sealed: HpkeCiphertext) -> list[int]:
    sender = role.name.lower()
    try:
        encoded = open_aggregate_share(task, role, key_pair, request, sealed)
    except CryptoError as error:
        raise CryptoError(f"the aggregate share of the {sender} does not open") from error
    try:
        return task.vdaf.decode_agg_share(encoded)
    except DecodeError as error:
        raise Refusal("collection-share", f"the aggregate share of the {sender} is malformed") from error
