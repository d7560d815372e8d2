"""Verification of many tokens of one slot at once: RSASSA-PSS, eight signatures per instruction.

Nothing here is secret. A signature that the kernels refuse is verified again by OpenSSL, which alone refuses: a fault
of the kernels could cost time, but no valid token. What they accept satisfies a check of 384 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from tacit.errors import CryptoError
from tacit.fast_paths import TOKENS
from tacit.multibuffer.library import kernels
from tacit.tokens import blind_rsa
from tacit.tokens.blind_rsa import PUBLIC_EXPONENT, TOKEN_KEY_BITS, TokenKey
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import AUTHENTICATOR_SIZE

MIN_BATCH = 2
"""Least number of tokens for the kernels: all lanes cost at most what OpenSSL takes for two signatures."""


def verify_tokens(verifier: TokenVerifier, tokens: Sequence[bytes]) -> list[bool]:
    """Whether the issuer's signature on each token holds, in order.

    Precondition: each is an encoded token that ``verifier.parse`` takes.
    """
    signed = [(token[:-AUTHENTICATOR_SIZE], token[-AUTHENTICATOR_SIZE:]) for token in tokens]
    return verify_signatures(verifier.token_key, signed)


def verify_signatures(key: TokenKey, signed: Sequence[tuple[bytes, bytes]]) -> list[bool]:
    """Whether each ``(message, signature)`` verifies under ``key``, as ``blind_rsa.verify`` would say."""
    verdicts = _accept(key, signed)
    TOKENS.items += len(signed)
    TOKENS.fallbacks += verdicts.count(0)
    return [
        bool(accepted) or _verify_alone(key, message, signature)
        for accepted, (message, signature) in zip(verdicts, signed, strict=True)
    ]


def _accept(key: TokenKey, signed: Sequence[tuple[bytes, bytes]]) -> bytes:
    """One byte each: 1 if the kernels accept the signature; 0 if they do not, or cannot tell."""
    native = kernels() if len(signed) >= MIN_BATCH else None
    if native is None or not _is_supported(key) or any(len(signature) != AUTHENTICATOR_SIZE for _, signature in signed):
        return bytes(len(signed))
    hashes = b"".join(hashlib.sha384(message).digest() for message, _ in signed)
    return native.rsa_verify(*_modulus(key, native.r_bits), b"".join(signature for _, signature in signed), hashes)


def _is_supported(key: TokenKey) -> bool:
    """Whether the kernels support this key's parameters. All token keys have them."""
    return bool(key.e == PUBLIC_EXPONENT and key.n.bit_length() == TOKEN_KEY_BITS and key.n % 2 == 1)


@lru_cache(maxsize=64)
def _modulus(key: TokenKey, r_bits: int) -> tuple[bytes, bytes]:
    """The modulus and R^2 in the form that the kernels take."""
    size = TOKEN_KEY_BITS // 8
    r_squared = pow(2, 2 * r_bits, int(key.n))
    return int(key.n).to_bytes(size, "big"), r_squared.to_bytes(size, "big")


def _verify_alone(key: TokenKey, message: bytes, signature: bytes) -> bool:
    try:
        blind_rsa.verify(key, message, signature)
    except CryptoError:
        return False
    return True
