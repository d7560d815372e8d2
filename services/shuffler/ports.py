"""The interfaces that the shuffler's parts expect of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from services.shuffler.records import Outgoing
from tacit.aggregator.one_server.ports import UploadTx
from tacit.aggregator.one_server.records import Aggregate
from tacit.aggregator.ports import StatusTx


class ForwardTx(UploadTx, Protocol):
    """The transaction that fixes the order of messages, and what is left to send."""

    async def running(self, task_id: bytes) -> Aggregate | None:
        """The number of bundles, or ``None`` if there is none."""
        ...

    async def kept_records(self, task_id: bytes) -> list[bytes]:
        """The bundles, those of a group of uploads in one entry."""
        ...

    async def fix(self, task_id: bytes, outgoing: Sequence[Outgoing]) -> None:
        """Store what is to be sent in place of the bundles, which are deleted, and close the recipe for good. Raises
        ``IntegrityError`` if that was done before."""
        ...

    async def drop(self, task_id: bytes, outgoing: Outgoing) -> None:
        """Delete the bundles, and close the recipe for good: only ``outgoing`` is sent."""
        ...

    async def next_outgoing(self, task_id: bytes) -> Outgoing | None:
        """The chunk with the lowest index that is left to send, or ``None``."""
        ...

    async def sent(self, task_id: bytes, index: int) -> None:
        """Forget a chunk that the analyzer has."""
        ...


class ShufflerTx(ForwardTx, StatusTx, Protocol):
    """The shuffler's transaction."""
