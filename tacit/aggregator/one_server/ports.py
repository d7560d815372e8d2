"""What taking reports requires of the store of a server without aggregators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tacit.aggregator.one_server.records import Aggregate
from tacit.aggregator.ports import OpenTx
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
