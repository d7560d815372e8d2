"""The devices of a stack on this machine: how many exist, how many are at work, and how often they read the log.

Real devices cannot be counted. A stack's devices have a folder each, in which a running agent holds a lock.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from client_agent.config import LOCK
from infra.base.machine_load import how_busy
from infra.stacks.agent_configs import usual_check_in
from infra.stacks.agents import CONFIG_NAME
from infra.stacks.layout import Layout
from tacit.lines import lines_of
from tacit.operations.pace import USUAL_CHECK_IN, Pace

FOLDERS = ("agents/*", "staging/*/*")
LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class Crowd:
    """``there``: the number of a stack's devices; ``working``: how many of them have a running agent, None if this
    machine does not tell; ``check_in_seconds``: the longest of their usual pauses between two reads of the log;
    ``busy``: runnable programs per processor."""

    there: int
    working: int | None
    check_in_seconds: float
    busy: float = 0.0

    @property
    def pace(self) -> Pace:
        """How fast the devices take up a published recipe."""
        return Pace(self.check_in_seconds, self.there, self.busy)


def crowd_of(layout: Layout, locks: Path = LOCKS) -> Crowd:
    """Count the devices of a stack; ``locks`` is the kernel's list of file locks."""
    configs = [path for pattern in FOLDERS for path in layout.state_dir.glob(f"{pattern}/{CONFIG_NAME}")]
    pauses = [_check_in(path) for path in configs]
    return Crowd(
        len(configs),
        _held((path.parent / LOCK for path in configs), locks),
        max(pauses, default=usual_check_in(layout.options)),
        how_busy(),
    )


def _check_in(config: Path) -> float:
    """Seconds between a device's reads of the log, or until it reads after an announcement, if that is shorter."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        found = json.loads(config.read_text("utf-8"))
        often = float(found.get("timing", {}).get("poll_seconds", USUAL_CHECK_IN))
        return min(often, float((found.get("announcements") or {}).get("delay_seconds", often)))
    return USUAL_CHECK_IN


def _held(files: Iterable[Path], locks: Path) -> int | None:
    """How many of ``files`` are locked according to the kernel's list ``locks``; None if it cannot be read."""
    try:
        rows = [line.split() for line in lines_of(locks.read_text("utf-8"))]
    except OSError:
        return None
    held = {int(row[5].rpartition(":")[2]) for row in rows if len(row) == 8 and row[1] == "FLOCK"}
    found = 0
    for file in files:
        with contextlib.suppress(OSError):
            found += file.stat().st_ino in held
    return found
