"""The clip of the next round, from the share of devices whose update was not shortened in this one.

The geometric rule of G. Andrew et al., Differentially Private Learning with Adaptive Clipping, 2021: the clip is
multiplied by exp(-rate (b - target)). The share b comes out of the same noisy sum as the updates, as the mean of one
more entry of every vector. Decimal arithmetic, so that everybody who has the releases finds the same clip.

A clip never leaves ``LEAST_CLIP`` to ``MAX_CLIP``, in which plans begin, too; so a larger clip before it, or a smaller
share, never gives a smaller one.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

from tacit.learning.plan import LEAST_CLIP, Adaptive
from tacit.recipe.quantity import exact, quantity
from tacit.recipe.training import MAX_CLIP, Quantile

Clip = int | str
"""As a recipe states it."""
_DIGITS: Final = Context(prec=4)
_PRECISE: Final = Context(prec=40)


def share_unshortened(quantile: Quantile, mean_entry: float) -> float:
    """The share b of devices whose update was short enough, in [0, 1], from the mean of the quantile's entry."""
    return min(1.0, max(0.0, (mean_entry / float(exact(quantile.weight)) + 1) / 2))


def next_clip(rule: Adaptive, clip: Clip, share: float) -> Clip:
    """The clip after a round with ``clip`` in which the ``share`` of devices was not shortened, to four digits."""
    off = _PRECISE.subtract(Decimal(share), Decimal(str(rule.target)))
    factor = _PRECISE.exp(_PRECISE.multiply(-Decimal(str(rule.rate)), off))
    found = _PRECISE.multiply(Decimal(str(clip)), factor)
    return quantity(Fraction(_DIGITS.plus(min(max(found, LEAST_CLIP), Decimal(MAX_CLIP)))))
