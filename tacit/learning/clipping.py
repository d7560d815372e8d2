"""How the clip of the next round follows from the quantile entry of a round (Andrew et al. 2021, algorithm 1)."""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.recipe.quantity import PLACES, quantity
from tacit.recipe.training import MAX_CLIP

_DIGITS = 4
"""Significant digits of a clip: as many as matter."""
_LEAST = 10.0 ** (_DIGITS - 1 - PLACES)


def share_unclipped(mean_entry: float, weight: float) -> float:
    """The share of devices whose update was not shrunk, within [0, 1], from the mean of their quantile entries, which
    may have noise."""
    return min(max(0.5 * (mean_entry / weight + 1), 0.0), 1.0)


def next_clip(clip: float, unclipped: float, target: float, rate: float) -> int | str:
    """The clip after a round in which the share ``unclipped`` was not shrunk: ``clip exp(-rate (unclipped - target))``,
    as a recipe writes it, within its bounds. ``target`` in [0, 1]: the share that shall not be."""
    found = min(max(clip * math.exp(-rate * (unclipped - target)), _LEAST), float(MAX_CLIP))
    places = min(PLACES, max(0, _DIGITS - 1 - math.floor(math.log10(found))))
    return quantity(_exact(found, places))


def _exact(number: float, places: int) -> int | Fraction:
    return Fraction(round(number * 10**places), 10**places)
