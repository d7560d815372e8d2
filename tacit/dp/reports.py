"""What claims need to know about reports, whatever method made them (P16): what they reveal to each observer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tacit.dp import parameters
from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise

FLIPS_EXACT = "flips-exact"
FLIPS_VECTOR = "flips-vector"


class Reports(Protocol):
    """The reports of one method. Every epsilon is by replacement and without sampling; ``math.inf`` means that nothing
    is guaranteed."""

    @property
    def mechanism(self) -> str:
        """The mechanism's name in a claim, without sampling."""
        ...

    @property
    def local_epsilon(self) -> float:
        """epsilon of one report by itself, delta 0."""
        ...

    @property
    def reject_probability(self) -> float:
        """Probability that an answer is rejected and not sent; the same for every answer."""
        ...

    @property
    def most_reports(self) -> int:
        """The largest n for which ``aggregate_epsilon`` can be computed. More reports never have a larger epsilon."""
        ...

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of the sum of n reports, which is all that one aggregator (or the analyst) sees."""
        ...

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of n single reports in an order that reveals nothing."""
        ...


def epsilon_with_rejection(
    general: float, exact: Callable[[float], float], n: int, delta: float, reject_probability: float
) -> float:
    """epsilon of the sum of n reports, each of which is sent unless it is rejected: the smaller of two bounds.

    ``general`` holds for any epsilon0-LDP reports; rejection does not depend on the value, so the output given that it
    is sent is still epsilon0-LDP and the bound holds as it stands. ``exact`` maps a delta to the epsilon of the sum as
    if all were sent; that sum changes by at most the chance eta that any of n is rejected: ``(delta' + e^epsilon eta) /
    (1 - eta) <= delta``.
    """
    if not 0 <= parameters.finite("reject_probability", reject_probability) < 1:
        raise ValueError("reject_probability must be at least 0 and below 1")
    eta = -math.expm1(n * math.log1p(-reject_probability))
    # e^general stands for e^epsilon: an epsilon above the general one is not returned
    inner = delta * (1 - eta) - math.exp(general) * eta
    return general if inner < parameters.MIN_DELTA else min(general, exact(inner))


@dataclass(frozen=True, slots=True)
class NoiseStep:
    """Reports that only their sum hides, described by how the sum changes when one device's value is replaced:
    ``cells`` cells (1 or 2, in opposite directions) change by at most ``maximum``, or a vector changes as in
    ``vector``; all of it is multiplied by ``scale`` and hidden by ``flips`` fair flips of every device in every cell.
    ``batch_flips`` are the flips that each aggregator adds itself; an adversary that is one aggregator still faces the
    other's. ``excess``: the chance, at most, that a device's vector is too long for its proof and 0 is sent in its
    place (``tacit.dp.noisy_length``)."""

    scale: int
    flips: int
    maximum: int = 1
    cells: int = 1
    vector: VectorStep | None = None
    batch_flips: int = 0
    excess: float = 0.0

    @property
    def mechanism(self) -> str:
        """The mechanism's name, without sampling."""
        return FLIPS_EXACT if self.vector is None else FLIPS_VECTOR

    @property
    def local_epsilon(self) -> float:
        """Infinite: one device's share alone does not hide its value."""
        return math.inf

    @property
    def reject_probability(self) -> float:
        """Always 0: every output of this method is sent."""
        return 0.0

    @property
    def most_reports(self) -> int:
        """The devices whose flips are not too many to be summed."""
        return parameters.MAX_N // self.flips

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon of the sum over n honest shares; infinite where they are too few."""
        total = n * self.flips + self.batch_flips
        if self.vector is not None:
            return epsilon_vector_noise(total, self.vector, self.scale, delta, n * self.excess)
        return epsilon_noise(total, self.scale * self.maximum, delta, self.cells)

    def reports_epsilon(self, _n: int, _delta: float, /) -> float:
        """Infinite for any number of single reports."""
        return math.inf
