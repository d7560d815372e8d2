"""When a device acts: random times and random, growing pauses, so that no device has a beat of its own."""

from __future__ import annotations

import math

from client_agent.config import Timing
from tacit.ports import Entropy

NEVER = math.inf
_DOUBLINGS = 16


def uniform(entropy: Entropy, low: float, high: float) -> float:
    """A uniform number in [low, high)."""
    return low + (high - low) * (int.from_bytes(entropy(8), "big") / 2**64)


def backoff(entropy: Entropy, timing: Timing, attempts: int) -> float:
    """Seconds to wait after ``attempts`` failures: doubling up to the limit, each time between half and one and a
    half of that."""
    limit = min(timing.retry_seconds * 2 ** min(attempts, _DOUBLINGS), timing.retry_limit_seconds)
    return uniform(entropy, 0.5 * limit, 1.5 * limit)
