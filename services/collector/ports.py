"""What the collector's parts ask of the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from services.collector.records import Collection, Result


class LogTx(Protocol):
    """What following the log asks of a transaction."""

    async def log_state(self) -> bytes | None:
        """What the log reader persisted last."""
        ...

    async def put_log_state(self, state: bytes) -> None:
        """Replace the log reader's state."""
        ...

    async def leaves(self) -> list[tuple[int, bytes]]:
        """Every verified leaf with its index, in the order of the log."""
        ...

    async def add_leaves(self, leaves: Iterable[tuple[int, bytes]]) -> int:
        """Keep verified leaves; those already kept are left alone. Returns how many are new."""
        ...


class ReleasesTx(Protocol):
    """What publishing results asks of a transaction."""

    async def unpublished(self, limit: int) -> Sequence[Result]:
        """Releases that the recipe server has not acknowledged."""
        ...

    async def set_published(self, collection: str) -> None:
        """The recipe server has the result."""
        ...


class MetricsTx(Protocol):
    """What the collector's metrics ask of a transaction."""

    async def collections_by_state(self) -> dict[str, int]:
        """How many collections are in each state."""
        ...

    async def all_unpublished(self) -> int:
        """How many releases the recipe server has not acknowledged."""
        ...


class CollectionsTx(Protocol):
    """What collecting asks of a transaction."""

    async def collections(self, recipe_hash: bytes | None = None) -> list[Collection]:
        """Every collection, or one recipe's, in the order in which they were asked for."""
        ...

    async def collection(self, collection_id: str) -> Collection | None:
        """One collection."""
        ...

    async def due(self, now: float, limit: int) -> list[Collection]:
        """Unfinished collections whose next attempt is due, the longest overdue first."""
        ...

    async def add_collection(self, row: Collection) -> None:
        """Keep a new collection."""
        ...

    async def put_collection(self, row: Collection) -> None:
        """Replace one collection's row. Raises ``Fatal`` for a move that ``COLLECTION_STATES`` does not hold."""
        ...

    async def add_result(self, result: Result) -> None:
        """Store a release; a second one for the same batch is an integrity error."""
        ...


class ResultsTx(Protocol):
    """What showing releases asks of a transaction."""

    async def results(self, recipe_hash: bytes | None = None) -> list[Result]:
        """Every release, or one recipe's, in order."""
        ...

    async def released(self, after: int, limit: int) -> list[Result]:
        """At most ``limit`` releases behind the first ``after``, in the order of their release."""
        ...
