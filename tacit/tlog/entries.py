"""An entry of the log with its audit path, and the bounds of everything that a log answers to its readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import canonical_bytes, parse_json
from tacit.tlog.fields import Blob, Body, Count, Hash

PAGE_SIZE = 240 << 10
"""Most bytes of a page: with its encapsulation it fits the size class of 256 KiB."""
MAX_NOTE_SIZE = 1 << 16
"""Most bytes of a checkpoint with its signatures."""
MAX_PROOF = 64
"""Most hashes of an audit path."""
HASH_TEXT = 46
"""Bytes of a hash in JSON: its base64url, two quotes and a comma."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One entry with its audit path in the bundle's tree."""

    index: int
    leaf: bytes
    inclusion: tuple[bytes, ...]


class EntryBody(Body):
    """An entry as JSON: its number in the log, its bytes, and its audit path from the leaf upwards."""

    index: Count
    leaf: Blob
    inclusion: Annotated[list[Hash], Field(max_length=MAX_PROOF)]


def note_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DecodeError("checkpoint is not Unicode text") from error


def entry_of(wire: EntryBody) -> BundleEntry:
    return BundleEntry(wire.index, unb64url(wire.leaf), tuple(unb64url(item) for item in wire.inclusion))


def encoded_entry(entry: BundleEntry) -> bytes:
    inclusion = [b64url(item) for item in entry.inclusion]
    return canonical_bytes({"index": entry.index, "leaf": b64url(entry.leaf), "inclusion": inclusion})


def parsed_piece(data: bytes, what: str) -> object:
    if len(data) > PAGE_SIZE:
        raise DecodeError(f"{what}: {len(data)} bytes, at most {PAGE_SIZE} are read")
    return parse_json(data, what)
