"""The interface that publishing expects of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from services.collector.records import Result


class ReleasesTx(Protocol):
    """The transaction that publishes results."""

    async def unpublished(self, limit: int) -> Sequence[Result]:
        """At most ``limit`` releases that the recipe server has not acknowledged."""
        ...

    async def set_published(self, collection: str) -> None:
        """Record that the recipe server has the result."""
        ...
