"""Shuffled counts with few messages: a noise message in a cell with the probability f with which zsum leaves one out.

The totals hide a device exactly as those of zsum do (the flipped noise is its mirror image), with ``lambda d / n``
noise messages of a device for d cells instead of almost d. What is lost is the sure zero: noise alone can reach any
total.

* ``unbiased`` releases the total of every cell less its expected noise. A cell that nobody has gets an estimate of
  about 0.
* ``flipped`` releases as 0 every total that noise alone reaches in no cell, except with probability
  ``FALSE_POSITIVE_RATE`` over all cells together: the threshold follows from ``Bin(n, noise_mean)`` and d.

Noise is drawn given that at most w = ``max_weight`` cells have any, so that all devices send equally many messages.
With eta the probability that one of n devices would exceed w, ``Pr[. | fits] <= Pr[.] / (1 - eta)`` and ``Pr[.] <=
Pr[. and fits] + eta`` give ``delta <= (delta' + e^epsilon eta) / (1 - eta)``. A single cell's bits stay independent
over devices, each with probability ``noise_mean`` <= f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from tacit.dp.binomial import binomial_above
from tacit.methods.base.draws import ONE
from tacit.methods.base.method import Members
from tacit.methods.base.statistics import Shape
from tacit.methods.shuffled import MAX_CATEGORIES, ShuffledCounts

MOST_SHOWN = 4096
"""Most categories whose estimates are all released, most of them of nothing but noise."""
TAIL_SHARE = 0.001
"""Share of delta that is kept for noise that would exceed its bound."""


@dataclass(frozen=True, slots=True)
class Unbiased(ShuffledCounts):
    """A noise message in few cells, at most ``max_weight`` of them; totals are released less their expected noise."""

    NAME = "unbiased"
    MEMBERS = ("noise_rate", "max_weight")
    MOST_CATEGORIES = MOST_SHOWN
    max_weight: int = 1

    def __post_init__(self) -> None:
        ShuffledCounts.__post_init__(self)
        if not 1 <= self.max_weight <= self.categories:
            raise ValueError("max_weight must be from 1 to the number of categories")

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(shape.statistic.name, members["categories"], members["noise_rate"], members["max_weight"])

    def members(self) -> dict[str, Any]:
        """``noise_rate``, ``max_weight`` and ``categories``."""
        return {**ShuffledCounts.members(self), "max_weight": self.max_weight}

    @property
    def messages(self) -> int:
        """The bound on noise messages, and the device's own."""
        return self.max_weight + 1

    @property
    def noise_mean(self) -> float:
        """The probability of a noise message, given that at most ``max_weight`` cells have one."""
        k, f, w = self.categories, self.noise_below / ONE, self.max_weight
        return f * (1 - binomial_above(w - 1, k - 1, f)) / (1 - binomial_above(w, k, f))

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon of the totals at a part of delta, if the rest pays for noise that would exceed its bound;
        otherwise infinite."""
        eta = -math.expm1(n * math.log1p(-binomial_above(self.max_weight, self.categories, self.noise_below / ONE)))
        inner = delta if eta == 0 else delta * (1 - TAIL_SHARE)
        epsilon = ShuffledCounts.aggregate_epsilon(self, n, inner)
        if eta == 0 or math.isinf(epsilon):
            return epsilon
        return epsilon if inner + math.exp(epsilon) * eta <= delta * (1 - eta) else math.inf


@dataclass(frozen=True, slots=True)
class Flipped(Unbiased):
    """The messages of ``unbiased``; totals that noise alone could have are released as 0."""

    NAME = "flipped"
    MOST_CATEGORIES = MAX_CATEGORIES
