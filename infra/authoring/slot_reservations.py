"""Reserves token slots for drafts of a stack, so that people who write recipes at the same time get different ones.

A reservation keeps drafts apart but grants no right: it ends when devices have decided or after ``HELD_SECONDS``, and
the oldest one is given away if nothing else is free. Only the log decides which recipe has a slot.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tacit.adapters.disk.files import replace_file
from tacit.adapters.disk.folder_lock import turn_in
from tacit.operations.drafting import Reserved
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe

FILE, LOCK = "slots.json", "slots.lock"
HELD_SECONDS = 900.0


@dataclass(frozen=True)
class Reservations:
    """The reservations at ``now`` in the stack in ``folder``, earliest first: epoch, slot and end (POSIX seconds)."""

    folder: Path
    now: float
    rows: tuple[tuple[int, int, float], ...]

    @property
    def slots(self) -> Reserved:
        return [(epoch, slot) for epoch, slot, _ in self.rows]

    def add(self, recipe: Recipe) -> None:
        """Reserve the slot of ``recipe``, and write all reservations to disk."""
        token, end = recipe.token, min(asked_until(recipe.interval), self.now + HELD_SECONDS)
        others = [row for row in self.rows if row[:2] != (token.epoch, token.slot)]
        document = json.dumps([*others, (token.epoch, token.slot, end)])
        replace_file(self.folder / FILE, document.encode())


@contextlib.contextmanager
def reservations(folder: Path, now: float) -> Iterator[Reservations]:
    """Lock and return the reservations of the stack in ``folder``; nobody else reads or changes them while the block
    runs. Raises ``UsageError``."""
    with turn_in(folder, LOCK):
        yield Reservations(folder, now, tuple(row for row in _read(folder / FILE) if row[2] > now))


def _read(path: Path) -> list[tuple[int, int, float]]:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return [(int(epoch), int(slot), float(end)) for epoch, slot, end in json.loads(path.read_text("utf-8"))]
    return []
