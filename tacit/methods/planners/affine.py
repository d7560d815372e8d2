"""Planning local hashing: the number of hash bits with the least variance."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tacit.methods.base.affine import MAX_HASH_BITS, AffineHashing
from tacit.methods.base.statistics import Shape
from tacit.methods.estimators.affine import AffineEstimator
from tacit.methods.planners.local import LocalPlanner


@dataclass(frozen=True)
class AffinePlanner(LocalPlanner[AffineHashing]):
    """Single reports, whose epsilon0 is that of the target."""

    def tuned(self, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> AffineHashing:
        """The method with this epsilon0 and the number of hash bits with the least variance."""
        made = (self.method(epsilon, bits, shape.item_bits) for bits in range(1, MAX_HASH_BITS + 1))
        return min(made, key=lambda one: AffineEstimator(one).variance)
