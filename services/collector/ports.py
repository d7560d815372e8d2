"""The interfaces that the collector's parts expect of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from services.collector.records import Collection, Result


class ReleasesTx(Protocol):
    """The transaction that publishes results."""

    async def unpublished(self, limit: int) -> Sequence[Result]:
        """At most ``limit`` releases that the recipe server has not acknowledged."""
        ...

    async def set_published(self, collection: str) -> None:
        """Record that the recipe server has the result."""
        ...


class MetricsTx(Protocol):
    """The transaction of the collector's metrics."""

    async def collections_by_state(self) -> dict[str, int]:
        """How many collections are in each state."""
        ...

    async def all_unpublished(self) -> int:
        """How many releases the recipe server has not acknowledged."""
        ...


class CollectionsTx(Protocol):
    """The transaction of collecting."""

    async def collections(self, recipe_hash: bytes | None = None) -> list[Collection]:
        """Every collection, or those of one recipe, in the order in which they were requested."""
        ...

    async def collection(self, collection_id: str) -> Collection | None:
        """One collection, or None."""
        ...

    async def due(self, now: float, limit: int) -> list[Collection]:
        """Unfinished collections whose next attempt is due, the longest overdue first."""
        ...

    async def add_collection(self, row: Collection) -> None:
        """Store a new collection."""
        ...

    async def put_collection(self, row: Collection) -> None:
        """Replace one collection's row. Raises ``Fatal`` for a move that ``COLLECTION_STATES`` does not allow."""
        ...

    async def add_result(self, result: Result) -> None:
        """Store a release. Raises ``IntegrityError`` for a second one of the same batch."""
        ...


class ResultsTx(Protocol):
    """The transaction that shows releases."""

    async def results(self, recipe_hash: bytes | None = None) -> list[Result]:
        """Every release, or those of one recipe, in order."""
        ...

    async def released(self, after: int, limit: int) -> list[Result]:
        """At most ``limit`` releases after the first ``after``, in the order of release."""
        ...
