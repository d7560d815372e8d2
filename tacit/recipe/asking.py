"""The times at which devices are asked and send: they decide in the first part of a recipe's interval, and send over
the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.recipe.model import Interval

DECIDING_SHARE = 0.25
"""Share of a recipe's interval in which devices decide: a round of a series can be published only after the previous
one, and rounds follow each other without a gap."""

LONGEST_SPREAD = 1.25
"""Of a device's usual pause between two looks at the log: the longest one."""

TAIL_SHARE, TAIL_SECONDS = 0.05, 60.0
"""No report is planned in the last part of the interval: this share of it, or this many seconds if that is less."""


def asked_until(interval: Interval) -> float:
    """The time (POSIX seconds) until which devices decide to answer in ``interval``."""
    return interval.start + DECIDING_SHARE * interval.duration


def last_start(interval: Interval) -> float:
    """The latest time (POSIX seconds) for which a report is planned."""
    return interval.end - min(TAIL_SHARE * interval.duration, TAIL_SECONDS)


def sent_share(interval: Interval, now: float) -> float:
    """The share, 0 to 1, of those who answer that has planned to send by ``now``: each device draws a uniform time
    between ``asked_until`` and ``last_start``."""
    first, last = asked_until(interval), last_start(interval)
    return min(1.0, max(0.0, (now - first) / (last - first)))
