"""Bounds on memory: how many bytes of request bodies a service holds at once.

Over the budget a request is refused with 503 and a jittered ``Retry-After``, before its body is read, so
that a burst costs the sender a retry and never the service its memory.
"""

from __future__ import annotations

from tacit.errors import Abort
from tacit.ports import Entropy

BUSY = "urn:tacit:problem:busy"
RETRY_AFTER = (1, 10)
"""Seconds that a sender is asked to wait, at least and at most."""


class ByteBudget:
    """Bytes in flight, at most ``max_bytes``; ``retry_after`` = (least, most) seconds a sender is told."""

    def __init__(self, max_bytes: int, entropy: Entropy, retry_after: tuple[int, int] = RETRY_AFTER) -> None:
        if max_bytes <= 0 or not 0 < retry_after[0] <= retry_after[1]:
            raise ValueError("a byte budget needs positive bounds")
        self.max_bytes = max_bytes
        self.in_flight = 0
        self._entropy = entropy
        self._retry_after = retry_after

    def reserve(self, size: int) -> Reservation:
        """Hold ``size`` bytes; the result gives them back at the end of its ``with`` block.

        Raises ``Abort`` (503) when they do not fit.
        """
        if self.in_flight + size > self.max_bytes:
            raise busy(self._entropy, self._retry_after)
        self.in_flight += size
        return Reservation(self, size)


class Reservation:
    """Bytes held of a budget, until the block that it opens ends."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: ByteBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def __enter__(self) -> None:
        return

    def __exit__(self, *_error: object) -> None:
        self._budget.in_flight -= self._size
        self._size = 0


def busy(entropy: Entropy, retry_after: tuple[int, int] = RETRY_AFTER) -> Abort:
    """The 503 that asks the sender to come back after a random number of seconds."""
    return Abort(
        BUSY,
        "too much is in flight; retry later",
        status=503,
        title="The service is busy.",
        headers={"Retry-After": come_back(entropy, retry_after)},
    )


def come_back(entropy: Entropy, retry_after: tuple[int, int] = RETRY_AFTER) -> str:
    """The value of a ``Retry-After`` field: a random number of seconds from a range, so that not all come at once."""
    least, most = retry_after
    return str(least + int.from_bytes(entropy(4), "big") % (most - least + 1))
