"""How long to wait: random times, and random, growing pauses between attempts that fail.

Many processes and devices lose the same peer at the same moment. Each draws its pauses for itself, so that they do
not come back together and keep the peer down, and so that no device can be told by a beat of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.ports import Entropy

NEVER = math.inf
"""When what is not due at all is due."""
LONGEST_PAUSE = 60.0
"""Seconds around which the pauses of a service stop growing."""
_LEAST, _MOST = 0.5, 1.5
_DOUBLINGS = 64
"""More change nothing for any pause in use, and 2.0 ** n overflows at 1024."""


def uniform(entropy: Entropy, low: float, high: float) -> float:
    """A uniform number in [low, high)."""
    return low + (high - low) * (int.from_bytes(entropy(8), "big") / 2**64)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds after failures in a row: around ``first``, doubled with each failure, up to around
    ``longest``; each is uniform between half and one and a half of that. Raises ``ValueError`` unless both are above
    zero."""

    first: float
    longest: float

    def __post_init__(self) -> None:
        if not (self.first > 0 and self.longest > 0):
            raise ValueError("pauses must be above zero")

    @property
    def most(self) -> float:
        """Seconds that no pause reaches."""
        return _MOST * self.longest

    def pause(self, earlier: int, entropy: Entropy) -> float:
        """Seconds to wait after a failure that ``earlier`` (>= 0) others came before without a success between."""
        middle = min(self.first * 2.0 ** min(earlier, _DOUBLINGS), self.longest)
        return uniform(entropy, _LEAST * middle, _MOST * middle)
