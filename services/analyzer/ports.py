"""The interfaces that the analyzer's parts expect of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from services.analyzer.records import Aggregate
from tacit.aggregator.ports import CountingTx, OpenTx, StatusTx
from tacit.aggregator.records import Known, OutcomeRow


class ClosedTx(OpenTx, Protocol):
    """The transaction of everything that counts or releases."""

    async def is_closed(self, task_id: bytes) -> bool:
        """Whether a recipe's sum was released, or the recipe closed for good without a release."""
        ...


class UploadTx(ClosedTx, Protocol):
    """The transaction that takes reports."""

    async def known(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, Known]:
        """The stored outcomes of ``report_ids``; ids without an outcome are left out."""
        ...

    async def record(self, task_id: bytes, rows: Sequence[OutcomeRow]) -> set[bytes]:
        """Insert those of ``rows`` whose report id and nullifier are free; returns the report ids of the others. Of two
        rows with the same id or nullifier, the first is inserted."""
        ...

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the recipe's counters of rejected reports by cause."""
        ...

    async def add(self, task_id: bytes, counted: Aggregate) -> None:
        """Add reports to the recipe's running sum. Raises ``Fatal`` if the sum is gone."""
        ...

    async def keep_records(self, task_id: bytes, first: bytes, records: bytes) -> None:
        """Keep the records of a group of reports until the release; ``first`` is the id of one of them."""
        ...


class ReleaseTx(ClosedTx, CountingTx, Protocol):
    """The transaction that releases a sum."""

    async def running(self, task_id: bytes) -> Aggregate | None:
        """The running sum, or ``None`` if nothing was counted."""
        ...

    async def kept_records(self, task_id: bytes) -> list[bytes]:
        """The records that were kept, those of a group in one entry; the order of entries says nothing."""
        ...

    async def released(self, task_id: bytes) -> Aggregate | None:
        """The released sum, or ``None``."""
        ...

    async def keep_released(self, task_id: bytes, aggregate: Aggregate) -> None:
        """Release a sum: store it for the collector, close the recipe for good, and delete the running sum. Raises
        ``IntegrityError`` for a second release."""
        ...


class AnalyzerTx(UploadTx, ReleaseTx, StatusTx, Protocol):
    """The analyzer's transaction."""
