"""A gateway's OHTTP key sets: each as a leaf of the log, and the live ones as a relay shows them (P3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field

from tacit.tlog.canonical import canonical_bytes, validate
from tacit.tlog.entries import MAX_NOTE_SIZE, BundleEntry, EntryBody, encoded_entry, entry_of, note_of, parsed_piece
from tacit.tlog.fields import Blob, Body, Count, Name

MIN_ROTATION_SECONDS = 60
MAX_ROTATION_SECONDS = 366 * 86400


class OhttpConfig(Body):
    """A gateway's key set of one period (P3): the OHTTP key configurations (RFC 9458 section 3) that are active in it
    and that were active in the period before. Period p begins at POSIX second p * rotation_seconds. A log holds one key
    set per (gateway, period), so that no client can be given a key of its own."""

    gateway: Name
    period: Count
    rotation_seconds: Annotated[int, Field(ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)]
    active: Blob
    previous: Blob | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a key that is both active and previous."""
        if self.active == self.previous:
            raise ValueError("the active key and the previous one are the same")

    @property
    def start(self) -> int:
        """POSIX second in which the period begins."""
        return self.period * self.rotation_seconds

    @property
    def end(self) -> int:
        """POSIX second from which the set is no longer used: the end of the following period."""
        return (self.period + 2) * self.rotation_seconds

    def usable(self, now: float) -> bool:
        """Whether ``now`` (POSIX seconds) lies in the set's period or the one after it."""
        return self.start <= now < self.end


@dataclass(frozen=True, slots=True)
class KeySets:
    """The gateways' live key sets with their proofs under one checkpoint: a relay serves them to devices that do not
    have a key yet with which to query the log (P3)."""

    checkpoint: bytes
    entries: tuple[BundleEntry, ...]

    def encode(self) -> bytes:
        """The page as the JSON that is served."""
        entries = b",".join(map(encoded_entry, self.entries))
        return b'{"checkpoint":%s,"entries":[%s]}' % (canonical_bytes(self.checkpoint.decode()), entries)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validate(KeySetsBody, parsed_piece(data, "key sets"), "key sets")
        return cls(note_of(wire.checkpoint), tuple(map(entry_of, wire.entries)))


class KeySetsBody(Body):
    """The gateways' key sets as JSON."""

    checkpoint: Annotated[str, Field(max_length=MAX_NOTE_SIZE)]
    entries: list[EntryBody]
