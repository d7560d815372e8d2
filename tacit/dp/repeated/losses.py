"""A discrete privacy loss that is at least as bad as a mechanism of which only the hockey-stick curve is known.

For neighbours P, Q let ``H(a) = sup_S P(S) - a Q(S)``, a >= 0: convex, from 1 at 0 downwards. A loss with masses p_i at
l_i and p at infinity has the curve ``p + sum_i p_i max(1 - a e^-l_i, 0)``, which is linear between the ``e^l_i``. Drawn
through H at every ``e^l_i`` and from 1 at 0 it lies above H everywhere, and a mechanism whose curve is higher composes
to a higher curve, also where later rounds depend on earlier results (Y. Zhu, J. Dong, Y.-X. Wang, Optimal Accounting of
Differential Privacy via Characteristic Function, Theorem 10; the dots are joined as by V. Doroshenko et al., Connect
the Dots: Tighter Discrete Approximations of Privacy Loss Distributions). Every mass is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Curve = Callable[[float], float]
"""An upper bound of ``H(e^epsilon)``, for every epsilon >= 0."""

_ROUNDED_UP = 1e-12
"""By this share every mass is larger than computed: more than the rounding of a sum over all dots."""
_FINEST = 24
"""Dots for each expected size of a loss, near 0."""
_REGULAR = 4
"""Dots are equally far apart up to so many expected sizes, and then ever further."""
_WIDENING = 1.06
_HIGHEST = 100.0
"""No dot lies above this loss; what is left there counts as an infinite loss."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Masses ``masses[i]`` at ``values[i]``, in rising order, and ``infinite`` where nothing is hidden. The sum may
    exceed 1 by what was rounded up."""

    values: Sequence[float]
    masses: Sequence[float]
    infinite: float

    def ever_infinite(self, rounds: int) -> float:
        """Bound on the mass of sums of ``rounds`` losses of which one is infinite."""
        # the other rounds' masses may add up to more than 1, as each is rounded up
        return rounds * self.infinite * max(1.0, math.fsum(self.masses) + self.infinite) ** rounds

    def log_moment(self, order: float) -> float:
        """``ln sum_i p_i e^(order l_i)``; minus infinity where every loss is infinite."""
        if not self.values:
            return -math.inf
        most = order * self.values[-1]
        terms = zip(self.values, self.masses, strict=True)
        return most + math.log(math.fsum(mass * math.exp(order * value - most) for value, mass in terms))

    def split(self, width: float) -> Loss:
        """The same on multiples of ``width``: a mass between two goes to both such that P and Q keep theirs, the share
        ``(1 - e^-(l - k width)) / (1 - e^-width)`` upwards. The curve then joins points of the old one."""
        masses: dict[int, float] = {}
        for value, mass in zip(self.values, self.masses, strict=True):
            place = math.floor(value / width)
            up = min(1.0, math.expm1(place * width - value) / math.expm1(-width))
            masses[place] = masses.get(place, 0.0) + (1 - up) * mass
            masses[place + 1] = masses.get(place + 1, 0.0) + up * mass
        places = sorted(place for place, mass in masses.items() if mass > 0)
        return Loss([place * width for place in places], [masses[place] for place in places], self.infinite)


def loss_of(forward: Curve, backward: Curve, negligible: float) -> Loss:
    """Return a loss that dominates P against Q.

    ``forward`` is the curve of P against Q, ``backward`` that of Q against P, whence ``H(e^-x) = 1 - e^-x + e^-x
    backward(x)``. A mass of ``negligible`` may count as infinite.
    """
    # of a Gaussian moved by little, total variation is 0.4 of the loss's standard deviation
    size = 2.5 * forward(0.0)
    above = _dots(forward, size, negligible)
    below = above if backward is forward else _dots(backward, size, negligible)
    values = [-at for at, _ in reversed(below[1:])] + [at for at, _ in above]
    heights = [-math.expm1(-at) + math.exp(-at) * height for at, height in reversed(below[1:])]
    heights += [height for _, height in above]
    return _join_points(values, heights)


def _dots(curve: Curve, size: float, negligible: float) -> list[tuple[float, float]]:
    """(epsilon, H) from 0 up to where H is negligible."""
    at, step = 0.0, max(size, 1e-12) / _FINEST
    dots = [(0.0, curve(0.0))]
    while dots[-1][1] > negligible and at < _HIGHEST:
        step *= 1 if at < _REGULAR * size else _WIDENING
        at += step
        # H does not rise; rounding must not make it
        dots.append((at, min(curve(at), dots[-1][1])))
    return dots


def _join_points(values: list[float], heights: list[float]) -> Loss:
    """The loss whose curve joins the dots; where they are not convex, it lies above them."""
    slope, masses = 0.0, [0.0] * len(values)
    for i in range(len(values) - 1, 0, -1):
        # e^values[i] - e^values[i - 1] without cancellation
        gap = math.exp(values[i]) * -math.expm1(values[i - 1] - values[i])
        steeper = max(slope, (heights[i - 1] - heights[i]) / gap)
        masses[i] = math.exp(values[i]) * (steeper - slope)
        slope = steeper
    masses[0] = max(0.0, 1 - heights[-1] - math.fsum(masses))
    up = 1 + _ROUNDED_UP
    kept = [(value, up * mass) for value, mass in zip(values, masses, strict=True) if mass > 0]
    return Loss([value for value, _ in kept], [mass for _, mass in kept], up * heights[-1])
