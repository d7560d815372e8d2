"""The limit on open files of this process."""

from __future__ import annotations

import contextlib
import resource


def raise_limit() -> int:
    """Raise this process's soft limit on open files to the hard limit, for processes with many sockets and files;
    return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft
