"""Ed25519 signatures (RFC 8032) under domain-separating labels.

A label is a prefix of the signed bytes, by convention ending in a zero byte, so that a signature made for one
purpose never verifies for another. Keys are raw 32-byte strings.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import CryptoError, DecodeError
from tacit.ports import Entropy

KEY_SIZE = 32
SIGNATURE_SIZE = 64


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key pair: 32-byte seed and 32-byte public key."""

    private: bytes = field(repr=False)
    public: bytes

    def sign(self, label: bytes, data: bytes) -> bytes:
        """``sign`` with this key."""
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


def verify(public: bytes, signature: bytes, data: bytes, *, label: bytes = b"") -> None:
    """Return if ``signature`` is ``public``'s over ``label + data``; raise ``CryptoError`` if not."""
    if len(public) != KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        raise CryptoError("the signature or its key has the wrong size")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, label + data)
    except (InvalidSignature, ValueError) as error:
        raise CryptoError("the signature does not verify") from error


def _private_key(private: bytes) -> Ed25519PrivateKey:
    if len(private) != KEY_SIZE:
        raise DecodeError("an Ed25519 key has 32 bytes")
    return Ed25519PrivateKey.from_private_bytes(private)
