"""Cosignatures of witnesses (C2SP tlog-cosignature, v1): who has seen a checkpoint, and when.

A witness signs the checkpoint's text after a header with its own time, so a reader learns two things: that the witness
considers this tree the only one of its log, and that it did so recently. ``Quorum`` alone defines how many such
signatures a reader requires.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tacit.errors import CryptoError, DecodeError
from tacit.signing import SIGNATURE_SIZE, SigningKey, verify
from tacit.time_format import format_time
from tacit.tlog.checkpoint import COSIGNATURE, Note, NoteKey, NoteSignature

MAX_SKEW_SECONDS = 300
"""How many seconds a witness may be ahead of the reader's clock. A cosignature from the far future would never
expire."""
_TIME = struct.Struct(">Q")
_SIZE = _TIME.size + SIGNATURE_SIZE


def _message(text: str, timestamp: int) -> bytes:
    return f"cosignature/v1\ntime {timestamp}\n{text}".encode()


def cosign(text: str, name: str, key: SigningKey, timestamp: int) -> NoteSignature:
    """The line of witness ``name`` under the note ``text``; ``timestamp`` is in POSIX seconds."""
    public = NoteKey(name, key.public, COSIGNATURE)
    return NoteSignature(name, public.key_id, _TIME.pack(timestamp) + key.sign(b"", _message(text, timestamp)))


def cosigned_at(text: str, line: NoteSignature, key: NoteKey) -> int:
    """The time at which the witness with ``key`` made ``line`` under ``text`` (POSIX seconds). Raises CryptoError."""
    if key.algorithm != COSIGNATURE or (line.name, line.key_id) != (key.name, key.key_id):
        raise CryptoError("the line is not of this witness")
    if len(line.signature) != _SIZE:
        raise CryptoError("a cosignature has the wrong size")
    (timestamp,) = _TIME.unpack_from(line.signature)
    verify(key.public, line.signature[_TIME.size :], _message(text, timestamp))
    return int(timestamp)


def witness_key(text: str) -> NoteKey:
    """A witness's verifier key in its text form. Raises DecodeError for any other key."""
    key = NoteKey.decode(text)
    if key.algorithm != COSIGNATURE:
        raise DecodeError("the key is not that of a witness (type 0x04)")
    return key


@dataclass(frozen=True, slots=True)
class Quorum:
    """At least ``k`` of ``keys`` must have cosigned a checkpoint within ``max_age_seconds`` of ``now()``.

    Any two quorums share a witness only where 2 k > n: with fewer, a log can show each half of the witnesses its own
    history and have both cosigned. Raises ``DecodeError`` for such a quorum, and where one key would count twice.
    """

    keys: tuple[NoteKey, ...]
    k: int
    max_age_seconds: int
    now: Callable[[], float] = field(repr=False)

    def __post_init__(self) -> None:
        count = len(self.keys)
        if not self.k <= count < 2 * self.k:
            raise DecodeError(f"k must be more than half of the {count} witnesses and at most all of them")
        if len({key.public for key in self.keys}) != count or len({key.name for key in self.keys}) != count:
            raise DecodeError("two witnesses have the same name or the same key")

    def require(self, note: Note) -> None:
        """Raise CryptoError unless enough witnesses cosigned ``note`` recently."""
        now = self.now()
        times = self.times(note)
        earliest, latest = now - self.max_age_seconds, now + MAX_SKEW_SECONDS
        fresh = sum(1 for one in times if one is not None and earliest <= one <= latest)
        if fresh < self.k:
            made = sorted(one for one in times if one is not None)
            few = f"the checkpoint has {fresh} recent cosignatures of witnesses ({len(made)} of any age)"
            if len(made) < self.k:
                raise CryptoError(f"{few}, but needs {self.k}")
            raise CryptoError(
                f"{few}, but needs {self.k}: the log's newest checkpoint is of {format_time(made[-1])}, this machine's "
                f"clock says {format_time(now)}"
            )

    def times(self, note: Note) -> Sequence[int | None]:
        """For each witness, when it last cosigned ``note``; None: it did not."""
        return [newest_cosignature(note, key) for key in self.keys]


def newest_cosignature(note: Note, key: NoteKey) -> int | None:
    """When the witness with ``key`` last cosigned ``note``; None: it did not, or none of its lines verifies."""
    newest = None
    for line in note.signatures:
        try:
            made = cosigned_at(note.text, line, key)
        except CryptoError:
            continue
        newest = made if newest is None else max(newest, made)
    return newest
