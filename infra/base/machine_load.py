"""Measures how busy this machine is."""

from __future__ import annotations

import os
from pathlib import Path

LOAD = Path("/proc/loadavg")


def how_busy(load: Path = LOAD) -> float:
    """Return the number of runnable programs per processor, over the last minute or at this moment, whichever is more;
    0.0 if the system does not tell."""
    try:
        minute, _, _, moment, _ = load.read_text("utf-8").split()
        wanting = max(float(minute), float(moment.partition("/")[0]) - 1)
    except (OSError, ValueError):
        return 0.0
    return wanting / (os.cpu_count() or 1)
