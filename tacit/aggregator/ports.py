"""What an aggregator's common parts ask of the store of either aggregator.

``tacit.aggregator.store`` is the one over a database; a transaction there offers each of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.aggregator.parties import Served
from tacit.aggregator.records import Batch, Known, OutcomeRow, TaskRow, TaskState
from tacit.roles.aggregator import Tally
from tacit.service.store import Transactions
from tacit.task import Task

Tx_co = TypeVar("Tx_co", covariant=True)


class SharedStore(Transactions[Tx_co], Protocol[Tx_co]):
    """A store that several processes may have open, one of which leads."""

    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; alone, or beside other processes' shared transactions."""
        ...

    async def leads(self) -> bool:
        """Whether this process coordinates the others; see ``Database.leads``."""
        ...

    async def checkpoint(self) -> None:
        """Make bytes that were overwritten vanish from the files too; see ``Database.checkpoint``."""
        ...


class FollowedStore(SharedStore["LogTx"], Protocol):
    """What ``LogFollower`` asks."""

    doubtful: str
    """What shows that the database is from the past."""


class OpenTx(Protocol):
    """What everything that acts for a task asks of a transaction."""

    async def is_open(self, party: Served, now: float) -> bool:
        """Whether a task may do anything at all: it is served, and its time is not over at ``now``. **Every transaction
        that counts, releases, stores or closes asks this first** (P9, P32)."""
        ...

    async def demand_open(self, party: Served, now: float) -> None:
        """Raise ``DapAbort(unrecognizedTask)`` unless ``is_open``."""
        ...


class CountingTx(Protocol):
    """What counting a task's reports asks of a transaction."""

    async def accepted_count(self, task_id: bytes, batch: Batch = None) -> int:
        """Distinct nullifiers of the reports that count, in a batch or in the whole task. Reads every one of them: for
        decisions to release, not for progress."""
        ...

    async def counted(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Reports in the tallies of one bucket or of the whole task."""
        ...


class DecidingTx(OpenTx, Protocol):
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


class ReleasingTx(OpenTx, CountingTx, Protocol):
    """What releasing a batch asks of a transaction."""

    async def is_released(self, task: Task, batch: Batch) -> bool:
        """Whether a batch is closed for good, or part of it: one that is named by its id, the times of an interval, or
        the task's only one. Every batch of a task that was closed without a release is."""
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


class StatusTx(CountingTx, Protocol):
    """What a status page of either aggregator asks of a transaction."""

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that was seen."""
        ...

    async def release_count(self, task_id: bytes) -> int:
        """How many batches of the task were released."""
        ...

    async def rejections(self, task_id: bytes) -> dict[str, int]:
        """Rejected reports by cause."""
        ...


class MetricsTx(Protocol):
    """What the metrics of an aggregator ask of a transaction: counts over all tasks."""

    async def tasks_by_state(self) -> dict[str, int]:
        """How many recipes that were seen are in each state."""
        ...

    async def all_released(self) -> int:
        """How many batches were released."""
        ...

    async def all_rejections(self) -> dict[str, int]:
        """Rejected reports by cause."""
        ...

    async def all_counted(self) -> int:
        """Reports in all buckets."""
        ...


class CensusTx(Protocol):
    """What the publishing of census shares asks of a transaction."""

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that was seen."""
        ...

    async def census_shares(self) -> list[tuple[bytes, int, bytes]]:
        """(task id, report count, encoded aggregate share) of every census that was released."""
        ...


class ClosingTx(Protocol):
    """What closing a task for good asks of a transaction."""

    async def task_state(self, recipe_hash: bytes) -> TaskState | None:
        """What one recipe's row says now; ``None`` without one."""
        ...

    async def in_doubt(self) -> bool:
        """Whether ``doubt`` was said, and no operator has decided yet."""
        ...

    async def close_unreleased(self, task_id: bytes) -> bool:
        """Close a task for good of which no batch was released, and forget its sums; False, and nothing changes, if one
        was."""
        ...

    async def put_task(self, task: TaskRow) -> bool:
        """Insert or replace one recipe's row, in a transaction that runs alone; False, and nothing changes, where the
        row says that the task has ended and the new one does not: whoever decided on an older one is too late. Raises
        ``Fatal`` for any other move that ``TASK_STATES`` does not hold."""
        ...


class LogTx(CensusTx, ClosingTx, Protocol):
    """What following the log asks of a transaction."""

    async def log_state(self) -> bytes | None:
        """What the log reader persisted last."""
        ...

    async def put_log_state(self, state: bytes) -> None:
        """Replace the log reader's state."""
        ...

    async def leaves(self, start: int = 0) -> list[tuple[int, bytes]]:
        """Every verified leaf from index ``start`` on with its index, in the order of the log."""
        ...

    async def add_leaves(self, leaves: Iterable[tuple[int, bytes]]) -> int:
        """Keep verified leaves; those already kept are left alone. Returns how many are new."""
        ...

    async def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent, as an operator has accepted: no task that had
        begun by then (``had_begun``) does anything any more. 0 where the database was never restored from the past."""
        ...

    async def doubt(self) -> None:
        """The log shows that this database is from the past: every task is closed, and the next start refused, until an
        operator decides."""
        ...

    async def forget(self, task_id: bytes) -> None:
        """Delete everything about a task but the row that says that it existed, and which batches were released."""
        ...
