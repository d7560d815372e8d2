"""The Leader's rows, and the states that they go through.

The forms of a report between its upload and the aggregate. Each differs from the one before in what it holds:

====================  =======================  ===========================================  =========================
form                  made in                  what it has that the one before has not      who sees it
====================  =======================  ===========================================  =========================
encoded ``Report``    the device               two sealed shares                            gateway, Leader
``UploadSlices``      ``tacit.messages``       where its parts are, and their sizes         the request that brings it
``StoredReport``      ``Leader.upload``        task, digest; its number once it is stored   the Leader's database
``ReportSlices``      ``prepare_leader``       the Leader's sealed share, cut out           the thread that prepares
row of ``LeaderJob``  ``prepare_leader``       nullifier, out share, encoded VerifyInit     the worker, until it commits
``VerifyInit``        ``encode_request``       only the part for the Helper                 the request, Helper
``OutcomeRow``        ``JobWork``              verdict and cause; no share any more         the Leader's database
row of ``Rows``       ``finish_leader``        the Helper's consent                         the worker, until it commits
====================  =======================  ===========================================  =========================

A ``Tally`` sums the last of these. In the queue and in a job's row a report is only its number (``seq``).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tacit.states import Move, States


class JobState(enum.StrEnum):
    """State of an aggregation job. A formed job may still be split; a sent job is sent unchanged until it is answered
    (P14). The reports of abandoned and failed jobs do not count."""

    FORMED = "formed"
    SENT = "sent"
    DONE = "done"
    ABANDONED = "abandoned"
    FAILED = "failed"


JOB_STATES = States(
    "an aggregation job",
    JobState,
    [
        Move(None, JobState.FORMED, "formed from pending reports, in random order"),
        Move(JobState.FORMED, JobState.SENT, "outcomes recorded, request's digest stored (transaction 1)"),
        Move(
            JobState.FORMED,
            None,
            "nothing of it is to be sent, or can be by the grace, or it is split, its leases ran out",
        ),
        Move(JobState.SENT, JobState.DONE, "answer committed, bytes deleted (transaction 2)"),
        Move(JobState.SENT, JobState.ABANDONED, "the Helper's answer is not valid"),
        Move(JobState.SENT, JobState.FAILED, "no answer by the task's end plus the grace"),
    ],
)
UNFINISHED = sorted(state.value for state in JOB_STATES.lasting)


class BatchState(enum.StrEnum):
    """State of a leader-selected batch: it fills up, is full, and is claimed by one collection job for ever."""

    OPEN = "open"
    FULL = "full"
    CLAIMED = "claimed"


BATCH_STATES = States(
    "a leader-selected batch",
    BatchState,
    [
        Move(None, BatchState.OPEN, "a job is formed and no batch is open"),
        Move(BatchState.OPEN, BatchState.FULL, "exactly B tokens accepted"),
        Move(BatchState.FULL, BatchState.CLAIMED, "a collection job takes it"),
        Move(BatchState.CLAIMED, BatchState.FULL, "that job is deleted before it closes the batch"),
    ],
)


class CollectionState(enum.StrEnum):
    """State of a collection job: it waits for its batch, asks the Helper, and ends. A deleted job only keeps its id."""

    WAITING = "waiting"
    ASKING = "asking"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


COLLECTION_STATES = States(
    "a collection job",
    CollectionState,
    [
        Move(None, CollectionState.WAITING, "the Collector asks"),
        Move(
            CollectionState.WAITING, CollectionState.ASKING, "the batch is closed and the request to the Helper stored"
        ),
        Move(CollectionState.WAITING, CollectionState.FAILED, "the batch may not be released"),
        Move(CollectionState.FAILED, CollectionState.WAITING, "the Collector asks again, and the batch was not closed"),
        Move(
            CollectionState.ASKING, CollectionState.READY, "both sealed shares are stored, the batch's sums overwritten"
        ),
        Move(CollectionState.ASKING, CollectionState.FAILED, "the Helper's refusal is final"),
        Move(CollectionState.WAITING, CollectionState.DELETED, "the Collector deletes it"),
        Move(CollectionState.ASKING, CollectionState.DELETED, "the Collector deletes it"),
        Move(CollectionState.READY, CollectionState.DELETED, "the Collector deletes it"),
        Move(CollectionState.FAILED, CollectionState.DELETED, "the Collector deletes it"),
    ],
)


UNDER_WAY = frozenset({CollectionState.WAITING, CollectionState.ASKING})


class StoredReport(NamedTuple):
    """One uploaded report that awaits aggregation. ``digest`` is the SHA-256 of ``body``, which encodes the report;
    ``seq`` is its number, 0 until it has one."""

    task_id: bytes
    report_id: bytes
    digest: bytes
    body: bytes
    seq: int = 0

    def __repr__(self) -> str:
        return f"StoredReport(report_id={self.report_id!r}, seq={self.seq})"


class ReportHead(NamedTuple):
    """A stored report without its bytes."""

    seq: int
    report_id: bytes
    digest: bytes


@dataclass(frozen=True)
class JobRow:
    """One aggregation job: its reports in order and, once it was sent, the SHA-256 of the exact bytes that are sent
    until they are answered. ``holder``: the lease under which a worker has it; ``expired``: how many leases ran out
    before."""

    job_id: bytes
    task_id: bytes
    batch_id: bytes | None
    state: JobState
    seqs: tuple[int, ...] = field(repr=False)
    attempts: int = 0
    holder: int = 0
    expired: int = 0
    location: str = ""
    digest: bytes = field(default=b"", repr=False)


class AnsweredJob(NamedTuple):
    """A job that is done, whose answer the Helper still keeps at ``location``."""

    job_id: bytes
    task_id: bytes
    location: str


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
    """One collection job. ``problem`` is the JSON text of the problem document of a failed job."""

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


class Waiting(NamedTuple):
    """A collection job under way, and what it may wait for: a ``full`` batch of its task that no collection job has;
    that every report acknowledged so far has been processed (``settled``); that the task's shuffler has ``forwarded``
    everything."""

    row: CollectionRow
    full: bool
    settled: bool
    forwarded: bool


def pack_seqs(seqs: Sequence[int]) -> bytes:
    """Sequence numbers as a job's row stores them: 8 bytes each, big-endian."""
    return struct.pack(f">{len(seqs)}q", *seqs)


def unpack_seqs(packed: bytes) -> tuple[int, ...]:
    """Decode the numbers that ``pack_seqs`` encoded."""
    return struct.unpack(f">{len(packed) // 8}q", packed)
