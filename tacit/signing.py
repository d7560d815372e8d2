"""Ed25519 signatures (RFC 8032) under domain-separating labels.

A label is a prefix of the signed bytes, by convention ending in a zero byte, so that a signature made for one
purpose never verifies for another. Keys are raw 32-byte strings.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit import curve25519
from tacit.errors import CryptoError, DecodeError
from tacit.ports import Entropy

KEY_SIZE = 32
SIGNATURE_SIZE = 64
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
"""Prime and coefficient of the curve (RFC 8032 section 5.1)."""


VERIFIED_KEPT = 4096
_verified: dict[bytes, None] = {}
_remembering = threading.Lock()
"""Digests of (key, signature, message) that verified, the oldest first. Verification is a function of these bytes
alone, key and signature have fixed lengths, and only success is remembered: whoever wants to pass by another message
needs a collision of SHA-256. All three are public wherever signatures are verified. Readers of one log see the same
notes and leaves at every poll, and all agents of one process see those that the first of them saw."""


class Signer(Protocol):
    """Anything that signs with one key: the key itself, or a token that never reveals it."""

    @property
    def public(self) -> bytes:
        """The public key (32 bytes)."""
        ...

    def sign(self, label: bytes, data: bytes) -> bytes:
        """The 64-byte signature over ``label + data``. Raises ``TransportError`` where a key outside the process does
        not sign."""
        ...


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key pair: 32-byte seed and 32-byte public key."""

    private: bytes = field(repr=False)
    public: bytes

    def sign(self, label: bytes, data: bytes) -> bytes:
        """Sign ``label + data`` with this key; returns 64 bytes."""
        return sign(self.private, label, data)


def signing_key_from_private(private: bytes) -> SigningKey:
    """The pair of a 32-byte seed. Raises ``DecodeError`` for another length."""
    return SigningKey(private, _private_key(private).public_key().public_bytes_raw())


def generate_signing_key(entropy: Entropy) -> SigningKey:
    """A fresh pair from 32 bytes of ``entropy``."""
    return signing_key_from_private(entropy(KEY_SIZE))


def sign(private: bytes, label: bytes, data: bytes) -> bytes:
    """64-byte signature over ``label + data``. Raises ``DecodeError`` for a key of another size."""
    return _private_key(private).sign(label + data)


def checked_public_key(public: bytes) -> bytes:
    """Return ``public`` if signatures may be verified with it: 32 bytes, the canonical form of a point of the curve
    (RFC 8032 section 5.1.3), and not of small order, under which one signature fits many messages. Raises
    ``DecodeError``."""
    if len(public) != KEY_SIZE:
        raise DecodeError("an Ed25519 key must have 32 bytes")
    if not _is_strong(public):
        raise DecodeError("the Ed25519 key is not a point of large order in its canonical form")
    return public


@lru_cache(maxsize=1024)
def _is_strong(public: bytes) -> bool:
    """Whether the point has large order. The map to Curve25519, u = (1 + y) / (1 - y), preserves the order, and
    ``tacit.curve25519`` knows the points of low order."""
    y = int.from_bytes(public, "little") & ((1 << 255) - 1)
    if y >= _P or y == 1:
        return False
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if pow(x_squared, (_P - 1) // 2, _P) == _P - 1:
        return False
    u = (1 + y) * pow(1 - y, -1, _P) % _P
    try:
        curve25519.checked_public_key(u.to_bytes(KEY_SIZE, "little"))
    except DecodeError:
        return False
    return True


def verify(public: bytes, signature: bytes, data: bytes, *, label: bytes = b"") -> None:
    """Return if ``signature`` is ``public``'s signature over ``label + data``; raise ``CryptoError`` if not, also for a
    key that ``checked_public_key`` refuses."""
    if len(public) != KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        raise CryptoError("the signature or its key has the wrong size")
    signed = label + data
    known = hashlib.sha256(public + signature + signed).digest()
    if known in _verified:
        return
    if not _is_strong(public):
        raise CryptoError("the key is not a point of large order, so nothing can be verified with it")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except (InvalidSignature, ValueError) as error:
        raise CryptoError("the signature does not verify") from error
    with _remembering:
        _verified[known] = None
        if len(_verified) > VERIFIED_KEPT:
            del _verified[next(iter(_verified))]


def _private_key(private: bytes) -> Ed25519PrivateKey:
    if len(private) != KEY_SIZE:
        raise DecodeError("an Ed25519 key must have 32 bytes")
    return Ed25519PrivateKey.from_private_bytes(private)
