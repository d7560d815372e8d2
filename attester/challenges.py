"""Stateless challenges: the attester recognises the challenges that it gave out, so issuing one stores nothing.

A challenge is ``expires (uint64) || nonce (8) || tag (16)``: the POSIX second in which it expires, randomness, and an
HMAC-SHA256 of both, cut to 128 bits, under a key that every process of one attester derives from their shared secret.
Devices see 32 opaque bytes. Only a challenge that was used is stored, until it expires (``attester.store``).

Time never runs backwards here: it is the later of the clock and the *floor*, which is the latest expiry among the
challenges that were ever forgotten. So a clock that was set back revives no challenge, and while it lags behind the
floor, new challenges are dated from the floor.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from tacit.ports import Entropy
from tacit.tokens.attestation import CHALLENGE_SIZE

SKEW_SECONDS = 60
"""Seconds by which the clocks of two processes may differ."""
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
        """The POSIX second in which a challenge expires. None for one that this attester did not make, that expired
        before ``now``, or that was issued after ``now`` (allowing ``SKEW_SECONDS`` between clocks)."""
        head = challenge[: _TIME_SIZE + _NONCE_SIZE]
        if len(challenge) != CHALLENGE_SIZE or not hmac.compare_digest(self._tag(head), challenge[len(head) :]):
            return None
        expires = int.from_bytes(head[:_TIME_SIZE], "big")
        return expires if now < expires <= now + self.seconds + SKEW_SECONDS else None

    def _tag(self, head: bytes) -> bytes:
        key = hmac.digest(self.secret, _LABEL, "sha256")
        return hmac.digest(key, head, "sha256")[:_TAG_SIZE]
