"""A fleet's own metrics, mergeable over workers: counts by cause, a latency histogram, acknowledgements per second.

Latency runs from the moment at which a contribution was due until its acknowledgement. Waiting for a free sender
counts, so a slow server cannot improve its figures by slowing the load down. Without a rate a contribution is due when
a sender is free for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

SHORTEST = 1e-4
PER_DECADE = 40
DECADES = 7
BINS = PER_DECADE * DECADES + 2
"""Bin 0 is below ``SHORTEST`` seconds, the last one above 1,000 seconds; neighbours differ by 6 %."""


def bin_of(seconds: float) -> int:
    """The bin, from 0 to ``BINS`` - 1, in which a latency of ``seconds`` is counted."""
    if seconds < SHORTEST:
        return 0
    return min(BINS - 1, 1 + int(math.log10(seconds / SHORTEST) * PER_DECADE))


def edge_of(place: int) -> float:
    """The upper edge of a bin in seconds."""
    return float(SHORTEST * 10 ** (place / PER_DECADE))


@dataclass
class Snapshot:
    """Counts of one worker so far, or of all together. ``seconds`` counts acknowledgements by POSIX second."""

    due: int = 0
    started: int = 0
    acknowledged: int = 0
    in_flight: int = 0
    attempts: int = 0
    tokens: int = 0
    stage: str = ""
    causes: Counter[str] = field(default_factory=Counter)
    latencies: Counter[int] = field(default_factory=Counter)
    seconds: Counter[int] = field(default_factory=Counter)

    def percentile(self, share: float) -> float:
        """The latency (seconds) that ``share`` of the acknowledged contributions did not exceed; 0 without any."""
        total, reached = self.latencies.total(), 0
        for place in sorted(self.latencies):
            reached += self.latencies[place]
            if reached >= share * total:
                return edge_of(place)
        return 0.0

    @property
    def throughput(self) -> float:
        """Acknowledgements per second between the first and the last second that had one."""
        if not self.seconds:
            return 0.0
        return self.acknowledged / (max(self.seconds) - min(self.seconds) + 1)


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Add up the snapshots of all workers; ``stage`` is that of the first worker that has one."""
    whole = Snapshot()
    for one in snapshots:
        whole.due += one.due
        whole.started += one.started
        whole.acknowledged += one.acknowledged
        whole.in_flight += one.in_flight
        whole.attempts += one.attempts
        whole.tokens += one.tokens
        whole.stage = whole.stage or one.stage
        whole.causes.update(one.causes)
        whole.latencies.update(one.latencies)
        whole.seconds.update(one.seconds)
    return whole
