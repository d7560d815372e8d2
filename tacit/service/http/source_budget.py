"""What one source may use of a service that is open to everybody, where no gateway stands before it."""

from __future__ import annotations

from collections import OrderedDict

from tacit.ports import Clock, Entropy
from tacit.service.http.limits import RETRY_AFTER, busy

SOURCES = 65_536
"""Most sources that a ``SourceBudget`` remembers; above it the one that spent longest ago is forgotten."""
MINUTE = 60.0


class SourceBudget:
    """Bytes that each source may use per minute, regained evenly. A source is forgotten once it has regained all of
    them."""

    def __init__(self, per_minute: int, clock: Clock, entropy: Entropy) -> None:
        if per_minute <= 0:
            raise ValueError("a budget needs a positive bound")
        self._per_minute = per_minute
        self._clock = clock
        self._entropy = entropy
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._spent)

    def spend(self, source: str, size: int) -> None:
        """Use ``size`` bytes. Raises ``Abort`` (503), with nothing used, when ``source`` does not have them."""
        now = self._clock.now()
        self._forget(now)
        left = self._left(source, now) + size
        if left > self._per_minute:
            raise busy(self._entropy, (RETRY_AFTER[1], int(MINUTE)))
        self._spent[source] = (now, left)
        self._spent.move_to_end(source)

    def _left(self, source: str, now: float) -> float:
        """Bytes that the source has used and not regained yet."""
        since, spent = self._spent.get(source, (now, 0.0))
        # a clock that steps back gives nothing back
        return max(0.0, spent - max(0.0, now - since) * self._per_minute / MINUTE)

    def _forget(self, now: float) -> None:
        while self._spent:
            since, _ = next(iter(self._spent.values()))
            # in the order of their last spending, so the first that is recent ends the search
            if now - since < MINUTE and len(self._spent) < SOURCES:
                return
            self._spent.popitem(last=False)
