"""What services require of the component that keeps their state; each service's further requirements are in its own
``ports``.

A store over a database satisfies them (``tacit.adapters.stored``), and so may another backend, or a test's own.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from tacit.service.readiness import Durable

Tx_co = TypeVar("Tx_co", covariant=True)


class Store(Protocol):
    """A component that keeps state: ``open`` before use, ``close`` after."""

    @property
    def durable(self) -> Durable | None:
        """Where the state is kept, while the store is open."""
        ...

    async def open(self) -> None:
        """Prepare for use. Raises ``UsageError`` or ``Fatal``."""
        ...

    async def close(self) -> None:
        """Close the store's connections."""
        ...


class MarkedStore(Store, Protocol):
    """A store that knows whether it was restored from the past (P32)."""

    @property
    def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent; 0 where nothing is in doubt."""
        ...


class Transactions(Protocol[Tx_co]):
    """A store that is only used through transactions. ``Tx_co``: what its user requires of one."""

    def transaction(self) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; it runs alone."""
        ...

    def read(self) -> AbstractAsyncContextManager[Tx_co]:
        """Read from one consistent view."""
        ...
