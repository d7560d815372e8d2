"""Chooses the event loop of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if it is installed, otherwise None (the interpreter's own loop).

    ``tacit serve`` and the demo use it; the simulation runs on the interpreter's own loop.
    """
    try:
        import uvloop
    except ImportError:  # pragma: no cover - every supported platform but Windows has it
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def loop_name() -> str:
    """Return the name of the running loop's package, for the log."""
    return type(asyncio.get_running_loop()).__module__.split(".")[0]
