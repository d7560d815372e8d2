"""What the Leader's rows are and which states they go through."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field


class JobState(enum.StrEnum):
    """A formed job may still be split; a sent one is sent until it is answered (P14). Abandoned and failed jobs count
    nothing."""

    FORMED = "formed"
    SENT = "sent"
    DONE = "done"
    ABANDONED = "abandoned"
    FAILED = "failed"


UNFINISHED = (JobState.FORMED.value, JobState.SENT.value)


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


@dataclass(frozen=True, slots=True)
class Upload:
    """One report on its way into the store; ``digest`` is the SHA-256 of ``body``."""

    task_id: bytes
    report_id: bytes
    digest: bytes = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredReport:
    """One uploaded report that awaits aggregation."""

    seq: int
    report_id: bytes
    digest: bytes = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class JobRow:
    """One aggregation job: its reports in order, and once it was sent the exact bytes that are sent until they are
    answered. ``holder``: the lease under which a worker has it; ``expired``: leases that ran out before."""

    job_id: bytes
    task_id: bytes
    batch_id: bytes | None
    state: JobState
    members: tuple[int, ...] = field(repr=False)
    attempts: int = 0
    holder: int = 0
    expired: int = 0
    location: str = ""
    request: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class FailingJob:
    """An unfinished job whose last attempt failed, or whose lease ran out."""

    job_id: bytes
    state: str
    size: int
    attempts: int
    expired: int
    cause: str


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


def pack_members(seqs: Sequence[int]) -> bytes:
    """Sequence numbers as a job's row holds them: 8 bytes each."""
    return struct.pack(f">{len(seqs)}q", *seqs)


def unpack_members(members: bytes) -> tuple[int, ...]:
    """Inverse of ``pack_members``."""
    return struct.unpack(f">{len(members) // 8}q", members)
