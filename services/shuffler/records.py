"""The record of a chunk of permuted messages that is to be forwarded."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The ``index``-th request to the analyzer, as it is sent and sent again."""

    index: int
    body: bytes = field(repr=False)
