"""The client's half of RSA blind signatures (RFC 9474): Prepare, Blind and Finalize."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tacit.errors import CryptoError, DecodeError
from tacit.ports import Entropy
from tacit.tokens.blind_rsa import TokenKey, Variant, nonzero, verify
from tacit.tokens.modular import invert, mpz, powmod

HASH_SIZE = 48
PREFIX_SIZE = 32


@dataclass(frozen=True)
class BlindState:
    """What Finalize needs: the inverse of the blinding factor. Used once and kept secret."""

    inverse: int = field(repr=False)


def prepare(variant: Variant, message: bytes, entropy: Entropy) -> bytes:
    """The message to be signed: unchanged, or after 32 random bytes (RFC 9474 section 4.1)."""
    return entropy(PREFIX_SIZE) + message if variant.randomized else message


def blind(
    public_key: TokenKey,
    prepared: bytes,
    entropy: Entropy,
    variant: Variant = Variant.PSS_DETERMINISTIC,
) -> tuple[bytes, BlindState]:
    """The blinded message and the state for ``finalize`` (RFC 9474 section 4.2). Run by the client."""
    salt = entropy(variant.salt_size)
    return blind_with(public_key, prepared, salt=salt, r=nonzero(public_key.n, entropy))


def blind_with(public_key: TokenKey, prepared: bytes, *, salt: bytes, r: int | mpz) -> tuple[bytes, BlindState]:
    """``blind`` with its randomness given. Salt and factor must be fresh and secret unless they are published
    test values. Raises ``CryptoError`` where the message or the factor is not invertible."""
    n = public_key.n
    m = mpz(int.from_bytes(pss_encode(prepared, n.bit_length() - 1, salt), "big"))
    try:
        # one inversion covers both: m r is invertible only if m and r are
        inverse = invert(m * r % n, n) * m % n
    except ZeroDivisionError as error:
        raise CryptoError("blinding: message or factor is not invertible") from error
    z = m * powmod(r, public_key.e, n) % n
    return int(z).to_bytes(public_key.modulus_len, "big"), BlindState(int(inverse))


def finalize(
    public_key: TokenKey,
    prepared: bytes,
    blind_signature: bytes,
    state: BlindState,
    variant: Variant = Variant.PSS_DETERMINISTIC,
) -> bytes:
    """The unblinded signature, verified (RFC 9474 section 4.4). Run by the client.

    Raises ``DecodeError`` for a wrong size, ``CryptoError`` where the signature does not verify.
    """
    if len(blind_signature) != public_key.modulus_len:
        raise DecodeError(f"blind signature has {len(blind_signature)} bytes, not {public_key.modulus_len}")
    s = int.from_bytes(blind_signature, "big") * mpz(state.inverse) % public_key.n
    signature = int(s).to_bytes(public_key.modulus_len, "big")
    verify(public_key, prepared, signature, variant)
    return signature


def mgf1(seed: bytes, length: int) -> bytes:
    """``length`` mask bytes out of ``seed`` (RFC 8017 appendix B.2.1, SHA-384)."""
    blocks = -(-length // HASH_SIZE)
    mask = b"".join(hashlib.sha384(seed + counter.to_bytes(4, "big")).digest() for counter in range(blocks))
    return mask[:length]


def pss_encode(message: bytes, em_bits: int, salt: bytes) -> bytes:
    """The encoded message of ``ceil(em_bits / 8)`` bytes: EMSA-PSS-ENCODE with SHA-384 and MGF1-SHA-384 (RFC 8017
    section 9.1.1), which RFC 9474 blinds.

    RFC 9474 section 4.2 calls this with ``em_bits`` one below the modulus's bit length.
    Raises ``ValueError`` where the modulus is too short for the hash and the salt.
    """
    em_len = -(-em_bits // 8)
    if em_len < HASH_SIZE + len(salt) + 2:
        raise ValueError("modulus is too short for SHA-384 and this salt")
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    db_len = em_len - HASH_SIZE - 1
    block = int.from_bytes(b"\x01" + salt, "big")
    masked = block ^ int.from_bytes(mgf1(digest, db_len), "big")
    masked &= (1 << (em_bits - 8 * (HASH_SIZE + 1))) - 1
    return masked.to_bytes(db_len, "big") + digest + b"\xbc"
