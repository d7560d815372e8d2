"""Whether a service can do its work: what its stores, its background work and its certificates say at this moment.

Liveness is another question, which any answer of the process settles. Nothing here is written because somebody asked:
the stores are probed by the process itself, every ``PROBE_SECONDS``, so that an outage is noticed, and its end too,
where nobody asks anything of the service meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tacit.errors import Refusal, TacitError, Unavailable
from tacit.ports import Clock, TransportError

PROBE_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""After which a write that has not come back is a trouble of its own."""
LEAST_WINDOW = 60.0
"""Seconds of the shortest window in which background work is seen to succeed."""
FAILURES = 3
"""Steps of a driver that fail in a row before that is a trouble: a peer that starts again is none."""


class Durable(Protocol):
    """Where a service keeps what it must not lose."""

    @property
    def trouble(self) -> str:
        """In a few public words what the last writes met with; empty where they succeeded."""
        ...

    async def probe(self) -> None:
        """Write a little, durably. Raises what any write raises."""
        ...


class Probing:
    """A driver that writes to ``store``, once it is open, whether or not anybody else does."""

    def __init__(self, store: Callable[[], Durable | None], clock: Clock, wrote: Callable[[float], None]) -> None:
        """``wrote`` hears how many seconds each probe took that succeeded."""
        self._store = store
        self._clock = clock
        self._wrote = wrote
        self._since: float | None = None

    async def step(self) -> int:
        """Always 0: the next probe comes when it is time."""
        store = self._store()
        if store is None:
            return 0
        self._since = self._clock.now()
        try:
            await store.probe()
            self._wrote(self._clock.now() - self._since)
        except (TacitError, TransportError, OSError):
            if not store.trouble:  # it is not one that the store explains
                raise
        finally:
            self._since = None
        return 0

    def trouble(self) -> str:
        """What the store says, or that it says nothing at all."""
        store = self._store()
        if store is not None and store.trouble:
            return store.trouble
        waited = 0.0 if self._since is None else self._clock.now() - self._since
        return f"the store has not answered for {waited:.0f} s" if waited > PATIENCE_SECONDS else ""


@dataclass(slots=True)
class Windows:
    """When background work succeeded, no finer than in windows of ``seconds``, each long enough that work which goes
    well succeeds in every one of them: that a device woke it in between cannot be seen."""

    seconds: float
    newest: int | None = None
    before: int | None = None

    def success(self, now: float) -> None:
        """It succeeded now."""
        window = int(now // self.seconds)
        if window != self.newest:
            self.newest, self.before = window, self.newest

    def last(self, now: float) -> float | None:
        """The end of the last window that is over and had a success; ``None`` while there is none."""
        over = self.newest if self.newest is not None and int(now // self.seconds) > self.newest else self.before
        return None if over is None else (over + 1) * self.seconds


class Steps:
    """The background work by what it does: which of it fails, and when it last succeeded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, str] = {}
        self._windows: dict[str, Windows] = {}
        self._again: dict[str, asyncio.Event] = {}

    def expect(self, doing: str, idle_seconds: float) -> asyncio.Event:
        """There is work that is done every ``idle_seconds`` at least; the event says that an operator wants it done
        now."""
        self._windows[doing] = Windows(max(LEAST_WINDOW, 2 * idle_seconds))
        return self._again.setdefault(doing, asyncio.Event())

    def work(self) -> dict[str, str]:
        """All of it, with why it fails, or nothing."""
        return {doing: self._failing.get(doing, "") for doing in self._windows}

    def retry(self, doing: str) -> None:
        """An operator wants it done now, whether or not it fails."""
        self._again[doing].set()

    def told(self, doing: str, error: Exception | None, failures: int) -> None:
        """A step succeeded (no error), or failed for the ``failures``-th time in a row."""
        if error is None:
            self._failing.pop(doing, None)
            self._windows[doing].success(self._clock.now())
        elif failures >= FAILURES or isinstance(error, Unavailable):
            self._failing[doing] = words_of(error)

    async def failing(self) -> dict[tuple[str, ...], float]:
        """For the metrics: 1 for work that fails, otherwise 0."""
        return {(doing,): float(doing in self._failing) for doing in self._windows}

    async def succeeded(self) -> dict[tuple[str, ...], float]:
        """For the metrics: when each succeeded, as ``Windows.last``."""
        now = self._clock.now()
        ends = {doing: windows.last(now) for doing, windows in self._windows.items()}
        return {(doing,): end for doing, end in ends.items() if end is not None}

    async def windows(self) -> dict[tuple[str, ...], float]:
        """For the metrics: how long each one's windows are, in seconds."""
        return {(doing,): windows.seconds for doing, windows in self._windows.items()}

    def trouble(self) -> str:
        """Each with why it fails."""
        return "; ".join(f"{doing} fails: {why}" for doing, why in sorted(self._failing.items()))


def words_of(error: Exception) -> str:
    """An error for everybody: in its own words where those are made for that, otherwise its kind."""
    if isinstance(error, Refusal):
        return f"refused by rule {error.rule}"
    return str(error) if isinstance(error, TacitError | TransportError) and str(error) else type(error).__name__
