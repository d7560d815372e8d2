"""Ports: what the library asks of the world, and nothing of the protocol.

This module knows no message type, so that a deployable that must not read messages (the relay) can still be
built on the same ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self


class Clock(Protocol):
    """Time as one party sees it."""

    def now(self) -> float:
        """POSIX time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once ``seconds`` (>= 0) have passed on this clock."""
        ...


class Entropy(Protocol):
    """A source of random bytes. In production always the operating system's."""

    def __call__(self, length: int, /) -> bytes:
        """``length`` uniform bytes."""
        ...


@dataclass(frozen=True)
class HttpResponse:
    """What a transport brings back: status, headers (lower-case names) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class TransportError(Exception):
    """The request may or may not have reached the peer: no answer, refused, timed out, too large."""


class Transport(Protocol):
    """One HTTP exchange with a peer."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Send and wait for the whole answer. Raises ``TransportError``; any HTTP status is an answer."""
        ...


class OwnedTransport(Transport, Protocol):
    """A transport with connections of its own, closed by whoever made it (or by ``async with``)."""

    async def __aenter__(self) -> Self:
        """The transport itself."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """``close``."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Observer(Protocol):
    """Notes what one party could see of a contribution. Off in every deployment; the demo turns it on to show
    a person, from the services' own hands, who sees what."""

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        """``party`` handled something and could read ``what``."""
        ...
