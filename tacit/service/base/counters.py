"""Traffic in numbers per time bucket, for services that must not log single requests.

Counts are kept in memory and written as one log line per bucket once the bucket is over, so that a log says
how much happened in five minutes and never when, or from where, one request came.
"""

from __future__ import annotations

from collections import Counter

from tacit.ports import Clock
from tacit.service.base.log import get_logger

BUCKET_SECONDS = 300

_STATUS_NAMES = {status: f"status_{status}" for status in range(100, 1000)}


class TrafficCounters:
    """Counts by name in buckets of ``bucket_seconds``; a ``Driver`` that logs finished buckets."""

    def __init__(self, service: str, clock: Clock, bucket_seconds: int = BUCKET_SECONDS) -> None:
        if bucket_seconds < 1:
            raise ValueError("a bucket must last at least a second")
        self._service = service
        self._clock = clock
        self._bucket_seconds = bucket_seconds
        self._buckets: dict[int, Counter[str]] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Add ``amount`` to ``name`` in the current bucket. Names must be constants, never taken from a request."""
        start = self._present()
        bucket = self._buckets.get(start)
        if bucket is None:
            bucket = self._buckets[start] = Counter()
        bucket[name] += amount

    def answered(self, status: int) -> None:
        """Count one answer by its status, 100 to 999 (``status_200``, ...). ``KeyError`` for any other."""
        self.add(_STATUS_NAMES[status])

    def totals(self) -> dict[str, int]:
        """Sums over the buckets not yet logged."""
        return dict(sum(self._buckets.values(), Counter()))

    async def step(self) -> int:
        """Log the buckets that are over, oldest first; returns how many."""
        finished = sorted(start for start in self._buckets if start < self._present())
        for start in finished:
            self._log(start)
        return len(finished)

    def flush(self) -> None:
        """Log every bucket, including the current one (when the service ends)."""
        for start in sorted(self._buckets):
            self._log(start)

    def _log(self, start: int) -> None:
        counts = dict(sorted(self._buckets.pop(start).items()))
        get_logger(self._service).info(
            "traffic", bucket_start=start, bucket_seconds=self._bucket_seconds, counts=counts
        )

    def _present(self) -> int:
        return int(self._clock.now()) // self._bucket_seconds * self._bucket_seconds
