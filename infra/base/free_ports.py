"""Finds free TCP ports for servers on this machine."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

PORTS = range(16_384, 32_768)
PORT_STRIDE = 997
_candidates = (PORTS[(os.getpid() * PORT_STRIDE + number) % len(PORTS)] for number in itertools.count())


def free_ports(count: int) -> list[int]:
    """Return ``count`` distinct TCP ports that nothing listens on at this moment.

    They lie below the ephemeral range, so that no outgoing connection can take one before its service starts. Each
    process searches in its own order, so that two processes that lay out stacks at the same time find different ports.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_candidates)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
