"""The hash chain of an audit log: how each row's hash is computed from its act and the previous hash. The service that
keeps the log and the clients that check it use the same code.

The hash of a row is SHA-256 over a label, the previous hash and the act with its number as canonical JSON (RFC 8785). A
chain from which the last rows were cut off is still valid: to detect that, keep the newest hash elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tacit.tlog.canonical import canonical_bytes

FIRST: Final = bytes(32)
"""The previous hash of the first row."""
_LABEL: Final = b"tacit audit v1\0"


@dataclass(frozen=True, slots=True)
class Chain:
    """The result of checking a chain of ``rows`` rows whose last hash is ``newest``. ``broken``: the number of the
    first row that does not match those before it, or None."""

    rows: int = 0
    newest: bytes = FIRST
    broken: int | None = None


def row_hash(number: int, previous: bytes, act: Mapping[str, str | int]) -> bytes:
    """Compute the hash (32 bytes) of row ``number`` (from 1). ``act``: who, what, target, at (POSIX seconds), source,
    outcome and detail; times are integers and everything else is text, so that each act has exactly one encoding."""
    return hashlib.sha256(_LABEL + previous + canonical_bytes({"number": number, **act})).digest()
