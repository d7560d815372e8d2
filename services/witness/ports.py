"""What a witness must not forget, and what it asks of whatever keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tacit.service.store import Store
from tacit.tlog.merkle import EMPTY_ROOT


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The tree that was cosigned last; ``frontier`` are the hashes of its right edge."""

    size: int = 0
    root: bytes = EMPTY_ROOT
    frontier: bytes = b""


@dataclass(frozen=True, slots=True)
class Moved:
    """Somebody else advanced the log first."""

    size: int


@dataclass(frozen=True, slots=True)
class Twice:
    """The leaf at ``index`` takes what the leaf at ``holder`` holds."""

    claim: str
    index: int
    holder: int


class WitnessStore(Store, Protocol):
    """The tree that was cosigned last of each log, and every claim in it."""

    async def witnessed(self, origin: str) -> Witnessed:
        """What was cosigned last of a log; the empty tree where nothing was."""
        ...

    async def advance(
        self, origin: str, known: Witnessed, new: Witnessed, claims: Mapping[str, int]
    ) -> Moved | Twice | None:
        """Go from ``known`` to ``new``, whose further leaves hold ``claims`` (by the index of the leaf), in one
        transaction that runs alone.

        None: done, and durable. Otherwise nothing is written.
        """
        ...
