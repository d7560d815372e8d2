"""The interface of the gateway's replay window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.service.store import MarkedStore


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request's encapsulated key (32 bytes) and its Date (POSIX seconds)."""

    enc: bytes = field(repr=False)
    date: int


class ReplayWindow(MarkedStore, Protocol):
    """Remembers requests. Some requests dated before ``closed_until`` may have passed without being remembered."""

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Remember ``requests``; returns for each whether it is new. Raises ``Unavailable`` if that cannot be known."""
        ...

    async def forget(self, before: int) -> int:
        """Delete the requests dated earlier than ``before``, if this store deletes by itself; returns how many."""
        ...
