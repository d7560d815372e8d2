"""How long to wait: random times, and random, growing pauses between failing attempts.

Many processes and devices lose the same peer at the same moment. Each draws its own pauses, so that they do not come
back together and keep the peer down, and so that no device can be recognised by its timing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.ports import Entropy

NEVER = math.inf
"""The time of something that is never due."""
LONGEST_PAUSE = 60.0
"""The pauses of a service stop growing around this many seconds."""
_LEAST, _MOST = 0.5, 1.5
_SPREAD = 1.25
"""What a peer asks for is lengthened by up to this factor, since others were asked the same."""
_DOUBLINGS = 64
"""Most doublings: more would not change any pause in use, and 2.0 ** n overflows at 1024."""


def uniform(entropy: Entropy, low: float, high: float) -> float:
    """A uniform number with low <= number < high, from 8 bytes of ``entropy``; ``high`` if both are equal."""
    drawn = low + (high - low) * (int.from_bytes(entropy(8), "big") / 2**64)
    # a draw close to 1, or the sum, may round up to `high`, whatever the number of bits
    return min(drawn, math.nextafter(high, low))


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds after failures in a row: around ``first``, doubled with each failure, up to around ``longest``;
    each is uniform between half and one and a half of that. Raises ``ValueError`` unless both are above zero."""

    first: float
    longest: float

    def __post_init__(self) -> None:
        if not (self.first > 0 and self.longest > 0):
            raise ValueError("pauses must be above zero")

    @property
    def most(self) -> float:
        """Upper bound in seconds on all pauses, but for those that a peer asks for; no pause reaches it."""
        return _MOST * self.longest

    def pause(self, earlier: int, entropy: Entropy, asked: float = 0.0) -> float:
        """Seconds to wait after a failure that follows ``earlier`` (>= 0) others without a success in between, and at
        least ``asked``, the seconds for which the peer asks to be left alone."""
        middle = min(self.first * 2.0 ** min(earlier, _DOUBLINGS), self.longest)
        own = uniform(entropy, _LEAST * middle, _MOST * middle)
        return own if own >= asked else self.spread(asked, entropy)

    @staticmethod
    def spread(asked: float, entropy: Entropy) -> float:
        """``asked`` seconds and up to a quarter more, at random: others were asked the same."""
        return uniform(entropy, asked, _SPREAD * asked)
