"""The interfaces that the analyzer's parts expect of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from services.analyzer.records import Chunk
from tacit.aggregator.one_server.ports import ClosedTx, UploadTx
from tacit.aggregator.one_server.records import Aggregate
from tacit.aggregator.ports import CountingTx, StatusTx
from tacit.roles.shuffled import Tally


class ChunkTx(ClosedTx, Protocol):
    """The transaction that takes a chunk of shuffled messages."""

    async def chunk(self, task_id: bytes, index: int) -> Chunk | None:
        """The chunk that was stored under this index."""
        ...

    async def chunk_total(self, task_id: bytes) -> int | None:
        """The ``total`` that every stored chunk of the recipe states; None if there is none."""
        ...

    async def keep_chunk(self, task_id: bytes, chunk: Chunk, tally: Tally) -> bool:
        """Store a chunk with what it held; False, with nothing changed, if there is one of its index."""
        ...

    async def tallies(self, task_id: bytes) -> list[Tally]:
        """What each stored chunk held; only before the release."""
        ...

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the recipe's counters of rejected reports, and of malformed messages, by cause."""
        ...

    async def add(self, task_id: bytes, counted: Aggregate) -> None:
        """Add to the recipe's running sum. Raises ``Fatal`` if the sum is gone."""
        ...


class ReleaseTx(ChunkTx, CountingTx, Protocol):
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
