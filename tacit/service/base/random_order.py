"""An order that reveals nothing of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tacit.ports import Entropy

Item = TypeVar("Item")


def shuffle(items: Sequence[Item], entropy: Entropy) -> list[Item]:
    """``items`` in a uniformly random order: sorted by 16 random bytes each."""
    drawn = entropy(16 * len(items))
    keys = [drawn[at : at + 16] for at in range(0, len(drawn), 16)]
    return [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]
