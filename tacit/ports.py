"""Ports: what the library requires from its environment, independent of the protocol.

This module knows no message type, so that a deployable that must not read messages (the relay) can still be built on
the same ports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self, runtime_checkable

from tacit import media_types


class Clock(Protocol):
    """Time as one party sees it."""

    def now(self) -> float:
        """Return this clock's POSIX time, in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once ``seconds`` (>= 0) have passed on this clock."""
        ...


@runtime_checkable
class SteadyClock(Clock, Protocol):
    """A clock that also tells how much time has passed, whatever is done to its POSIX time meanwhile."""

    def steady(self) -> float:
        """Seconds since some moment; no step of ``now`` changes it."""
        ...


class Entropy(Protocol):
    """A source of random bytes. In production always the operating system's."""

    def __call__(self, length: int, /) -> bytes:
        """Return ``length`` uniformly random bytes."""
        ...


@dataclass(frozen=True)
class HttpResponse:
    """A transport's response: status, headers (lower-case names) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def is_a(self, media_type: str) -> bool:
        """Whether the answer's Content-Type says ``media_type``, compared as those of requests are
        (``media_types.is_a``): a reverse proxy may add a charset or change the case of any answer."""
        return media_types.is_a(self.headers.get("content-type", ""), media_type)


class TransportError(Exception):
    """The request may or may not have reached the peer: no answer, refused, timed out, too large. ``retry_after``: for
    how many seconds the peer asked to be left alone, 0 where it did not."""

    def __init__(self, *words: object, retry_after: float = 0.0) -> None:
        super().__init__(*words)
        self.retry_after = retry_after


class StateKey(Protocol):
    """A server's private key to the state that devices of local pan-privacy keep encrypted. What opens it is found by
    name (``tacit.extension_points.PAN_PRIVACY``)."""

    @property
    def public(self) -> bytes:
        """The public key that recipes name, as bytes."""
        ...


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
        """Send a request and wait for the whole answer. Raises ``TransportError``; any HTTP status is an answer."""
        ...


class Exchange(NamedTuple):
    """A POST that is to be sent, perhaps together with others."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@runtime_checkable
class GroupTransport(Transport, Protocol):
    """A transport that performs some exchanges more cheaply when it gets several at once."""

    def groups(self, method: str, url: str) -> bool:
        """Whether requests like this benefit from grouping."""
        ...

    async def post_all(self, exchanges: Sequence[Exchange]) -> Sequence[HttpResponse | TransportError]:
        """Send all exchanges; return in the same order their answers, or why there are none."""
        ...


class OwnedTransport(Transport, Protocol):
    """A transport with its own connections, closed by the code that created it (or by ``async with``)."""

    async def __aenter__(self) -> Self:
        """Return the transport itself."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Close the transport, as ``close`` does."""
        ...

    async def close(self) -> None:
        """Close all connections of the transport."""
        ...


class Observer(Protocol):
    """Records what one party could see of a contribution. Off in every deployment; the demo enables it to show, from
    within the services, who sees what."""

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        """Record that ``party`` handled something and could read ``what``."""
        ...
