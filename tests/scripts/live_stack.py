"""A stack that lives beside the tests of a module, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from infra.stacks.local import LocalStack
from tacit.ports import TransportError
from tacit.service.base.log import set_log_level

START_SECONDS = 120
STOP_SECONDS = 30
STEP_SECONDS = 0.25


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


async def step_until(ended: threading.Event, local: LocalStack) -> None:
    """The stack's background work."""
    while not ended.is_set():
        with contextlib.suppress(TransportError):
            await local.step()
        await asyncio.sleep(STEP_SECONDS)
