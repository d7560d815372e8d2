"""X25519 (RFC 7748) for every key of every party: the exchange, and which public keys are refused."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tacit.errors import CryptoError, DecodeError

KEY_SIZE = 32
_FIELD_PRIME = 2**255 - 19
_PROBE = X25519PrivateKey.from_private_bytes(bytes(KEY_SIZE))
"""Clamped, this is the scalar 2^254: it takes every point of low order to zero, on the curve and on its twist, and no
other point."""


def checked_public_key(public: bytes) -> bytes:
    """Return ``public`` if messages may be sealed to it as an X25519 key: 32 bytes in canonical form (RFC 7748 section
    5 accepts others), and not a point of low order (section 7), with which every secret is zero. Raises
    ``DecodeError``."""
    if len(public) != KEY_SIZE:
        raise DecodeError(f"{len(public)} bytes are not an X25519 key, which has {KEY_SIZE}")
    if int.from_bytes(public, "little") >= _FIELD_PRIME:
        raise DecodeError("the X25519 key is not in its canonical form")
    if _low_order(public):
        raise DecodeError("the X25519 key is of low order")
    return public


@lru_cache(maxsize=1024)
def _low_order(public: bytes) -> bool:
    try:
        exchange(_PROBE, public)
    except CryptoError:
        return True
    return False


def exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    """The shared secret, 32 bytes. Raises ``CryptoError`` for a public key of another size or of low order."""
    if len(public) != KEY_SIZE:
        raise CryptoError("an X25519 public key must have 32 bytes")
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # how the backend reports an all-zero result
        raise CryptoError("the X25519 public key is of low order") from error
