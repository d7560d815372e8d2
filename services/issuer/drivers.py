"""The issuer's background work: making keys ahead of time, sending leaves to the log, and logging issuance counts."""

from __future__ import annotations

from services.issuer.service import Issuer


class KeyDriver:
    """One step makes one epoch's keys, or destroys keys that are over."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns the number of keys made or destroyed."""
        return await self._issuer.make_epoch() or await self._issuer.destroy_expired()


class DirectoryDriver:
    """One step sends one leaf to the log; a failed one is sent again with the same bytes."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns 1 if a leaf was acknowledged, else 0."""
        return await self._issuer.publish()


class CountDriver:
    """One step logs the issuance counts that changed; it never asks for the next step at once."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns 0 always: counts are gathered between steps."""
        self._issuer.log_counts()
        return 0
