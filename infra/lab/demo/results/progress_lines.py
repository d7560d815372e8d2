"""Progress where nobody looks at a terminal: a plain line every few seconds, without control characters."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

EVERY_SECONDS = 5.0
LEAST_SHARE = 0.02
"""Share of a stage that must be done before its remaining time is shown."""
Now = Callable[[], float]
Write = Callable[[str], object]


def to_stderr(line: str) -> None:
    """Write a line where remarks go, at once."""
    print(line, file=sys.stderr, flush=True)


@dataclass
class _Line:
    """One stage: how much of it is done, and since when it runs."""

    name: str
    total: int
    began: float
    done: int = 0


class Lines:
    """Tells of the newest stage that is not over, every ``EVERY_SECONDS`` and when it is."""

    def __init__(self, write: Write = to_stderr, now: Now = time.monotonic) -> None:
        self._write = write
        self._now = now
        self._open: list[_Line] = []
        self._told = now()

    def begin(self, name: str, total: int) -> _Line:
        """A stage of ``total`` parts begins."""
        line = _Line(name, total, self._now())
        self._open.append(line)
        return line

    def advance(self, line: _Line, parts: int) -> None:
        """Count that many more parts as done."""
        line.done = min(line.total, line.done + parts)

    def end(self, line: _Line) -> None:
        """The stage is over; it is told of in any case."""
        self._open.remove(line)
        self._told = self._now()
        self._write(f"{line.name}: done in {self._told - line.began:.0f} s")

    def tell(self) -> None:
        """Write a line, if it is time for one."""
        now = self._now()
        if self._open and now - self._told >= EVERY_SECONDS:
            self._told = now
            self._write(_words(self._open[-1], now))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell of what is open while the block runs, also where it lets nothing else run."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(EVERY_SECONDS / 5):
                self.tell()

        teller = threading.Thread(target=run, name="progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


def _words(line: _Line, now: float) -> str:
    share, spent = line.done / line.total, now - line.began
    said = f"{line.name}: {100 * share:.0f} % of {line.total:,}, {spent:.0f} s"
    if share < LEAST_SHARE:
        return said
    return f"{said}, about {spent * (1 - share) / share:.0f} s left"
