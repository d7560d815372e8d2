"""The issuer's records, and the interface of the store that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.service.store import MarkedStore


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One slot's private key (PKCS#8 DER)."""

    epoch: int
    slot: int
    private_key: bytes = field(repr=False)


class IssuerStore(MarkedStore, Protocol):
    """Keys, one directory leaf per epoch, and counts. Every method is one transaction, durable when it returns."""

    async def keys(self) -> list[StoredKey]:
        """Every key that is not yet destroyed, by epoch and slot."""
        ...

    async def epochs(self) -> set[int]:
        """Every epoch whose keys were ever made."""
        ...

    async def add_epoch(self, epoch: int, keys: Sequence[StoredKey], leaf: bytes) -> None:
        """Store an epoch's keys and its one directory leaf together. Raises ``IntegrityError`` for an epoch that has
        them."""
        ...

    async def unpublished(self) -> tuple[int, bytes] | None:
        """The earliest epoch whose leaf the log has not acknowledged, with the leaf; or None."""
        ...

    async def published(self, epoch: int, log_index: int) -> None:
        """Record that the log holds the leaf of ``epoch`` at ``log_index``."""
        ...

    async def destroy_before(self, epoch: int) -> int:
        """Delete the keys of earlier epochs; returns how many."""
        ...

    async def counts(self) -> dict[tuple[int, int], int]:
        """The issuance counts by (epoch, slot)."""
        ...

    async def add_counts(self, counts: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """Add to the issuance counts by (epoch, slot); returns the new totals of these slots."""
        ...
