"""What a witness must not forget, and the interface of the store that keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tacit.service.store import Store
from tacit.tlog.merkle import EMPTY_ROOT


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The tree that was cosigned last; ``frontier`` holds the hashes of its right edge."""

    size: int = 0
    root: bytes = EMPTY_ROOT
    frontier: bytes = b""


@dataclass(frozen=True, slots=True)
class Moved:
    """Another request advanced the log first, to ``size``."""

    size: int


@dataclass(frozen=True, slots=True)
class Twice:
    """The leaf at ``index`` makes a ``claim`` that the leaf at ``holder`` already made."""

    claim: str
    index: int
    holder: int


class WitnessStore(Store, Protocol):
    """The tree of each log that was cosigned last, and every claim in it."""

    async def witnessed(self, origin: str) -> Witnessed:
        """The tree of a log that was cosigned last; the empty tree if there is none."""
        ...

    async def advance(
        self, origin: str, known: Witnessed, new: Witnessed, claims: Mapping[str, int]
    ) -> Moved | Twice | None:
        """Go from ``known`` to ``new``, whose additional leaves make ``claims`` (claim to index of the leaf), in one
        transaction that runs alone.

        Returns None if it was written and is durable. Otherwise nothing is written.
        """
        ...
