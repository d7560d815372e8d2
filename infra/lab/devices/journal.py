"""The fleet's append-only journal: one binary line for every decision and every change of state of every device.

``client_agent.journal`` is one device's journal in a database of its own; a million of those would measure the file
system. This one keeps the same states and the same transitions in lines of 16 bytes, many devices to a file of mode
0600. It holds no datum, no measurement, no token and no report.

File: header (72 bytes: magic, recipe hash, when it was begun, first device, devices), then lines, all little-endian.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from client_agent.journal import State
from tacit.errors import UsageError

MAGIC = b"TACITFJ1"
HEADER = struct.Struct("<8s32sdQQQ")
LINE = np.dtype([("device", "<u4"), ("state", "u1"), ("attempts", "u1"), ("spare", "<u2"), ("at", "<f8")])
"""``at``: seconds since the journal was begun; ``attempts`` is at most 255."""
STATES = (State.REFUSED, State.INELIGIBLE, State.NOT_SAMPLED, State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED)
"""A line's ``state`` is the place in this tuple; places never change their meaning."""
CODES = {state: code for code, state in enumerate(STATES)}


@dataclass(frozen=True)
class Header:
    """Which devices a journal is about, and when it was begun (POSIX seconds)."""

    recipe_hash: bytes
    began: float
    first: int
    devices: int

    def encode(self) -> bytes:
        """The header of 72 bytes, little-endian (``HEADER``)."""
        return HEADER.pack(MAGIC, self.recipe_hash, self.began, self.first, self.devices, LINE.itemsize)


class FleetJournal:
    """Appends lines to a new file. When a method returns, its lines have been handed to the operating system."""

    def __init__(self, path: Path, header: Header) -> None:
        """Raises ``UsageError`` if the file exists or cannot be created."""
        self._began = header.began
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be created'}") from error
        self._file.write(header.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def decided(self, first: int, count: int, sampled: NDArray[np.uint32], now: float) -> None:
        """Write a line for each of ``count`` devices from ``first``: scheduled, or not sampled."""
        lines = np.zeros(count, dtype=LINE)
        lines["device"] = np.arange(first, first + count, dtype=np.uint32)
        lines["state"] = CODES[State.NOT_SAMPLED]
        lines["state"][sampled - first] = CODES[State.SCHEDULED]
        lines["at"] = now - self._began
        self._file.write(lines.tobytes())

    def changed(self, changes: Iterable[tuple[int, State, int]], now: float) -> None:
        """Write a line per (device, state, attempts)."""
        at = now - self._began
        rows = [(device, CODES[state], min(attempts, 255), 0, at) for device, state, attempts in changes]
        if rows:
            self._file.write(np.array(rows, dtype=LINE).tobytes())
