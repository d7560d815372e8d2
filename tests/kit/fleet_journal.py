"""Reads a fleet's journal back: strictly, and by the last state of each device."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from client_agent.journal import ENTRY_STATES, State
from infra.lab.devices.journal import CODES, HEADER, LINE, MAGIC, STATES, Header
from tacit.errors import DecodeError, UsageError

LINES_PER_DEVICE = 64
"""Most lines per device that a reader accepts: a device makes one decision and few tries."""
_FINAL = frozenset(CODES[state] for state in State if ENTRY_STATES.is_final(state))


def decode_header(data: bytes) -> Header:
    """Strict inverse of ``Header.encode``. Raises ``DecodeError``."""
    if len(data) != HEADER.size:
        raise DecodeError("the fleet journal is cut off in its header")
    magic, recipe_hash, began, first, devices, size = HEADER.unpack(data)
    if magic != MAGIC or size != LINE.itemsize:
        raise DecodeError("not a fleet journal of this version")
    if not 0 <= began < float("inf") or first + devices > 1 << 32:
        raise DecodeError("the fleet journal's header is out of range")
    return Header(recipe_hash, began, first, devices)


def read_journal(path: Path) -> tuple[Header, NDArray[np.void]]:
    """Read header and lines (dtype ``LINE``). Raises ``UsageError`` for a file that cannot be read and ``DecodeError``
    for one that is too long, cut off, or has a device or a state out of range."""
    try:
        with path.open("rb") as file:
            header = decode_header(file.read(HEADER.size))
            size = os.fstat(file.fileno()).st_size - HEADER.size
            if size > header.devices * LINES_PER_DEVICE * LINE.itemsize or size % LINE.itemsize:
                raise DecodeError("the fleet journal is cut off or too long")
            data = file.read(size)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    lines = np.frombuffer(data, dtype=LINE)
    devices = lines["device"].astype(np.uint64)
    strange = (lines["state"] >= len(STATES)) | (devices < header.first) | (devices >= header.first + header.devices)
    if strange.any() or lines["spare"].any():
        raise DecodeError("a line of the fleet journal is out of range")
    return header, lines


def last_states(lines: NDArray[np.void]) -> dict[State, int]:
    """Count devices by their last state. Raises ``DecodeError`` if a device has a line after its final one."""
    final = lines["device"][np.isin(lines["state"], list(_FINAL))]
    devices, last = np.unique(lines["device"][::-1], return_index=True)
    states = lines["state"][::-1][last]
    if np.unique(final).size != final.size or not np.isin(states[np.isin(devices, final)], list(_FINAL)).all():
        raise DecodeError("a device of the fleet journal goes on after its end")
    return {state: int((states == code).sum()) for state, code in CODES.items() if (states == code).any()}
