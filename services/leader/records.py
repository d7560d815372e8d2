"""What the Leader's rows are and which states they go through."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class ReportState(enum.StrEnum):
    """Where a stored report is."""

    PENDING = "pending"
    IN_JOB = "in_job"
    AGGREGATED = "aggregated"
    REJECTED = "rejected"


class JobState(enum.StrEnum):
    """An aggregation job is sent until it is done; abandoned and failed jobs count nothing."""

    SENT = "sent"
    DONE = "done"
    ABANDONED = "abandoned"
    FAILED = "failed"


class BatchState(enum.StrEnum):
    """A leader-selected batch fills up, is full, and is claimed by one collection job for ever."""

    OPEN = "open"
    FULL = "full"
    CLAIMED = "claimed"


class CollectionState(enum.StrEnum):
    """A collection job waits for its batch, asks the Helper, and ends; deleted ones only keep their id."""

    WAITING = "waiting"
    ASKING = "asking"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class StoredReport:
    """One uploaded report that awaits aggregation."""

    seq: int
    report_id: bytes
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class JobRow:
    """One aggregation job: the exact bytes that are sent until they are answered (P14)."""

    job_id: bytes
    task_id: bytes
    batch_id: bytes | None
    attempts: int
    next_attempt: float
    location: str
    request: bytes = field(repr=False)


@dataclass(frozen=True)
class CollectionRow:
    """One collection job. ``problem`` is the JSON of the problem document of a failed one."""

    job_id: bytes
    task_id: bytes
    state: CollectionState
    request: bytes
    batch_id: bytes | None = None
    share_request: bytes = field(default=b"", repr=False)
    response: bytes = field(default=b"", repr=False)
    problem: str = ""
    attempts: int = 0
    next_attempt: float = 0.0
