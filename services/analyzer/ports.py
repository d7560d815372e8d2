"""What the analyzer's parts ask of whatever keeps its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from services.analyzer.records import Aggregate
from tacit.aggregator.ports import CountingTx, OpenTx, StatusTx
from tacit.aggregator.records import Known, OutcomeRow


class ClosedTx(OpenTx, Protocol):
    """What everything that counts or releases asks of a transaction."""

    async def is_closed(self, task_id: bytes) -> bool:
        """Whether a recipe's sum was released, or the recipe closed for good without a release."""
        ...


class UploadTx(ClosedTx, Protocol):
    """What taking reports asks of a transaction."""

    async def known(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, Known]:
        """The outcomes that exist of ``report_ids``."""
        ...

    async def record(self, task_id: bytes, rows: Sequence[OutcomeRow]) -> set[bytes]:
        """Insert those of ``rows`` whose report id and nullifier are free; returns the report ids of the others. Of two
        rows that want the same, the first has it."""
        ...

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the recipe's counters of rejected reports by cause."""
        ...

    async def add(self, task_id: bytes, counted: Aggregate) -> None:
        """Add reports to the recipe's running sum. Raises ``Fatal`` where that is gone."""
        ...


class ReleaseTx(ClosedTx, CountingTx, Protocol):
    """What releasing a sum asks of a transaction."""

    async def running(self, task_id: bytes) -> Aggregate | None:
        """The running sum, ``None`` where nothing was counted."""
        ...

    async def released(self, task_id: bytes) -> Aggregate | None:
        """What was released."""
        ...

    async def keep_released(self, task_id: bytes, aggregate: Aggregate) -> None:
        """Release a sum: keep it for the collector, close the recipe for good, and forget the running sum. A second one
        is an ``IntegrityError``."""
        ...


class AnalyzerTx(UploadTx, ReleaseTx, StatusTx, Protocol):
    """What the analyzer asks of a transaction."""
