"""The issuer's background work: keys ahead of time, leaves to the log, a line on what was issued."""

from __future__ import annotations

from services.issuer.service import Issuer


class KeyDriver:
    """One step makes one epoch's keys, or destroys those that are over."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Number of keys made or destroyed."""
        return await self._issuer.make_epoch() or await self._issuer.destroy_expired()


class DirectoryDriver:
    """One step sends one leaf to the log; failures are retried with the same bytes."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """1 when a leaf was acknowledged."""
        return await self._issuer.publish()


class CountDriver:
    """One step logs the issuance counts that moved; it never asks for the next step at once."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Always 0: counts are gathered between steps."""
        self._issuer.log_counts()
        return 0
