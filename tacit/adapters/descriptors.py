"""How many files a process may have open."""

from __future__ import annotations

import contextlib
import resource


def raise_limit() -> int:
    """Raise this process's own limit to what it is allowed, for what holds many sockets and files; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft
