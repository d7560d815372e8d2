"""The live entries as a log shows them to its readers: a head, and pages that are the same for everybody.

The **head** is the newest checkpoint with the SHA-256 digests of the pages that hold the live entries. A **page** is
content under its digest and never changes. ``tacit.tlog.hashes`` has what a reader needs to prove that the tree extends
the one that it knows. So no request names the tree that a reader saw last, and every reader of one tree makes the same
requests. Each piece fits the largest size class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Self

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.tlog.canonical import canonical_bytes, validate
from tacit.tlog.entries import (
    HASH_TEXT,
    MAX_NOTE_SIZE,
    PAGE_SIZE,
    BundleEntry,
    EntryBody,
    encoded_entry,
    entry_of,
    note_of,
    parsed_piece,
)
from tacit.tlog.fields import Body, Hash
from tacit.tlog.leaves import MAX_ENTRY_SIZE

MAX_PAGES = 96
PAGES_KEPT = 4
"""How many of the pages that were read last a process keeps decoded."""
_PAGE_OVERHEAD = 16
_ENTRY_OVERHEAD = 64
PROOF_RESERVE = 26
"""Number of hashes for which a page reserves room with each entry: enough for a log of 2^26 entries."""


def entry_bytes(leaf_size: int) -> int:
    """Most bytes that an entry with a leaf of ``leaf_size`` bytes takes in a page."""
    return (leaf_size + 2) // 3 * 4 + PROOF_RESERVE * HASH_TEXT + _ENTRY_OVERHEAD


CAPACITY = MAX_PAGES * (PAGE_SIZE - _PAGE_OVERHEAD - entry_bytes(MAX_ENTRY_SIZE))
"""Largest sum of ``entry_bytes`` over all live entries: however they are distributed, they fill no more than
``MAX_PAGES``."""


@dataclass(frozen=True, slots=True)
class Head:
    """The signed checkpoint, and the digests of the pages in the order of the log."""

    checkpoint: bytes
    pages: tuple[bytes, ...]

    def encode(self) -> bytes:
        """The page as it is served: canonical JSON."""
        return canonical_bytes(
            {"checkpoint": self.checkpoint.decode(), "pages": [b64url(digest) for digest in self.pages]}
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validate(HeadBody, parsed_piece(data, "head"), "head")
        return cls(note_of(wire.checkpoint), tuple(unb64url(digest) for digest in wire.pages))


class HeadBody(Body):
    """A head as JSON: the note's text, and the digests of the pages."""

    checkpoint: Annotated[str, Field(max_length=MAX_NOTE_SIZE)]
    pages: Annotated[list[Hash], Field(max_length=MAX_PAGES)]


class PageBody(Body):
    """A page of log entries as JSON."""

    entries: Annotated[list[EntryBody], Field(min_length=1)]


def encode_pages(entries: Iterable[BundleEntry]) -> list[bytes]:
    """Distribute the entries, in the order of the log, over as few pages as they fill one after another."""
    pages: list[bytes] = []
    held: list[bytes] = []
    size = _PAGE_OVERHEAD
    for encoded in map(encoded_entry, entries):
        if held and size + len(encoded) + 1 > PAGE_SIZE:
            pages.append(_page(held))
            held, size = [], _PAGE_OVERHEAD
        held.append(encoded)
        size += len(encoded) + 1
    return [*pages, _page(held)] if held else pages


def _page(entries: Sequence[bytes]) -> bytes:
    return b'{"entries":[' + b",".join(entries) + b"]}"


@lru_cache(maxsize=PAGES_KEPT)
def decode_page(data: bytes) -> tuple[BundleEntry, ...]:
    """The entries of a page; cached, since all readers of one tree in a process read the same pages. Raises
    DecodeError."""
    wire = validate(PageBody, parsed_piece(data, "page"), "page")
    return tuple(map(entry_of, wire.entries))
