"""A clock that only moves when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools

SETTLE_TURNS = 10
ROUNDING_SECONDS = 1e-6  # a POSIX time in a float has steps of 0.24 µs; sleeps that end this close are due


class SimClock:
    """Simulated time from ``now`` on; ``sleep`` returns when ``advance`` has moved the clock far enough.

    With ``autojump`` (real seconds) the clock jumps to the next sleeper by itself if nobody started or ended a sleep
    for that long in real time; so a program runs through hours of simulated time in a short real time.
    """

    def __init__(self, now: float = 1_700_000_000.0, *, autojump: float | None = None) -> None:
        self._now = now
        self._wrong = 0.0
        self._autojump = autojump
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """Simulated POSIX time in seconds."""
        return self._now

    def steady(self) -> float:
        """Seconds that have passed, whatever ``set_back`` did."""
        return self._now + self._wrong

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has moved ``seconds`` on; at once for 0 or less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        self._watch()
        await future

    @property
    def sleepers(self) -> int:
        """How many sleeps wait for the clock."""
        self._drop_cancelled()
        return sum(not future.done() for _, _, future in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move the clock on by ``seconds``, waking every sleeper at its own time and letting it run before the next."""
        end = self._now + seconds
        await settle()
        while self._wake_next(end):
            await settle()
        self._now = max(self._now, end)
        await settle()

    def jump(self, seconds: float) -> None:
        """Move the clock on by ``seconds`` without running anything; due sleepers are woken on the next loop turn."""
        end = self._now + seconds
        while self._wake_next(end):
            pass
        self._now = max(self._now, end)

    def set_back(self, seconds: float) -> None:
        """Set the clock back by ``seconds``, or ahead by ``-seconds``, as no time passes; sleepers stay due when they
        were."""
        self._now -= seconds
        self._wrong += seconds

    def _wake_next(self, end: float) -> bool:
        self._drop_cancelled()
        if not self._sleepers or self._sleepers[0][0] > end + ROUNDING_SECONDS:
            return False
        due, _, future = heapq.heappop(self._sleepers)
        self._now = max(self._now, due)
        future.set_result(None)
        return True

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    def _watch(self) -> None:
        if self._autojump is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(self._autojump, self._jump_to_next)

    def _jump_to_next(self) -> None:
        self._timer = None
        if self._wake_next(float("inf")):
            self._watch()


async def settle(turns: int = SETTLE_TURNS) -> None:
    """Let tasks that are ready run for ``turns`` loop turns (work in threads is not waited for)."""
    for _ in range(turns):
        await asyncio.sleep(0)
