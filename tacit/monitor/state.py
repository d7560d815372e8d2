"""What a monitor keeps between two readings: the tree that it saw last, and when it saw trees of which size.

A leaf has no time of its own. But a log that was seen without it at some time must have added it later. This is how
late leaves are detected, without trusting any clock but the monitor's.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Annotated, Self

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validated
from tacit.tlog.leaves import Body, Count, Hash
from tacit.tlog.merkle import EMPTY_ROOT

MAX_SIGHTINGS = 10_000


_Sighting = Annotated[list[Count], Field(min_length=2, max_length=2)]


class _Wire(Body):
    origin: str
    size: Count
    root: Hash
    sightings: Annotated[list[_Sighting], Field(max_length=MAX_SIGHTINGS)]
    evidence: str


@dataclass(frozen=True, slots=True)
class MonitorState:
    """``sightings``: (size, POSIX second in which the log was last seen with so many entries), both increasing.
    ``evidence``: a checkpoint that contradicts this tree, kept for ever."""

    origin: str
    size: int = 0
    root: bytes = EMPTY_ROOT
    sightings: tuple[tuple[int, int], ...] = ()
    evidence: bytes = b""

    def seen(self, size: int, root: bytes, at: int) -> MonitorState:
        """The state after the log was seen at ``at`` with a tree that extends this one."""
        before = self.sightings[:-1] if self.sightings and self.sightings[-1][0] == size else self.sightings
        kept = (*before, (size, max(at, before[-1][1] if before else at)))[-MAX_SIGHTINGS:]
        return replace(self, size=size, root=root, sightings=kept)

    def shown_after(self, index: int) -> int | None:
        """A time (POSIX seconds) at which the log did not show leaf ``index`` yet; None: none is known."""
        position = bisect_right(self.sightings, index, key=lambda sighting: sighting[0])
        return self.sightings[position - 1][1] if position else None

    def encode(self) -> bytes:
        """Encode the state as canonical JSON, to be kept in a file."""
        return canonical_bytes(
            {
                "origin": self.origin,
                "size": self.size,
                "root": b64url(self.root),
                "sightings": [list(sighting) for sighting in self.sightings],
                "evidence": b64url(self.evidence),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validated(_Wire, parse_canonical(data, "monitor state"), "monitor state")
        sightings = tuple((size, at) for size, at in wire.sightings)
        return cls(wire.origin, wire.size, unb64url(wire.root), sightings, unb64url(wire.evidence))
