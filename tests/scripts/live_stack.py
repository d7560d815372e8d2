"""A stack that lives beside the tests of a module, in real time or as fast as it works."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from infra.stack import LocalStack
from tacit.adapters.system import SystemClock
from tacit.ports import TransportError
from tacit.service.log import set_log_level

START_SECONDS = 120
STOP_SECONDS = 30
STEP_SECONDS = 0.05
TICK = 0.4
PAUSE = 0.01


class WorkClock:
    """Time that passes only while a command waits, by ``TICK`` seconds for every round of the stack's work: nothing is
    late because the machine is busy, and nobody waits for an idle one."""

    def __init__(self) -> None:
        self._now = time.time()
        self._waiting = 0

    def now(self) -> float:
        """POSIX time in seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once so much of this time has passed. Whoever sleeps in the main thread is a command that waits."""
        until = self._now + seconds
        command = threading.current_thread() is threading.main_thread()
        self._waiting += command
        try:
            while self._now < until:  # noqa: ASYNC110 - the loop of another thread moves this time
                await asyncio.sleep(PAUSE)
        finally:
            self._waiting -= command

    def tick(self) -> None:
        """One round is over."""
        if self._waiting:
            self._now += TICK

    @contextlib.contextmanager
    def everywhere(self) -> Iterator[None]:
        """Every ``SystemClock`` of this process shows this time."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SystemClock, "now", lambda _clock: self.now())
            patch.setattr(SystemClock, "sleep", lambda _clock, seconds: self.sleep(seconds))
            yield


@contextlib.contextmanager
def in_thread(live: Callable[[threading.Event, threading.Event], Coroutine[Any, Any, None]]) -> Iterator[None]:
    """``live(ready, ended)`` in a thread and an event loop of its own, from ``ready`` until the block is left.

    Its services log whenever they do, also between two tests, where nothing captures it: only errors are written
    meanwhile.
    """
    ready, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(live(ready, ended)))
    set_log_level("error")
    thread.start()
    try:
        assert ready.wait(START_SECONDS)
        yield
    finally:
        ended.set()
        thread.join(STOP_SECONDS)
        set_log_level("info")
    assert not thread.is_alive()


async def step_until(ended: threading.Event, local: LocalStack, clock: WorkClock | None = None) -> None:
    """The stack's background work."""
    while not ended.is_set():
        with contextlib.suppress(TransportError):
            await local.step()
        await asyncio.sleep(STEP_SECONDS)
        if clock is not None:
            clock.tick()
