"""Finds free TCP ports for servers on this machine."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import socket
import sys
import time

PORTS = range(16_384, 32_768)
PORT_STRIDE = 997
HELD_SECONDS = 120.0
"""How long a port that was found is kept from other processes, unless this process ends before: until its server, which
may start late on a busy machine, listens there."""
MOST_HELD = 256
"""So many ports at most, each of which takes one of this process's open files; the oldest are let go first."""
_candidates = (PORTS[(os.getpid() * PORT_STRIDE + number) % len(PORTS)] for number in itertools.count())
_held: list[tuple[float, socket.socket]] = []


def free_ports(count: int) -> list[int]:
    """Return ``count`` distinct TCP ports that nothing listens on at this moment, and that no other process was given a
    moment ago.

    They lie below the ephemeral range, so that no outgoing connection can take one before its service starts. Each
    process searches in its own order.
    """
    _let_go(time.monotonic() - HELD_SECONDS)
    found: list[int] = []
    while len(found) < count:
        port = next(_candidates)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _hold(port)
            found.append(port)
    return found


def _hold(port: int) -> None:
    """Tell other processes that ``port`` is taken, by a name in the network namespace that no file stands for. Raises
    ``OSError`` if another one holds it."""
    if sys.platform != "linux":
        return
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0tacit-port-{port}")
    except OSError:
        held.close()
        raise
    _held.append((time.monotonic(), held))
    if len(_held) > MOST_HELD:
        _held.pop(0)[1].close()


def _let_go(before: float) -> None:
    """Close what was held since a time ``before`` (monotonic seconds)."""
    while _held and _held[0][0] < before:
        _held.pop(0)[1].close()


atexit.register(_let_go, float("inf"))
