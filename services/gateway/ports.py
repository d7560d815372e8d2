"""What the gateway asks of its replay window."""

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
    """Remembers requests; from before ``closed_until`` some may have passed that are not remembered."""

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Store ``requests``; per request whether it is new. Raises ``Unavailable`` rather than guess."""
        ...

    async def forget(self, before: int) -> int:
        """Delete the requests dated earlier than ``before``, where that is ours to do; returns how many."""
        ...
