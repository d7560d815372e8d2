"""Whether a service can work: the present state of its background work, beside that of its stores
(``tacit.service.stores``).

Liveness is separate: any answer of the process shows it. Requests to the health checks cause no writes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tacit.errors import Refusal, TacitError, Unavailable
from tacit.ports import Clock, TransportError

LEAST_WINDOW = 60.0
"""Seconds of the shortest window in which successes of background work are recorded."""
FAILURES = 3
"""Failures of a driver in a row before they are reported: a peer that restarts should not be."""


@dataclass(slots=True)
class Windows:
    """When background work succeeded, recorded in windows of ``seconds``, each long enough that healthy work succeeds
    in every one: so it is not visible when a device woke the work in between."""

    seconds: float
    newest: int | None = None
    before: int | None = None

    def success(self, now: float) -> None:
        """Record a success at POSIX time ``now``."""
        window = int(now // self.seconds)
        if window != self.newest:
            self.newest, self.before = window, self.newest

    def last(self, now: float) -> float | None:
        """The end of the last completed window with a success; ``None`` while there is none."""
        over = self.newest if self.newest is not None and int(now // self.seconds) > self.newest else self.before
        return None if over is None else (over + 1) * self.seconds


class Steps:
    """The background work by its description: which of it fails, and when it last succeeded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, str] = {}
        self._windows: dict[str, Windows] = {}
        self._again: dict[str, asyncio.Event] = {}

    def expect(self, doing: str, idle_seconds: float) -> asyncio.Event:
        """Register work that is done at least every ``idle_seconds``; the returned event says that an operator wants it
        done now."""
        self._windows[doing] = Windows(max(LEAST_WINDOW, 2 * idle_seconds))
        return self._again.setdefault(doing, asyncio.Event())

    def work(self) -> dict[str, str]:
        """All background work, with why it fails, or an empty text."""
        return {doing: self._failing.get(doing, "") for doing in self._windows}

    def retry(self, doing: str) -> None:
        """Do the work now, because an operator asks for it, whether or not it fails."""
        self._again[doing].set()

    def told(self, doing: str, error: Exception | None, failures: int) -> None:
        """Record that a step succeeded (no error), or failed for the ``failures``-th time in a row."""
        if error is None:
            self._failing.pop(doing, None)
            self._windows[doing].success(self._clock.now())
        elif failures >= FAILURES or isinstance(error, Unavailable):
            self._failing[doing] = words_of(error)

    async def failing(self) -> dict[tuple[str, ...], float]:
        """For the metrics: 1 for work that fails, otherwise 0."""
        return {(doing,): float(doing in self._failing) for doing in self._windows}

    async def succeeded(self) -> dict[tuple[str, ...], float]:
        """For the metrics: when each last succeeded, as in ``Windows.last``."""
        now = self._clock.now()
        ends = {doing: windows.last(now) for doing, windows in self._windows.items()}
        return {(doing,): end for doing, end in ends.items() if end is not None}

    async def windows(self) -> dict[tuple[str, ...], float]:
        """For the metrics: the length of the windows of each, in seconds."""
        return {(doing,): windows.seconds for doing, windows in self._windows.items()}

    def trouble(self) -> str:
        """The failing work, each with why it fails."""
        return "; ".join(f"{doing} fails: {why}" for doing, why in sorted(self._failing.items()))


def words_of(error: Exception) -> str:
    """An error in words for everybody: its own message where that is written for people, otherwise its kind."""
    if isinstance(error, Refusal):
        return f"refused by rule {error.rule}"
    return str(error) if isinstance(error, TacitError | TransportError) and str(error) else type(error).__name__
