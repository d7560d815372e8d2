"""What the common parts of an aggregator require of the store of either aggregator.

``tacit.aggregator.store`` is the implementation over a database; its transactions offer each of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.aggregator.parties import Served
from tacit.aggregator.records import Batch, Known, OutcomeRow, TaskRow, TaskState
from tacit.logview.stored import LeavesTx
from tacit.roles.aggregator import Tally
from tacit.service.store import Transactions
from tacit.task import Task

Tx_co = TypeVar("Tx_co", covariant=True)


class SharedStore(Transactions[Tx_co], Protocol[Tx_co]):
    """A store that several processes may have open, one of which leads."""

    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; runs alone, or beside other processes' shared transactions."""
        ...

    async def leads(self) -> bool:
        """Whether this process coordinates the others; see ``Database.leads``."""
        ...

    async def checkpoint(self) -> None:
        """Remove overwritten bytes from the files too; see ``Database.checkpoint``."""
        ...


class FollowedStore(SharedStore["LogTx"], Protocol):
    """What ``LogFollower`` requires of a store."""

    doubtful: str
    """The evidence that the database is from the past; empty without any."""


class OpenTx(Protocol):
    """What everything that acts for a task requires of a transaction."""

    async def is_open(self, party: Served, now: float) -> bool:
        """Whether a task may do anything at all: it is served, and its time is not over at ``now``. **Every transaction
        that counts, releases, stores or closes calls this first** (P9, P32)."""
        ...

    async def demand_open(self, party: Served, now: float) -> None:
        """Raise ``DapAbort(unrecognizedTask)`` unless ``is_open``."""
        ...


class CountingTx(Protocol):
    """What counting a task's reports requires of a transaction."""

    async def accepted_count(self, task_id: bytes, batch: Batch = None) -> int:
        """Number of distinct nullifiers of the reports that count, in a batch or in the whole task. Reads every one of
        them: for decisions to release, not for showing progress."""
        ...

    async def counted(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Number of reports in the tallies of one bucket or of the whole task."""
        ...


class DecidingTx(OpenTx, Protocol):
    """What deciding on the reports of one job requires of a transaction."""

    async def known(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, Known]:
        """The existing outcomes of ``report_ids``."""
        ...

    async def closed_times(self, task: Task, batch_id: bytes | None, times: Collection[int]) -> set[int]:
        """Those of ``times`` (units of the precision) for which no report counts any more, in batch ``batch_id`` of a
        leader-selected task."""
        ...

    async def record(self, task_id: bytes, rows: Sequence[OutcomeRow]) -> set[bytes]:
        """Insert those of ``rows`` whose report id and nullifier are free; return the report ids of the others. If two
        rows in one call use the same, the first wins. A refused row leaves nothing behind: the caller records the
        refusal of its report with no nullifier."""
        ...

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the task's counters of rejected reports by cause."""
        ...

    async def add_tallies(self, task: Task, tallies: Mapping[bytes, Tally]) -> None:
        """Merge tallies into this process's shard of their buckets; one whose share is gone takes nothing more."""
        ...


class ReleasingTx(OpenTx, CountingTx, Protocol):
    """What releasing a batch requires of a transaction."""

    async def is_released(self, task: Task, batch: Batch) -> bool:
        """Whether a batch, or part of it, is closed for good. A batch is named by its id, by the times of an interval,
        or is the task's only one. If a task was closed without a release, this holds for every batch of it."""
        ...

    async def tally(self, task: Task, batch: Batch = None) -> Tally | None:
        """The content of a batch, or of all buckets of the task together; ``None`` if there is none."""
        ...

    async def keep_census_share(self, task_id: bytes, report_count: int, agg_share: bytes) -> None:
        """Keep the encoded aggregate share of a census, as it was released, in the transaction that releases it. A
        second one raises ``IntegrityError``: a census has one batch."""
        ...

    async def release(self, task_id: bytes, selector: bytes) -> None:
        """Mark a batch as released; it takes no further reports."""
        ...

    async def scrub_buckets(self, task_id: bytes, batch: Batch = None) -> None:
        """Forget aggregate shares that were released or never will be; counts and checksums stay. A restored older
        database would hold them again, and their noise could be drawn a second time."""
        ...


class StatusTx(CountingTx, Protocol):
    """What a status page of either aggregator requires of a transaction."""

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that this aggregator has seen."""
        ...

    async def release_count(self, task_id: bytes) -> int:
        """Number of released batches of the task."""
        ...

    async def rejections(self, task_id: bytes) -> dict[str, int]:
        """Rejected reports by cause."""
        ...


class MetricsTx(Protocol):
    """What the metrics of an aggregator require of a transaction: counts over all tasks."""

    async def tasks_by_state(self) -> dict[str, int]:
        """Number of recipes in each state."""
        ...

    async def all_released(self) -> int:
        """Number of released batches."""
        ...

    async def all_rejections(self) -> dict[str, int]:
        """Rejected reports by cause."""
        ...

    async def all_counted(self) -> int:
        """Number of reports counted in all buckets together."""
        ...


class ClosingTx(Protocol):
    """What closing a task for good requires of a transaction."""

    async def task_state(self, recipe_hash: bytes) -> TaskState | None:
        """The current state in one recipe's row; ``None`` without a row."""
        ...

    async def in_doubt(self) -> bool:
        """Whether ``doubt`` was called and no operator has decided since."""
        ...

    async def close_unreleased(self, task_id: bytes) -> bool:
        """Close for good a task of which no batch was released, and forget its sums; False, with nothing changed, if
        one was released."""
        ...

    async def put_task(self, task: TaskRow) -> bool:
        """Insert or replace one recipe's row, in a transaction that runs alone; False, with nothing changed, where the
        row says that the task has ended and the new one does not: the decision was based on an older row and is too
        late. Raises ``Fatal`` for any other transition that ``TASK_STATES`` does not contain."""
        ...


class LogTx(LeavesTx, ClosingTx, Protocol):
    """What following the log requires of a transaction."""

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that this aggregator has seen."""
        ...

    async def census_shares(self) -> list[tuple[bytes, int, bytes]]:
        """(task id, report count, encoded aggregate share) of every census that was released."""
        ...

    async def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent, as an operator has accepted: no task that had
        begun by then (``had_begun``) does anything any more. 0 where the database was never restored from the past."""
        ...

    async def doubt(self) -> None:
        """Record that the log shows that this database is from the past: every task is closed, and the next start is
        refused, until an operator decides."""
        ...

    async def forget(self, task_id: bytes) -> None:
        """Delete everything about a task except the row that records its existence, and which batches were released."""
        ...
