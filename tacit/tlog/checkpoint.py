"""Checkpoints: a tree's origin, size and root as a C2SP signed note.

A note is text, a blank line, and signature lines; a line names a key and carries its 4-byte id before the signature.
Ed25519 signatures (type 0x01) are made and checked here; lines of other keys (witnesses) are parsed and kept.
``LogPolicy`` alone defines whose lines are required.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Protocol, Self

from tacit.errors import CryptoError, DecodeError
from tacit.signing import KEY_SIZE, SigningKey, checked_public_key, verify
from tacit.tlog.entries import MAX_NOTE_SIZE
from tacit.tlog.merkle import HASH_SIZE

ED25519 = 0x01
"""Signature type byte of plain Ed25519 notes."""
COSIGNATURE = 0x04
"""Signature type byte of timestamped witness cosignatures (tlog-cosignature)."""

MAX_SIGNATURES = 64
MAX_SIZE = (1 << 63) - 1

_NAME = re.compile(r"[^\s+\x00-\x1f]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


def base64_text(data: bytes) -> str:
    """Standard base64 with padding (RFC 4648 section 4)."""
    return base64.b64encode(data).decode("ascii")


def unbase64(text: str, what: str) -> bytes:
    """Strict inverse of ``base64_text``: one encoding per value. Raises DecodeError naming ``what``."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise DecodeError(f"{what} is not base64") from error
    if base64_text(data) != text:
        raise DecodeError(f"{what} is not in canonical base64")
    return data


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A verifier key of signed notes. Text form: ``name+id in hex+base64(type || public key)``."""

    name: str
    public: bytes
    algorithm: int = ED25519

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DecodeError("a note key's name must not contain spaces or a plus")
        checked_public_key(self.public)

    @property
    def key_id(self) -> bytes:
        """First 4 bytes of SHA-256(name || newline || type || public key)."""
        material = self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public
        return hashlib.sha256(material).digest()[:4]

    def encode(self) -> str:
        """A verifier key as c2sp.org/signed-note writes it: name, key id in hex, base64 of type and public key."""
        return f"{self.name}+{self.key_id.hex()}+{base64_text(bytes([self.algorithm]) + self.public)}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of ``encode``; the id must match the key. Raises DecodeError."""
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        raw = unbase64(encoded, "note key")
        if len(raw) != 1 + KEY_SIZE or raw[0] not in {ED25519, COSIGNATURE}:
            raise DecodeError("note key is not an Ed25519 key")
        key = cls(name, raw[1:], raw[0])
        if key.key_id.hex() != key_id:
            raise DecodeError("note key does not fit its id")
        return key


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line of a note: the key's name and id (4 bytes), and the signature."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """The line as c2sp.org/signed-note writes it, with its newline."""
        return f"\N{EM DASH} {self.name} {base64_text(self.key_id + self.signature)}\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        """A line without its newline. Raises DecodeError."""
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != "\N{EM DASH}" or not _NAME.fullmatch(parts[1]):
            raise DecodeError("note has a malformed signature line")
        raw = unbase64(parts[2], "note signature")
        if len(raw) <= 4:
            raise DecodeError("note has a signature that is too short")
        return cls(parts[1], raw[:4], raw[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A signed note: ``text`` ends in a newline; the signatures are over exactly that text."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        """Encode the note: its text, an empty line, and the signature lines."""
        return (self.text + "\n" + "".join(item.line() for item in self.signatures)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Strict inverse of ``encode``; at least one signature line. Raises DecodeError."""
        if len(data) > MAX_NOTE_SIZE:
            raise DecodeError("note is too large")
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("note is not UTF-8") from error
        if _CONTROL.search(whole):
            raise DecodeError("note has a control character")
        text, blank, block = whole.rpartition("\n\n")
        if not blank or not block.endswith("\n"):
            raise DecodeError("note has no signature block")
        lines = block[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise DecodeError("note has too many signatures")
        return cls(text + "\n", tuple(NoteSignature.parse(line) for line in lines))

    def verify(self, key: NoteKey) -> None:
        """Check that ``key`` signed the note: there is at least one line of this key, and every such line verifies.
        Raises CryptoError."""
        lines = [item for item in self.signatures if item.name == key.name and item.key_id == key.key_id]
        if not lines:
            raise CryptoError("note is not signed by the required key")
        for item in lines:
            verify(key.public, item.signature, self.text.encode())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree head: ``origin`` names the log, ``size`` counts entries, ``root`` is the RFC 6962 root."""

    origin: str
    size: int
    root: bytes

    def body(self) -> str:
        """The note text: three lines."""
        return f"{self.origin}\n{self.size}\n{base64_text(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of ``body``; extension lines are refused. Raises DecodeError."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3] or not lines[0]:
            raise DecodeError("checkpoint does not have three lines")
        if not _SIZE.fullmatch(lines[1]) or int(lines[1]) > MAX_SIZE:
            raise DecodeError("checkpoint has a malformed size")
        root = unbase64(lines[2], "checkpoint root")
        if len(root) != HASH_SIZE:
            raise DecodeError("checkpoint root is not a SHA-256 hash")
        return cls(lines[0], int(lines[1]), root)


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """The checkpoint as a note signed by the log's key, whose name is the origin."""
    name = NoteKey(checkpoint.origin, key.public)
    text = checkpoint.body()
    return Note(text, (NoteSignature(name.name, name.key_id, key.sign(b"", text.encode())),)).encode()


class Witnessing(Protocol):
    """What a reader requires of the witnesses of a log (``tacit.tlog.cosignature.Quorum``)."""

    def require(self, note: Note) -> None:
        """Raise CryptoError unless the witnesses' lines under ``note`` suffice."""
        ...


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """Whose signatures make a checkpoint acceptable: the log's own, and those that ``witnesses`` requires in addition
    (None: no others). The log's name is its origin."""

    log_key: NoteKey
    witnesses: Witnessing | None = None

    @property
    def origin(self) -> str:
        """The origin line that every checkpoint of this log has: the name of the log's key."""
        return self.log_key.name

    def open(self, note: bytes) -> Checkpoint:
        """The checkpoint in ``note``, verified to be signed by the log; witnesses are checked by ``require_witnesses``.
        Raises DecodeError (malformed) or CryptoError (wrong log or signature)."""
        parsed = Note.decode(note)
        parsed.verify(self.log_key)
        checkpoint = Checkpoint.parse(parsed.text)
        if checkpoint.origin != self.origin:
            raise CryptoError("checkpoint belongs to another log")
        return checkpoint

    def require_witnesses(self, note: bytes) -> None:
        """Check the witnesses' lines under an opened note. Raises CryptoError."""
        if self.witnesses is not None:
            self.witnesses.require(Note.decode(note))
