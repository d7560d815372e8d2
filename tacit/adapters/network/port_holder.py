"""Who listens on a port of this machine, as far as this process may see that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
LISTENING = "0A"
LONGEST_COMMAND = 120


def holder_of(port: int, proc: Path = PROC) -> str:
    """The process that listens on the TCP ``port``: its id and command; or that it cannot be seen."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    for pid in _pids(proc):
        with contextlib.suppress(OSError):
            for descriptor in (proc / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in sockets:
                        return f"pid {pid} ({_command(proc / str(pid))})"
    return f"a process that cannot be seen from here (as root: ss -ltnp 'sport = :{port}')"


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Inodes of the sockets that listen on ``port``."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / name).read_text().splitlines()[1:]:
                row = line.split()
                if len(row) > 9 and row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                    yield row[9]


def _pids(proc: Path) -> list[int]:
    return sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit()) if proc.is_dir() else []


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "ended meanwhile"
    text = " ".join(word.decode("utf-8", "replace") for word in words)
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable if len(printable) <= LONGEST_COMMAND else f"{printable[:LONGEST_COMMAND]} ..."
