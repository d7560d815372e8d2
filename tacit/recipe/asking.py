"""Until when devices are asked: they decide in the first part of a recipe's interval, and send over the rest."""

from __future__ import annotations

from tacit.recipe.model import Interval

DECIDING_SHARE = 0.25
"""How much of a recipe's interval is for deciding: a round of a series can be published only when the one before it is
over, and rounds follow each other without a gap."""


def asked_until(interval: Interval) -> float:
    """The moment (POSIX seconds) until which devices decide to answer in ``interval``."""
    return interval.start + DECIDING_SHARE * interval.duration
