"""The record of a chunk of shuffled messages."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of all messages of a recipe: its ``index`` below ``total``, and the SHA-256 of its bytes. A ``total`` of 0
    says that no messages will come."""

    index: int
    total: int
    digest: bytes = field(repr=False)
