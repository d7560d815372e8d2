"""Ports: what the library asks of the world, and nothing of the protocol.

This module knows no message type, so that a deployable that must not read messages (the relay) can still be
built on the same ports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self, runtime_checkable


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


class Exchange(NamedTuple):
    """A POST that waits to be sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@runtime_checkable
class GroupTransport(Transport, Protocol):
    """A transport that does some exchanges for less when it gets several at once."""

    def groups(self, method: str, url: str) -> bool:
        """Whether such requests are among them."""
        ...

    async def post_all(self, exchanges: Sequence[Exchange]) -> list[HttpResponse]:
        """Every answer in its place. Raises ``TransportError`` for all of them."""
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


MAX_JOB_ID = 64
"""Bytes of the longest id that a queue carries."""
MAX_ANNOUNCEMENT = 64
"""Bytes of the longest announcement."""


class Delivery(NamedTuple):
    """One id from a queue; ``receipt`` is what ``JobQueue.done`` wants back, and nobody looks into it."""

    id: bytes
    receipt: object


class JobQueue(Protocol):
    """Wake-ups with an id between the processes of one organisation, at least once and possibly twice.

    A queue only hastens: which jobs are due, and who works on one, stands in the database. So a queue may lose, repeat
    and reorder what it was given, and none of its methods raises because a server is away: there is then nothing to
    take, and whoever takes looks into the database now and then anyway.
    """

    async def put(self, ids: Sequence[bytes]) -> None:
        """Offer ``ids`` (each at most ``MAX_JOB_ID`` bytes, else ``ValueError``), after the commit that made them."""
        ...

    async def take(self, seconds: float) -> Delivery | None:
        """The next id; None when none came. Waits at most ``seconds``, perhaps less. An id that is taken and not
        ``done`` may be delivered again, to whom ever."""
        ...

    async def done(self, receipt: object) -> None:
        """The delivery with this receipt needs not be repeated."""
        ...

    async def close(self) -> None:
        """Let go of what the queue holds; nothing is taken any more."""
        ...


class Announcement(NamedTuple):
    """One announcement: a hint to look now rather than later. It is never evidence of anything."""

    topic: str
    payload: bytes


class Subscription(Protocol):
    """Announcements of some topics, as they come. Only the newest of a topic waits for a slow reader."""

    def __aiter__(self) -> Subscription:
        """Itself."""
        ...

    async def __anext__(self) -> Announcement:
        """The next one; ends once ``close`` was called."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Announcer(Protocol):
    """One-to-many announcements, the newest per topic, at most ``MAX_ANNOUNCEMENT`` bytes each.

    Nothing that belongs to one device is ever a topic, a payload or a name here. No method waits for a server or
    raises because it is away; a reader that hears nothing looks by itself now and then.
    """

    async def open(self) -> None:
        """Begin to send and to listen, in the background."""
        ...

    async def close(self) -> None:
        """Stop; subscriptions end. What was published a moment before is still sent if a server takes it at once."""
        ...

    def publish(self, topic: str, payload: bytes) -> None:
        """Tell everyone who listens to ``topic``, and who will. Call after the commit of what is announced."""
        ...

    def subscribe(self, *topics: str) -> Subscription:
        """Listen from now on; the newest announcement of before may come first."""
        ...


class Observer(Protocol):
    """Notes what one party could see of a contribution. Off in every deployment; the demo turns it on to show
    a person, from the services' own hands, who sees what."""

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        """``party`` handled something and could read ``what``."""
        ...
