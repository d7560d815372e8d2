"""One clock for the processes of a run: this machine's, moved ahead by what a small file says at every look."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Self

from tacit.adapters.system import SystemClock

_AHEAD = struct.Struct("=d")


class SharedClock(SystemClock):
    """Whoever jumps moves the time of everybody, from the next look on."""

    def __init__(self, path: Path) -> None:
        """``path``: a file that ``begin`` made."""
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _AHEAD.size)

    @classmethod
    def begin(cls, path: Path, start: float) -> Self:
        """A new clock, whose time is ``start`` (POSIX seconds) now."""
        path.write_bytes(_AHEAD.pack(start - SystemClock().now()))
        path.chmod(0o600)
        return cls(path)

    def now(self) -> float:
        """POSIX time in seconds, as moved ahead."""
        return super().now() + self._ahead

    def steady(self) -> float:
        """Seconds that have passed; a jump is time that passes."""
        return super().steady() + self._ahead

    def jump(self, seconds: float) -> None:
        """Move the time forward by ``seconds`` >= 0, in every process."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._shared[:] = _AHEAD.pack(self._ahead + seconds)

    @property
    def _ahead(self) -> float:
        found: float = _AHEAD.unpack(self._shared[:])[0]
        return found
