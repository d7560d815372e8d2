"""How an adapter behaves while its server is away: it counts, says so once, and asks again after growing pauses."""

from __future__ import annotations

from collections.abc import Callable

from tacit.ports import Clock, Entropy

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
_DOUBLINGS = 16

Report = Callable[[Exception | None], None]
"""Told when an outage begins (with the error) and when it is over (None)."""


def unreported(_error: Exception | None) -> None:
    """The report of an adapter whose owner does not want to know."""


class Outage:
    """Whether the server answers. ``total`` counts every failure since the start."""

    def __init__(self, clock: Clock, entropy: Entropy, report: Report = unreported) -> None:
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
        self._row += 1
        self._until = self._clock.now() + self._next_pause()
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

    def _next_pause(self) -> float:
        """Doubling, each time between half and one and a half of that, so that many clients do not come together."""
        limit = min(FIRST_PAUSE * 2.0 ** min(self._row - 1, _DOUBLINGS), LONGEST_PAUSE)
        return limit * (0.5 + int.from_bytes(self._entropy(4), "big") / 2**32)
