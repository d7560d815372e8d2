"""Announcements within one process, for tests of what hears them."""

from __future__ import annotations

from tacit.adapters.messaging.memory import Latest, check_announcement
from tacit.announcer import Announcement


class MemoryAnnouncer:
    """``Announcer`` within one process."""

    def __init__(self) -> None:
        self._newest: dict[str, Announcement] = {}
        self._subscriptions: list[Latest] = []

    async def open(self) -> None:
        """Do nothing: within one process nothing has to be connected."""

    async def close(self) -> None:
        """Close every subscription and forget them."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    def publish(self, topic: str, payload: bytes) -> None:
        """Deliver the announcement to every subscriber of ``topic``, and keep it for later subscribers."""
        announcement = self._newest[topic] = check_announcement(topic, payload)
        self._subscriptions = [one for one in self._subscriptions if not one.closed]
        for subscription in self._subscriptions:
            subscription.offer(announcement)

    def subscribe(self, *topics: str) -> Latest:
        """Subscribe to ``topics``; the newest earlier announcements come first."""
        subscription = Latest(topics)
        self._subscriptions.append(subscription)
        for announcement in self._newest.values():
            subscription.offer(announcement)
        return subscription
