"""The interface of the gateway's replay window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.service.stores import Durable


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request's encapsulated key (32 bytes) and its Date (POSIX seconds)."""

    enc: bytes = field(repr=False)
    date: int


class ReplayWindow(Protocol):
    """Remembers requests: ``open`` before use, ``close`` after."""

    @property
    def durable(self) -> Durable | None:
        """Where the requests are kept, while the window is open."""
        ...

    @property
    def closed_until(self) -> int:
        """The POSIX second before which some requests may have passed without being remembered (P32); 0 where nothing
        is in doubt."""
        ...

    async def open(self) -> None:
        """Prepare for use. Raises ``UsageError`` or ``Fatal``."""
        ...

    async def close(self) -> None: ...

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Remember ``requests``; returns for each whether it is new. Raises ``Unavailable`` if that cannot be known."""
        ...

    async def forget(self, before: int) -> int:
        """Delete the requests dated earlier than ``before``, if this store deletes by itself; returns how many."""
        ...
