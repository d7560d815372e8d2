"""What reports are worth to whoever looks at them, as claims need it, whatever method made them (P16)."""

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
    """Reports of one method. Every epsilon is by replacement and counts no sampling; ``math.inf``: nothing is
    guaranteed."""

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
        """How often an answer is not sent, whatever it is."""
        ...

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of the sum of n reports, which is all that one aggregator (or the analyst) sees."""
        ...

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of n single reports in an order that says nothing."""
        ...


def epsilon_with_rejection(
    general: float, exact: Callable[[float], float], n: int, delta: float, reject_probability: float
) -> float:
    """epsilon of the sum of n reports of which each is sent unless it is rejected, the smaller one of two bounds.

    ``general`` holds for any epsilon0-LDP reports; rejection does not depend on the value, so the output given that it
    is sent is still epsilon0-LDP and the bound holds as it stands. ``exact`` is epsilon of the sum at a delta as if all
    were sent; that sum moves by the chance eta that any of n is rejected: ``(delta' + e^epsilon eta) / (1 - eta) <=
    delta``.
    """
    if not 0 <= parameters.finite("reject_probability", reject_probability) < 1:
        raise ValueError("reject_probability must be at least 0 and below 1")
    eta = -math.expm1(n * math.log1p(-reject_probability))
    inner = delta * (1 - eta) - math.exp(general) * eta
    return general if inner < parameters.MIN_DELTA else min(general, exact(inner))


@dataclass(frozen=True, slots=True)
class NoiseStep:
    """Reports that only their sum hides: what one device changes in it when its value is replaced. ``cells`` (1 or 2,
    in opposite directions) by at most ``maximum``, or a vector as in ``vector``; all of it times ``scale``, under
    ``flips`` fair flips of every device in every cell. ``batch_flips``: those that each aggregator adds of its own; an
    adversary who is one of them still faces the other's."""

    scale: int
    flips: int
    maximum: int = 1
    cells: int = 1
    vector: VectorStep | None = None
    batch_flips: int = 0

    @property
    def mechanism(self) -> str:
        """The mechanism's name, without sampling."""
        return FLIPS_EXACT if self.vector is None else FLIPS_VECTOR

    @property
    def local_epsilon(self) -> float:
        """Infinite: a single report shows its value through one device's share."""
        return math.inf

    @property
    def reject_probability(self) -> float:
        """Every output is sent."""
        return 0.0

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon of the sum over n honest shares; infinite where they are too few."""
        total = n * self.flips + self.batch_flips
        if self.vector is not None:
            return epsilon_vector_noise(total, self.vector, self.scale, delta)
        return epsilon_noise(total, self.scale * self.maximum, delta, self.cells)

    def reports_epsilon(self, _n: int, _delta: float, /) -> float:
        """Infinite, however many there are."""
        return math.inf
