"""Bounds on the memory of a service that is open to everybody.

Over a budget a request is refused with 503 and a random ``Retry-After``, so that a burst costs the sender a retry and
never the service its memory. Bytes are counted here once a body is complete; before, ``tacit.service.http.admission``
bounds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.errors import Abort, UsageError
from tacit.ports import Entropy

BUSY = "urn:tacit:problem:busy"
ORDINARY_BODY = 262_144
"""Most bytes of a request that every relay and gateway takes: the largest size class of fetches and usual reports. What
is larger has stricter limits."""
RETRY_AFTER = (1, 10)
"""Least and most seconds that a sender is asked to wait."""


class ByteBudget:
    """Bytes in flight, at most ``max_bytes``; ``retry_after`` = (least, most) seconds that a refused sender is asked to
    wait."""

    def __init__(self, max_bytes: int, entropy: Entropy, retry_after: tuple[int, int] = RETRY_AFTER) -> None:
        if max_bytes <= 0 or not 0 < retry_after[0] <= retry_after[1]:
            raise ValueError("a byte budget needs positive bounds")
        self.max_bytes = max_bytes
        self.in_flight = 0
        self._entropy = entropy
        self._retry_after = retry_after

    def reserve(self, size: int) -> Reservation:
        """Reserve ``size`` bytes; they are released at the end of the result's ``with`` block.

        Raises ``Abort`` (503) when they do not fit.
        """
        if self.in_flight + size > self.max_bytes:
            raise busy(self._entropy, self._retry_after)
        self.in_flight += size
        return Reservation(self, size)


class UploadBudget(ByteBudget):
    """A budget of which messages above ``ORDINARY_BODY`` have at most half, so that they never keep the others out."""

    def __init__(
        self,
        max_bytes: int,
        entropy: Entropy,
        retry_after: tuple[int, int] = RETRY_AFTER,
        *,
        largest: int,
        answer: int,
    ) -> None:
        """``largest``: most bytes of a message, ``answer``: of its answer. Raises ``UsageError`` where there would
        never be room for such a message."""
        super().__init__(max_bytes, entropy, retry_after)
        if largest > ORDINARY_BODY and max_bytes < 2 * (largest + answer):
            least = 2 * (largest + answer)
            raise UsageError(f"max_in_flight must be at least {least}, twice a message of max_request and its answer")
        self._large = ByteBudget(max(1, max_bytes // 2), entropy, retry_after)
        self._answer = answer

    @contextmanager
    def admit(self, message: int) -> Iterator[None]:
        """Reserve the bytes of a message and of its answer. Raises ``Abort`` (503) when they do not fit."""
        size = message + self._answer
        with self._large.reserve(size if message > ORDINARY_BODY else 0), self.reserve(size):
            yield


class Reservation:
    """Bytes reserved from a budget, until the end of the ``with`` block."""

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
        "too many requests are in progress; retry later",
        status=503,
        title="The service is busy.",
        headers={"Retry-After": come_back(entropy, retry_after)},
    )


def come_back(entropy: Entropy, retry_after: tuple[int, int] = RETRY_AFTER) -> str:
    """The value of a ``Retry-After`` field: a random number of seconds from a range, so that clients do not all come
    back at once."""
    least, most = retry_after
    return str(least + int.from_bytes(entropy(4), "big") % (most - least + 1))
