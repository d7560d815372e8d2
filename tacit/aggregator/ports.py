"""What the analyzer's parts, and those that it shares with the aggregators, require of a store.

``tacit.aggregator.store`` is the implementation over a database; its transactions offer each of these.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.aggregator.parties import Served
from tacit.aggregator.records import Batch
from tacit.service.base.store import Transactions

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
