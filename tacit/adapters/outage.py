"""How an adapter behaves while its server is away: it counts, says so once, and asks again after growing pauses."""

from __future__ import annotations

from collections.abc import Callable

from tacit.pauses import Backoff
from tacit.ports import Clock, Entropy

PAUSES = Backoff(0.25, 15.0)

TellOutage = Callable[[Exception | None], None]
"""Told when an outage begins (with the error) and when it is over (None)."""


def unreported(_error: Exception | None) -> None:
    """The report of an adapter whose owner does not want to know."""


class Outage:
    """Whether the server answers. ``total`` counts every failure since the start."""

    def __init__(self, clock: Clock, entropy: Entropy, report: TellOutage = unreported) -> None:
        self.total = 0
        self._clock = clock
        self._entropy = entropy
        self._report = report
        self._row = 0
        self._until = 0.0

    @property
    def ongoing(self) -> bool:
        """Whether the last attempt failed."""
        return self._row > 0

    def failed(self, error: Exception) -> None:
        """An attempt failed; reported if it is the first in a row."""
        self.total += 1
        self._until = self._clock.now() + PAUSES.pause(self._row, self._entropy)
        self._row += 1
        if self._row == 1:
            self._report(error)

    def over(self) -> None:
        """An attempt succeeded."""
        if self._row:
            self._row, self._until = 0, 0.0
            self._report(None)

    def pause(self) -> float:
        """Seconds for which nothing should be attempted; 0 when it is time."""
        return max(0.0, self._until - self._clock.now())
