"""Until when devices are asked: they decide in the first part of a recipe's interval, and send over the rest."""

from __future__ import annotations

from tacit.recipe.model import Interval

DECIDING_SHARE = 0.25
"""How much of a recipe's interval is for deciding: a round of a series can be published only when the one before it is
over, and rounds follow each other without a gap."""


TAIL_SHARE, TAIL_SECONDS = 0.05, 60.0
"""How long before the end of the interval no report is planned any more: so much of it, or so many seconds if that is
less."""


def asked_until(interval: Interval) -> float:
    """The moment (POSIX seconds) until which devices decide to answer in ``interval``."""
    return interval.start + DECIDING_SHARE * interval.duration


def last_start(interval: Interval) -> float:
    """The latest moment (POSIX seconds) for which a report is planned."""
    return interval.end - min(TAIL_SHARE * interval.duration, TAIL_SECONDS)


def sent_share(interval: Interval, now: float) -> float:
    """Which share of those who answer has planned to send by ``now``, 0 to 1: each draws a time between ``asked_until``
    and ``last_start`` uniformly."""
    first, last = asked_until(interval), last_start(interval)
    return min(1.0, max(0.0, (now - first) / (last - first)))
