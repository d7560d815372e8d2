"""What the Helper asks of whatever keeps its state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tacit.aggregator.outcomes import Batch, Known, OutcomeRow
from tacit.aggregator.records import TaskRow
from tacit.roles.aggregator import Party, Tally
from tacit.task import Task


class CommitTx(Protocol):
    """What deciding on the reports of one job asks of a transaction."""

    async def known(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, Known]:
        """The outcomes that exist of ``report_ids``."""
        ...

    async def closed_times(self, task: Task, batch_id: bytes | None, times: Collection[int]) -> set[int]:
        """Those of ``times`` (units of the precision) of which no report counts any more, in batch ``batch_id`` of a
        leader-selected task."""
        ...

    async def record(self, task_id: bytes, rows: Sequence[OutcomeRow]) -> set[bytes]:
        """Insert those of ``rows`` whose report id and nullifier are free; returns the report ids of the others. Of two
        rows in one call that want the same, the first has it. A refused row leaves nothing behind: whoever refuses its
        report records that with no nullifier."""
        ...

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the task's counters of rejected reports by cause."""
        ...

    async def add_tallies(self, task: Task, tallies: Mapping[bytes, Tally]) -> None:
        """Merge tallies into this process's shard of their buckets; one whose share is gone takes nothing more."""
        ...


class HelperTx(CommitTx, Protocol):
    """What the Helper asks of a transaction."""

    async def demand_open(self, party: Party, now: float) -> None:
        """Raise ``DapAbort(unrecognizedTask)`` unless ``is_open``."""
        ...

    async def begin_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Take an aggregation job; False if another transaction has answered it. Waits for one that is about to."""
        ...

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The response of an aggregation job, as it was given."""
        ...

    async def end_job(self, job_id: bytes, response: bytes) -> None:
        """Keep the response, which is not empty, of a job that this transaction took. Raises ``Fatal`` for one that it
        did not take, or that has a response."""
        ...

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Forget a response; what was decided about its reports stays. False if there was none."""
        ...

    async def job_count(self, task_id: bytes) -> int:
        """Aggregation jobs whose response is kept."""
        ...

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The aggregate share as it was given."""
        ...

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Keep an aggregate share's answer."""
        ...

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        """Forget an aggregate share's answer; its batch stays closed. False if there was none."""
        ...

    async def is_released(self, task: Task, batch: Batch) -> bool:
        """Whether a batch is closed for good, or part of it: one that is named by its id, the times of an interval, or
        the task's only one. Every batch of a task that was closed without a release is."""
        ...

    async def accepted_count(self, task_id: bytes, batch: Batch = None) -> int:
        """Distinct nullifiers of the reports that count, in a batch or in the whole task. Reads every one of them: for
        decisions to release, not for progress."""
        ...

    async def counted(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Reports in the tallies of one bucket or of the whole task."""
        ...

    async def tally(self, task: Task, batch: Batch = None) -> Tally | None:
        """The content of a batch, or of all the task's buckets together; ``None`` if there is none."""
        ...

    async def keep_census_share(self, task_id: bytes, report_count: int, agg_share: bytes) -> None:
        """Keep the encoded aggregate share of a census, as it was released, in the transaction that releases it. A
        second one is an ``IntegrityError``: a census has one batch."""
        ...

    async def release(self, task_id: bytes, selector: bytes) -> None:
        """Close a batch for good."""
        ...

    async def scrub_buckets(self, task_id: bytes, batch: Batch = None) -> None:
        """Forget aggregate shares that were released or never will be; counts and checksums stay. An older database
        would have them, and noise for them could be drawn again."""
        ...

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Decided reports: how many were counted and how many refused."""
        ...

    async def rejections(self, task_id: bytes) -> dict[str, int]:
        """Rejected reports by cause."""
        ...

    async def release_count(self, task_id: bytes) -> int:
        """How many batches of the task were released."""
        ...

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that was seen."""
        ...
