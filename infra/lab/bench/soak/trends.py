"""Whether a series of samples grows: Theil and Sen's slope with its confidence interval (Sen 1968), and verdicts."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SAMPLES = 8
"""Samples below which no slope is judged."""
SETTLED = 4
"""The first of this many parts of a run is not judged: caches fill, and interpreters load what they use."""
Z = 1.96
MEMORY_TOLERANCE, COST_TOLERANCE, SIZE_TOLERANCE = 0.10, 0.15, 0.25
"""Most growth over the judged part of a run, as a share of the median."""
LEAST_BYTES = 8 << 20
"""Growth of memory and of databases that means nothing: one more arena, one more slice of reports."""


@dataclass(frozen=True)
class Trend:
    """The growth of a series over its whole length by its slope, and the least that the interval of 95 % allows; both
    in the unit of ``median``."""

    growth: float
    least: float
    median: float

    @classmethod
    def of(cls, places: Sequence[float], values: Sequence[float]) -> Trend:
        """Fit a line through ``values`` at ``places``, which never decrease."""
        pairs = itertools.combinations(zip(places, values, strict=True), 2)
        slopes = sorted((later - sooner) / (b - a) for (a, sooner), (b, later) in pairs if b > a)
        count, length = len(values), places[-1] - places[0]
        spread = Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        lowest = slopes[max(0, math.floor((len(slopes) - spread) / 2))]
        return cls(statistics.median(slopes) * length, lowest * length, statistics.median(values))


@dataclass(frozen=True)
class Verdict:
    """One judgement: of what, whether it holds, the share by which it grew (None where there was nothing to judge), the
    most that is tolerated (as a share, and in any case ``least``), and the first and last value."""

    subject: str
    holds: bool
    growth: float | None
    tolerance: float
    least: float
    first: float
    last: float
    unit: str


def judged(
    subject: str, places: Sequence[float], values: Sequence[float], tolerance: float, unit: str, least: float = 0.0
) -> Verdict:
    """Judge whether ``values`` stay constant after the run's first quarter: they grow if their slope makes more of them
    than ``tolerance`` and more than ``least``, and chance alone would not."""
    start = len(values) // SETTLED
    if len(values) - start < LEAST_SAMPLES:
        return Verdict(subject, True, None, tolerance, least, values[0], values[-1], unit)
    trend = Trend.of(places[start:], values[start:])
    share = trend.growth / trend.median if trend.median else 0.0
    grows = share > tolerance and trend.growth > least and trend.least > 0
    return Verdict(subject, not grows, share, tolerance, least, values[start], values[-1], unit)


def returned(subject: str, sizes: Sequence[float], tolerance: float, least: float) -> Verdict:
    """Judge whether a database is as large after the last release as after the first one; ``sizes``: after each."""
    if len(sizes) < 2:
        return Verdict(subject, True, None, tolerance, least, sum(sizes), sum(sizes), "bytes")
    growth = sizes[-1] - sizes[0]
    share = growth / sizes[0] if sizes[0] else 0.0
    holds = share <= tolerance or growth <= least
    return Verdict(subject, holds, share, tolerance, least, sizes[0], sizes[-1], "bytes")
