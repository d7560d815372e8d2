"""Challenges without memory: what the attester gives out it can recognise later, so that asking for one stores nothing.

A challenge is ``expires (uint64) || nonce (8) || tag (16)``: its POSIX second of expiry, randomness, and HMAC-SHA256 of
both, cut to 128 bits, under a key that every process of one attester derives from the secret they share. Devices see 32
opaque bytes. Only one that was used is kept, until it has ended (``attester.store``).

Time never runs backwards here: it is the clock's, or where that is later the *floor*, the latest expiry that was ever
forgotten. A clock that was set back therefore revives nothing, and while it lags behind the floor challenges go on
from there.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from tacit.ports import Entropy
from tacit.tokens.attestation import CHALLENGE_SIZE

SKEW_SECONDS = 60
"""By how much the clocks of two processes may differ."""
_LABEL = b"tacit attester challenge v1"
_TIME_SIZE, _NONCE_SIZE, _TAG_SIZE = 8, 8, 16


@dataclass(frozen=True, slots=True)
class Challenges:
    """Makes and recognises challenges that live ``seconds``; ``secret`` has 32 bytes."""

    secret: bytes = field(repr=False)
    seconds: int

    def fresh(self, now: float, entropy: Entropy) -> bytes:
        """32 bytes that nobody else can make, good until ``seconds`` after ``now``."""
        head = (int(now) + self.seconds).to_bytes(_TIME_SIZE, "big") + entropy(_NONCE_SIZE)
        return head + self._tag(head)

    def expires(self, challenge: bytes, now: float) -> int | None:
        """The second in which a challenge ends; None for one that is not ours, that ended before ``now`` or that was
        given out later than it, clocks being ``SKEW_SECONDS`` apart at most."""
        head = challenge[: _TIME_SIZE + _NONCE_SIZE]
        if len(challenge) != CHALLENGE_SIZE or not hmac.compare_digest(self._tag(head), challenge[len(head) :]):
            return None
        expires = int.from_bytes(head[:_TIME_SIZE], "big")
        return expires if now < expires <= now + self.seconds + SKEW_SECONDS else None

    def _tag(self, head: bytes) -> bytes:
        key = hmac.digest(self.secret, _LABEL, "sha256")
        return hmac.digest(key, head, "sha256")[:_TAG_SIZE]
