"""The interfaces that the Leader's parts expect of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from services.leader.records import BatchState, CollectionRow, FailingJob, JobRow, JobState, StoredReport
from tacit.adapters.dialect import Scrubbed
from tacit.aggregator.ports import CountingTx, DecidingTx, MetricsTx, OpenTx, ReleasingTx, SharedStore, StatusTx


class RoomTx(Protocol):
    """The transaction that ``Room`` needs."""

    async def pending_summary(self, task_id: bytes) -> tuple[int, float | None]:
        """How many reports of a task have no job, and since when the oldest has waited (POSIX seconds; None if there is
        none)."""
        ...


class LeasesTx(Protocol):
    """The transaction that ``Workers`` need: jobs to take, to keep and to give back."""

    async def due_jobs(self, now: float, limit: int, other_than: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """(job id, task id) of jobs that a worker may take, longest due first, leaving out the tasks in
        ``other_than``."""
        ...

    async def claim_jobs(self, job_ids: Collection[bytes], now: float, holder: int, until: float) -> list[JobRow]:
        """Take those of ``job_ids`` that are still due and that no other process is taking at this moment."""
        ...

    async def renew_leases(self, job_ids: Collection[bytes], holder: int, until: float) -> None:
        """Extend the leases of those of ``job_ids`` that ``holder`` still has."""
        ...

    async def expire_lease(self, job: JobRow, now: float, cause: str) -> None:
        """Treat a formed job that could not be prepared as if its worker had died."""
        ...

    async def free_leases(self, holder: int) -> None:
        """Give back every job of ``holder``, in the state before it was taken."""
        ...


class Slices(Protocol):
    """Where the bytes of reports are stored: sequence numbers are cut into slices, and the bytes of a slice are dropped
    together."""

    async def lacks_room(self) -> bool:
        """Whether ``make_room`` has something to do."""
        ...

    async def make_room(self) -> None:
        """Make the slices for the next reports. The transaction runs alone."""
        ...

    async def close_slice(self) -> None:
        """Let the next report begin a new slice, unless the current one is empty. The transaction runs alone."""
        ...

    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Drop closed slices that hold none of the ``needed`` sequence numbers; with ``rewrite``, rewrite those that
        hold few of them. The transaction runs alone."""
        ...


class BytesTx(Protocol):
    """The transaction of everything that handles the bytes of reports."""

    @property
    def numbered(self) -> Slices:
        """The slices that hold the bytes."""
        ...

    async def stored(self, seqs: Sequence[int]) -> list[StoredReport]:
        """The reports of ``seqs`` that are stored, in the order of ``seqs``."""
        ...

    async def delete_reports(self, seqs: Sequence[int]) -> None:
        """Delete the bytes of processed reports."""
        ...


class LoadTx(CountingTx, Protocol):
    """The transaction that decides whether all reports of a task are processed."""

    async def unfinished_jobs(self, task_id: bytes) -> int:
        """How many jobs of a task are formed or sent."""
        ...

    async def in_flight(self, task_id: bytes, batch_id: bytes | None = None) -> int:
        """Number of reports in the unfinished jobs of a task, or of one of its batches."""
        ...


class UploadTx(OpenTx, BytesTx, LoadTx, RoomTx, StatusTx, Protocol):
    """The transaction of uploads and status pages."""

    async def digests(self, task_id: bytes, report_ids: Sequence[bytes]) -> tuple[dict[bytes, bytes | None], bool]:
        """SHA-256 of the reports among ``report_ids`` that are stored or were processed, and whether any batch of the
        task was released or the task was closed without a release."""
        ...

    async def add_reports(self, uploads: Sequence[StoredReport], now: float) -> None:
        """Store new reports, pending since ``now``. Raises ``IntegrityError`` if a partition is missing."""
        ...

    async def live_collection(self, task_id: bytes) -> bool:
        """Whether a collection job of the task is under way."""
        ...

    async def job_counts(self, task_id: bytes) -> dict[str, int]:
        """Aggregation jobs by state."""
        ...

    async def leased_jobs(self, task_id: bytes, now: float) -> int:
        """Number of unfinished jobs of a task that a worker has."""
        ...

    async def failing_jobs(self, task_id: bytes, limit: int) -> list[FailingJob]:
        """Unfinished jobs of a task whose last attempt failed, those with most attempts first."""
        ...

    async def batch_counts(self, task_id: bytes) -> dict[str, int]:
        """Leader-selected batches by state."""
        ...


class LeaderMetricsTx(MetricsTx, Protocol):
    """The transaction of the Leader's metrics: counts over all tasks."""

    async def all_pending(self) -> int:
        """Number of reports without a job."""
        ...

    async def all_jobs(self) -> dict[str, int]:
        """Aggregation jobs by state."""
        ...

    async def all_failing_jobs(self) -> int:
        """Number of unfinished jobs whose last attempt failed."""
        ...


class UploadStore(SharedStore[UploadTx], Protocol):
    """The store that ``Leader`` needs."""

    @property
    def coordinates(self) -> bool:
        """The last answer of ``leads``."""
        ...

    async def add_new_reports(self, uploads: Sequence[StoredReport], closable: Collection[bytes], now: float) -> bool:
        """Store reports in one statement, if nobody has seen any of them, no two have the same id, the rows of their
        tasks say that they are active, and no batch of a task in ``closable`` was released. Returns False, and does
        nothing, if a condition does not hold or the database cannot do it. Raises ``IntegrityError`` if a partition is
        missing."""
        ...


class WorkTx(DecidingTx, BytesTx, LoadTx, Protocol):
    """The transaction that ``JobWork`` needs."""

    async def add_pending(self, rows: Sequence[tuple[int, bytes]], since: float) -> None:
        """Add (sequence number, task id) of reports that wait for a job since ``since`` or, if that is in the future,
        from then on."""
        ...

    async def amend(self, task_id: bytes, rejections: Mapping[bytes, tuple[int, str]]) -> None:
        """Reject reports that already have an outcome: (code, cause) per report id. Their tokens stay spent."""
        ...

    async def job_to_send(self, job: JobRow, request: bytes, seqs: Sequence[int]) -> bool:
        """Store the exact request of the job, made of these reports. False if another worker has the lease by now."""
        ...

    async def drop_job(self, job: JobRow) -> bool:
        """Delete a formed job of which no report is to be sent. False if another worker has the lease by now."""
        ...

    async def postpone_job(self, job: JobRow, next_attempt: float, location: str, cause: str) -> None:
        """Record a failed attempt, its cause, and the URL at which to ask a Helper that works asynchronously; give the
        lease back."""
        ...

    async def end_job(self, job_id: bytes, state: JobState) -> bool:
        """End a sent job and overwrite its request; False if it had ended before."""
        ...

    async def lock_batch(self, batch_id: bytes) -> None:
        """Lock the batch: until this transaction ends nobody else adds to it, and from now on it sees what others
        added."""
        ...

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch to ``state``. Raises ``Fatal`` for a move that ``BATCH_STATES`` does not
        allow."""
        ...


class CoordinatorTx(DecidingTx, BytesTx, LoadTx, Protocol):
    """The transaction that ``Coordinator`` needs."""

    async def pending(self, task_id: bytes, now: float, limit: int) -> list[int]:
        """Sequence numbers of up to ``limit`` reports that wait by ``now``, oldest first."""
        ...

    async def pending_head(self, task_id: bytes, now: float, limit: int) -> tuple[int, float]:
        """How many reports ``pending`` would return, and since when the oldest has waited (POSIX seconds)."""
        ...

    async def take_pending(self, task_id: bytes, seqs: Sequence[int]) -> None:
        """Remove these reports of a task from the pending ones, because jobs have them now; the rest of their groups
        becomes one group. The transaction runs alone."""
        ...

    async def add_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Store formed jobs, free for any worker."""
        ...

    async def split_jobs(self, now: float, limit: int) -> list[JobRow]:
        """Formed jobs whose leases ran out too often: one of their reports may be what kills the workers."""
        ...

    async def remove_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Delete formed jobs whose reports go into other jobs. Raises ``Fatal`` if one of them is not in the state
        formed."""
        ...

    async def seqs_in_jobs(self) -> set[int]:
        """The sequence numbers of all reports in unfinished jobs, over all tasks."""
        ...

    async def open_batch(self, task_id: bytes) -> bytes | None:
        """The leader-selected batch that is being filled, or None."""
        ...

    async def add_batch(self, task_id: bytes, batch_id: bytes) -> None:
        """Begin a leader-selected batch."""
        ...


class RetryTx(StatusTx, Protocol):
    """The transaction for the acts of the Leader's operator."""

    async def unfinished_collections(self, due: float) -> list[CollectionRow]:
        """Collection jobs that have something to do by ``due``."""
        ...

    async def retry_jobs(self, task_id: bytes, now: float) -> None:
        """Make the unfinished jobs of a task that no worker has due at once."""
        ...

    async def retry_collection(self, job_id: bytes) -> None:
        """Make a collection job that is under way due at once."""
        ...


class CollectionsTx(ReleasingTx, Protocol):
    """The transaction that ``Collections`` needs."""

    async def has_pending(self, task_id: bytes) -> bool:
        """Whether any report of the task has no job."""
        ...

    async def unfinished_jobs(self, task_id: bytes) -> int:
        """How many jobs of a task are formed or sent."""
        ...

    async def full_batch(self, task_id: bytes) -> bytes | None:
        """The oldest full batch that no collection job has, or None."""
        ...

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch to ``state``. Raises ``Fatal`` for a move that ``BATCH_STATES`` does not
        allow."""
        ...

    async def collection(self, job_id: bytes) -> CollectionRow | None:
        """One collection job, or None."""
        ...

    async def unfinished_collections(self, due: float) -> list[CollectionRow]:
        """Collection jobs that have something to do by ``due``."""
        ...

    async def same_requests(self, task_id: bytes, request: bytes) -> list[CollectionRow]:
        """Every collection job of the task that was created with exactly these request bytes."""
        ...

    async def live_collections(self, task_id: bytes) -> list[CollectionRow]:
        """The collection jobs of the task that are under way."""
        ...

    async def add_collection(self, row: CollectionRow) -> None:
        """Store a new collection job."""
        ...

    async def put_collection(self, row: CollectionRow) -> None:
        """Replace a collection job's row by one in another state. Raises ``Fatal`` for a move that
        ``COLLECTION_STATES`` does not allow."""
        ...

    async def postpone_collection(self, job_id: bytes, attempts: int, next_attempt: float) -> None:
        """Record a failed attempt, whatever state the job has reached meanwhile."""
        ...
