"""Planning noise shares: the least noise that hides everybody in the sum."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tacit.dp.binomial_noise import NoiseShare, noise_share
from tacit.dp.vector_noise import vector_share
from tacit.methods.base.statistics import Shape
from tacit.methods.flips import Flips, vector_step
from tacit.methods.planners.base import Planner


@dataclass(frozen=True)
class FlipsPlanner(Planner[Flips]):
    """Searches the scale of the values and the flips that a device adds as its share of the noise."""

    def tuned(self, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Flips:
        """The method with the least noise at which the shares of n honest devices are (epsilon, delta)-private."""
        share = _share(shape, float(epsilon), n, delta)
        stated = {"scale": share.scale, "flips": share.flips, "maximum": shape.maximum, "categories": shape.cells}
        return self.method.of(shape, stated)


def _share(shape: Shape, epsilon: float, honest: int, delta: float) -> NoiseShare:
    if shape.statistic.is_vector:
        return vector_share(epsilon, delta, honest, vector_step(shape))
    return noise_share(epsilon, delta, honest, step=shape.maximum, cells=shape.moved)
