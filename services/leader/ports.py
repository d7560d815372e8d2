"""What the Leader's parts ask of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from services.leader.records import BatchState, CollectionRow, FailingJob, JobRow, JobState, StoredReport
from tacit.adapters.dialect import Scrubbed
from tacit.aggregator.ports import CountingTx, DecidingTx, MetricsTx, OpenTx, ReleasingTx, SharedStore, StatusTx


class RoomTx(Protocol):
    """What ``Room`` asks of a transaction."""

    async def pending_summary(self, task_id: bytes) -> tuple[int, float | None]:
        """How many reports of a task have no job, and since when the oldest."""
        ...


class LeasesTx(Protocol):
    """What ``Workers`` ask of a transaction: jobs to take, to keep and to give back."""

    async def due_jobs(self, now: float, limit: int, other_than: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """(job id, task id) of jobs that a worker may take, of tasks ``other_than`` these, the longest due first."""
        ...

    async def claim_jobs(self, job_ids: Collection[bytes], now: float, holder: int, until: float) -> list[JobRow]:
        """Take those of ``job_ids`` that are still due and that no other process takes at this moment."""
        ...

    async def renew_leases(self, job_ids: Collection[bytes], holder: int, until: float) -> None:
        """Keep those of ``job_ids`` that ``holder`` still has for longer."""
        ...

    async def expire_lease(self, job: JobRow, now: float, cause: str) -> None:
        """A formed job could not be prepared: as if its worker had died."""
        ...

    async def free_leases(self, holder: int) -> None:
        """Give every job of ``holder`` back, as it was before it was taken."""
        ...


class Slices(Protocol):
    """Where reports' bytes lie: their numbers come in slices, and bytes go with the slice that they lie in."""

    async def lacks_room(self) -> bool:
        """Whether ``make_room`` has something to do."""
        ...

    async def make_room(self) -> None:
        """Make the slices that the next reports go to. The transaction runs alone."""
        ...

    async def close_slice(self) -> None:
        """Let the next report begin a new slice, unless the present one is untouched. The transaction runs alone."""
        ...

    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Drop closed slices that nothing needs; with ``rewrite`` write those that hold little anew. The
        transaction runs alone."""
        ...


class BytesTx(Protocol):
    """What everything that handles reports' bytes asks of a transaction."""

    @property
    def numbered(self) -> Slices:
        """Where they lie."""
        ...

    async def stored(self, seqs: Sequence[int]) -> list[StoredReport]:
        """The reports of ``seqs`` that are stored, in the order of ``seqs``."""
        ...

    async def delete_reports(self, seqs: Sequence[int]) -> None:
        """Forget the bytes of reports that are dealt with."""
        ...


class LoadTx(CountingTx, Protocol):
    """What deciding whether a task's reports are dealt with asks of a transaction."""

    async def unfinished_jobs(self, task_id: bytes) -> int:
        """How many jobs of a task are formed or sent."""
        ...

    async def in_flight(self, task_id: bytes, batch_id: bytes | None = None) -> int:
        """Reports of the unfinished jobs of a task, or of one of its batches."""
        ...


class UploadTx(OpenTx, BytesTx, LoadTx, RoomTx, StatusTx, Protocol):
    """What uploads and status pages ask of a transaction."""

    async def digests(self, task_id: bytes, report_ids: Sequence[bytes]) -> tuple[dict[bytes, bytes | None], bool]:
        """SHA-256 of the reports among ``report_ids`` that are stored or were dealt with, and whether any batch of the
        task was released, or it closed without one."""
        ...

    async def add_reports(self, uploads: Sequence[StoredReport], now: float) -> None:
        """Store new reports, pending since ``now``. Raises ``IntegrityError`` where a partition is missing."""
        ...

    async def live_collection(self, task_id: bytes) -> bool:
        """Whether a collection job of the task is under way."""
        ...

    async def job_counts(self, task_id: bytes) -> dict[str, int]:
        """Aggregation jobs by state."""
        ...

    async def leased_jobs(self, task_id: bytes, now: float) -> int:
        """Unfinished jobs of a task that a worker has."""
        ...

    async def failing_jobs(self, task_id: bytes, limit: int) -> list[FailingJob]:
        """Unfinished jobs of a task that failed last time, those with most attempts first."""
        ...

    async def batch_counts(self, task_id: bytes) -> dict[str, int]:
        """Leader-selected batches by state."""
        ...


class LeaderMetricsTx(MetricsTx, Protocol):
    """What the Leader's metrics ask of a transaction: counts over all tasks."""

    async def all_pending(self) -> int:
        """Reports without a job."""
        ...

    async def all_jobs(self) -> dict[str, int]:
        """Aggregation jobs by state."""
        ...

    async def all_failing_jobs(self) -> int:
        """Unfinished jobs that failed last time."""
        ...


class UploadStore(SharedStore[UploadTx], Protocol):
    """What ``Leader`` asks."""

    @property
    def coordinates(self) -> bool:
        """What ``leads`` said last."""
        ...

    async def add_new_reports(self, uploads: Sequence[StoredReport], closable: Collection[bytes], now: float) -> bool:
        """Store reports in one statement if nobody has seen any of them, no two have one id, the rows of their tasks
        say that they are served, and no batch of a task in ``closable`` was released; False if that does not hold or
        cannot be done here: then nothing happened. Raises ``IntegrityError`` where a partition is missing."""
        ...


class WorkTx(DecidingTx, BytesTx, LoadTx, Protocol):
    """What ``JobWork`` asks of a transaction."""

    async def add_pending(self, rows: Sequence[tuple[int, bytes]], since: float) -> None:
        """(seq, task id) of reports that wait for a job since, or not before, ``since``."""
        ...

    async def amend(self, task_id: bytes, rejections: Mapping[bytes, tuple[int, str]]) -> None:
        """Reports with an outcome are rejected after all: (code, cause) per report id. Their tokens stay spent."""
        ...

    async def job_to_send(self, job: JobRow, request: bytes, seqs: Sequence[int]) -> bool:
        """From now on the job is these bytes, made of these reports; False if the lease is another's by now."""
        ...

    async def drop_job(self, job: JobRow) -> bool:
        """Forget a formed job that nothing came of; False if the lease is another's by now."""
        ...

    async def postpone_job(self, job: JobRow, next_attempt: float, location: str, cause: str) -> None:
        """Note a failed attempt, why it failed, and where a Helper that works asynchronously is to be asked; give the
        lease back."""
        ...

    async def end_job(self, job_id: bytes, state: JobState) -> bool:
        """End a sent job and overwrite its request; False if it had ended before."""
        ...

    async def lock_batch(self, batch_id: bytes) -> None:
        """Nobody else adds to the batch until this transaction ends, and what others added is seen from now on."""
        ...

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch on. Raises ``Fatal`` for a move that ``BATCH_STATES`` does not hold."""
        ...


class CoordinatorTx(DecidingTx, BytesTx, LoadTx, Protocol):
    """What ``Coordinator`` asks of a transaction."""

    async def pending(self, task_id: bytes, now: float, limit: int) -> list[int]:
        """Sequence numbers of up to ``limit`` reports that wait by ``now``, the oldest first."""
        ...

    async def pending_head(self, task_id: bytes, now: float, limit: int) -> tuple[int, float]:
        """How many reports ``pending`` would give, and since when the oldest waits."""
        ...

    async def take_pending(self, task_id: bytes, seqs: Sequence[int]) -> None:
        """Jobs have these reports of a task from now on; what is left of their groups becomes one. The transaction
        runs alone."""
        ...

    async def add_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Store formed jobs, free for any worker."""
        ...

    async def split_jobs(self, now: float, limit: int) -> list[JobRow]:
        """Formed jobs whose leases ran out too often: one of their reports may be what kills the workers."""
        ...

    async def remove_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Forget formed jobs whose reports go into others. Raises ``Fatal`` where one of them is not formed."""
        ...

    async def seqs_in_jobs(self) -> set[int]:
        """Every report of an unfinished job, of all tasks."""
        ...

    async def open_batch(self, task_id: bytes) -> bytes | None:
        """The leader-selected batch that fills up."""
        ...

    async def add_batch(self, task_id: bytes, batch_id: bytes) -> None:
        """Begin a leader-selected batch."""
        ...


class RetryTx(StatusTx, Protocol):
    """What the Leader's operator asks of a transaction."""

    async def unfinished_collections(self, due: float) -> list[CollectionRow]:
        """Collection jobs that have something to do by ``due``."""
        ...

    async def retry_jobs(self, task_id: bytes, now: float) -> None:
        """Unfinished jobs of a task that no worker has are due at once."""
        ...

    async def retry_collection(self, job_id: bytes) -> None:
        """A collection job that is under way is due at once."""
        ...


class CollectionsTx(ReleasingTx, Protocol):
    """What ``Collections`` asks of a transaction."""

    async def has_pending(self, task_id: bytes) -> bool:
        """Whether a report of the task has no job."""
        ...

    async def unfinished_jobs(self, task_id: bytes) -> int:
        """How many jobs of a task are formed or sent."""
        ...

    async def full_batch(self, task_id: bytes) -> bytes | None:
        """The oldest full batch that no collection job has."""
        ...

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch on. Raises ``Fatal`` for a move that ``BATCH_STATES`` does not hold."""
        ...

    async def collection(self, job_id: bytes) -> CollectionRow | None:
        """One collection job."""
        ...

    async def unfinished_collections(self, due: float) -> list[CollectionRow]:
        """Collection jobs that have something to do by now."""
        ...

    async def same_requests(self, task_id: bytes, request: bytes) -> list[CollectionRow]:
        """Every collection job of the task that was created with these bytes."""
        ...

    async def live_collections(self, task_id: bytes) -> list[CollectionRow]:
        """The collection jobs of the task that are under way."""
        ...

    async def add_collection(self, row: CollectionRow) -> None:
        """Create a collection job."""
        ...

    async def put_collection(self, row: CollectionRow) -> None:
        """Replace a collection job's row by one in another state. Raises ``Fatal`` for a move that
        ``COLLECTION_STATES`` does not hold."""
        ...

    async def postpone_collection(self, job_id: bytes, attempts: int, next_attempt: float) -> None:
        """Note a failed attempt, whatever became of the job meanwhile."""
        ...
