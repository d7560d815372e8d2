"""What an aggregator's common parts ask of the store of either aggregator.

``tacit.aggregator.store`` is the one over a database; a transaction there offers each of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.aggregator.records import TaskRow, TaskState
from tacit.service.store import Transactions

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
