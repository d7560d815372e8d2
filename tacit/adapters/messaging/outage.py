"""How an adapter behaves while its server is unreachable: it counts failures, reports the outage once, and retries
after growing pauses."""

from __future__ import annotations

from collections.abc import Callable

from tacit.backoff import Backoff
from tacit.ports import Clock, Entropy

PAUSES = Backoff(0.25, 15.0)

TellOutage = Callable[[Exception | None], None]
"""Called when an outage begins (with the error) and when it is over (with None)."""


def ignore_report(_error: Exception | None) -> None:
    """Ignore reports of outages; for adapters whose owner does not need them."""


class Outage:
    """Whether the server answers. ``total`` counts every failure since the start of the process."""

    def __init__(self, clock: Clock, entropy: Entropy, report: TellOutage = ignore_report) -> None:
        self.total = 0
        self._clock = clock
        self._entropy = entropy
        self._report = report
        self._row = 0
        self._until = 0.0

    def failed(self, error: Exception) -> None:
        """Record a failed attempt; the first one in a row is reported."""
        self.total += 1
        self._until = self._clock.now() + PAUSES.pause(self._row, self._entropy)
        self._row += 1
        if self._row == 1:
            self._report(error)

    def over(self) -> None:
        """Record a successful attempt; the end of an outage is reported."""
        if self._row:
            self._row, self._until = 0, 0.0
            self._report(None)

    def pause(self) -> float:
        """Seconds to wait before the next attempt; 0 when it is due."""
        return max(0.0, self._until - self._clock.now())
