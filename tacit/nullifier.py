"""The spend-once tag of a token: an aggregator stores it so that a token counts once.

It excludes the authenticator, because a second valid signature over the same input must not be a second token.
"""

from __future__ import annotations

import hashlib


def nullifier(token_type: int, nonce: bytes, challenge_digest: bytes, key_id: bytes) -> bytes:
    """SHA-256 of type (uint16), nonce, challenge digest and key id (32 bytes each)."""
    return hashlib.sha256(token_type.to_bytes(2, "big") + nonce + challenge_digest + key_id).digest()
