"""EMSA-PSS-ENCODE with SHA-384 and MGF1-SHA-384 (RFC 8017 section 9.1.1), the encoding that RFC 9474 blinds.

This module only encodes: the client encodes and blinds. Verification uses a reviewed library
(``tacit.tokens.blind_rsa.verify``).
"""

from __future__ import annotations

import hashlib

HASH_SIZE = 48


def mgf1(seed: bytes, length: int) -> bytes:
    """``length`` mask bytes out of ``seed`` (RFC 8017 appendix B.2.1, SHA-384)."""
    blocks = -(-length // HASH_SIZE)
    mask = b"".join(hashlib.sha384(seed + counter.to_bytes(4, "big")).digest() for counter in range(blocks))
    return mask[:length]


def encode(message: bytes, em_bits: int, salt: bytes) -> bytes:
    """The encoded message of ``ceil(em_bits / 8)`` bytes.

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
