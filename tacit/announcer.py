"""The interface to whatever carries announcements, such as an MQTT broker; it knows no message type."""

from __future__ import annotations

from typing import NamedTuple, Protocol

MAX_ANNOUNCEMENT = 64
"""Most bytes of an announcement."""


class Announcement(NamedTuple):
    """One announcement: a hint to look now rather than later. It is never evidence of anything."""

    topic: str
    payload: bytes


class Subscription(Protocol):
    """Announcements of some topics, as they arrive. For a slow reader, only the newest of each topic is kept."""

    def __aiter__(self) -> Subscription:
        """Return the subscription itself."""
        ...

    async def __anext__(self) -> Announcement:
        """The next one; ends once ``close`` was called."""
        ...

    def close(self) -> None:
        """Stop listening and end the iteration."""
        ...


class Announcer(Protocol):
    """One-to-many announcements, the newest per topic, at most ``MAX_ANNOUNCEMENT`` bytes each.

    Nothing that belongs to one device may be a topic, a payload or a name here. No method waits for a server or raises
    because it is unreachable; readers also check by themselves now and then.
    """

    async def open(self) -> None:
        """Start sending and listening in the background."""
        ...

    async def close(self) -> None:
        """Stop; subscriptions end. A publication just made is still sent if a server accepts it at once."""
        ...

    def publish(self, topic: str, payload: bytes) -> None:
        """Send to everyone who listens to ``topic`` now or later. Call it after the commit of what is announced."""
        ...

    def subscribe(self, *topics: str) -> Subscription:
        """Listen from now on; the newest earlier announcement may come first."""
        ...
