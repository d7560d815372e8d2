"""The event loop of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's factory where it is installed, None (the interpreter's own loop) elsewhere.

    For ``tacit serve`` and the demo; the simulation runs on the loop that every interpreter has.
    """
    try:
        import uvloop
    except ImportError:  # pragma: no cover - every supported platform but Windows has it
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def loop_name() -> str:
    """The running loop's library, for the log."""
    return type(asyncio.get_running_loop()).__module__.split(".")[0]
