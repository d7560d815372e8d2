"""What services ask of whatever keeps their state; what each keeps beside that stands in its own ``ports``.

A store over a database satisfies them (``tacit.adapters.stored``), and so may another backend, or a test's own.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.service.readiness import Durable

Tx_co = TypeVar("Tx_co", covariant=True)


class Store(Protocol):
    """Anything that keeps state: ``open`` before use, ``close`` after."""

    @property
    def durable(self) -> Durable | None:
        """Where it keeps it, while it is open."""
        ...

    async def open(self) -> None:
        """Get ready. Raises ``UsageError`` or ``Fatal``."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class MarkedStore(Store, Protocol):
    """A store that knows whether it was restored from the past (P32)."""

    @property
    def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent; 0 where nothing is in doubt."""
        ...


class Transactions(Protocol[Tx_co]):
    """A store whose only entry is a transaction. ``Tx_co``: what its user asks of one."""

    def transaction(self) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; it runs alone."""
        ...

    def read(self) -> AbstractAsyncContextManager[Tx_co]:
        """One consistent view."""
        ...
