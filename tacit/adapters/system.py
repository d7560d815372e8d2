"""The real clock and the operating system's randomness."""

from __future__ import annotations

import asyncio
import os
import time

from tacit.ports import Clock, SteadyClock


class SystemClock:
    """Wall-clock time of this machine."""

    def now(self) -> float:
        """The system's POSIX time, in seconds."""
        return time.time()

    def steady(self) -> float:
        """Seconds since this machine started, those in which it slept included; nobody can set this clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` of real time."""
        await asyncio.sleep(seconds)


class ShiftedClock:
    """A clock that starts at ``start`` when it is made and runs ``rate`` times as fast as ``base``.

    The demo uses it to pass a whole reporting interval in a minute; ``jump`` moves it forward at once (sleepers that
    already wait are not woken early).
    """

    def __init__(self, base: Clock, start: float | None = None, rate: float = 1.0) -> None:
        if rate <= 0:
            raise ValueError("a clock must run forward")
        self._base = base
        self._zero = base.now()
        self._start = self._zero if start is None else start
        self._rate = rate
        self._jumped = 0.0
        self._steady = base.steady if isinstance(base, SteadyClock) else base.now

    def now(self) -> float:
        """POSIX time in seconds, as shifted."""
        return self._start + (self._base.now() - self._zero) * self._rate

    def steady(self) -> float:
        """Seconds that have passed on this clock; a jump is time that passes."""
        return self._steady() * self._rate + self._jumped

    async def sleep(self, seconds: float) -> None:
        """Return once ``seconds`` of shifted time have passed."""
        await self._base.sleep(seconds / self._rate)

    def jump(self, seconds: float) -> None:
        """Move the time forward by ``seconds`` >= 0."""
        if seconds < 0:
            raise ValueError("a jump must not go backwards")
        self._start += seconds
        self._jumped += seconds


class OsEntropy:
    """Random bytes from the operating system; the only source of randomness in production."""

    def __call__(self, length: int, /) -> bytes:
        """Return ``length`` bytes from the operating system's generator."""
        return os.urandom(length)
