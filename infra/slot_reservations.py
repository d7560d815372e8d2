"""Which token slots drafts of a stack are to spend: two people who write recipes at the same time get different ones.

A reservation is a hint that keeps drafts apart, not a right: it ends with the time in which devices decide, or after
``HELD_SECONDS``, and where nothing else is free the oldest one is given away. The log alone says whose a slot is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tacit.adapters.files import replace_file
from tacit.adapters.folder_lock import turn_in
from tacit.operations.drafting import Reserved
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe

FILE, LOCK = "slots.json", "slots.lock"
HELD_SECONDS = 900.0


@dataclass(frozen=True)
class Reservations:
    """What is reserved ``now`` in the stack in ``folder``, the earliest first: epoch, slot and end (POSIX seconds)."""

    folder: Path
    now: float
    rows: tuple[tuple[int, int, float], ...]

    @property
    def slots(self) -> Reserved:
        """Epoch and slot of each."""
        return [(epoch, slot) for epoch, slot, _ in self.rows]

    def add(self, recipe: Recipe) -> None:
        """Reserve the slot of ``recipe``."""
        token, end = recipe.token, min(asked_until(recipe.interval), self.now + HELD_SECONDS)
        others = [row for row in self.rows if row[:2] != (token.epoch, token.slot)]
        document = json.dumps([*others, (token.epoch, token.slot, end)])
        replace_file(self.folder / FILE, document.encode())


@contextlib.contextmanager
def reservations(folder: Path, now: float) -> Iterator[Reservations]:
    """Those in the stack in ``folder``, which nobody else reads or changes while the block runs. Raises
    ``UsageError``."""
    with turn_in(folder, LOCK):
        yield Reservations(folder, now, tuple(row for row in _read(folder / FILE) if row[2] > now))


def _read(path: Path) -> list[tuple[int, int, float]]:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return [(int(epoch), int(slot), float(end)) for epoch, slot, end in json.loads(path.read_text())]
    return []
