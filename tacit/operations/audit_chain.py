"""The chain of an audit log: how each row's hash follows from the act and the hash before, for whoever keeps the log
and for whoever checks it from outside.

The hash of a row is SHA-256 over a label, the hash before it and the act with its number as canonical JSON (RFC 8785).
Rows that are cut off at the end leave a chain that is whole: whoever wants to notice that keeps the newest hash
elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tacit.tlog.canonical import canonical_bytes

FIRST: Final = bytes(32)
"""In the place of a hash before the first row."""
_LABEL: Final = b"tacit audit v1\0"


@dataclass(frozen=True, slots=True)
class Chain:
    """What reading a chain found: so many rows lead to ``newest``; ``broken``: the number of the first row that does
    not follow from those before it."""

    rows: int = 0
    newest: bytes = FIRST
    broken: int | None = None


def row_hash(number: int, previous: bytes, act: Mapping[str, str | int]) -> bytes:
    """The hash (32 bytes) of row ``number`` (from 1 on). ``act``: who, what, target, at (POSIX seconds), source,
    outcome and detail; times are integers and all else is text, so that it has one spelling."""
    return hashlib.sha256(_LABEL + previous + canonical_bytes({"number": number, **act})).digest()
