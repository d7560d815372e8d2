"""Coin flips on integer vectors of bounded length: a proved bound for every way to spread a step over coordinates.

Each coordinate carries independent noise ``Bin(N, 1/2)``; one device's value moves the sum by an integer vector v with
``sum v_i^2 <= squares``, ``max |v_i| <= largest`` and ``sum |v_i| <= sizes``. The exact sum over outcomes
(``tacit.dp.binomial_noise``) knows one or two coordinates; which split of the length over d coordinates is the worst
is not known, so this bound holds for all of them at once.

Proof. Let x be the centred noise of a coordinate and ``M = (N + 1)/2``. From ``p(x)/p(x-1) = (M - x + 1/2)/(M + x -
1/2)`` the privacy loss of a step v > 0 is ``L_v(x) = ln p(x)/p(x-v) = -2 sum_{j<v} artanh((x - j - 1/2)/M)``. Write
``artanh(u) = u + r(u)``, r odd and increasing: where ``|x| <= t``, and ``T = t + largest < M``,

    ``L_v(x) <= (v^2 - 2 v x)/M + 2 v r(T/M)``.

By Hoeffding ``|x| <= t`` fails in one of d coordinates with probability at most ``2 d exp(-2 t^2/N)``. The moment
``E e^{-2 a v x/M} = cosh(a v/M)^N <= exp(a^2 v^2/M)`` since ``N/(2 M^2) <= 1/M``. So for every order a > 0, on the
event that all coordinates are within t,

    ``ln E e^{a L} <= a (1 + a) squares/M + 2 a sizes r(T/M)``,

whatever the split. With ``max_u (1 - e^{-u}) e^{-a u} = (1/(a+1)) (a/(a+1))^a`` that gives delta(epsilon), as it does
for Renyi divergences (papers/sa2, Theorem 1, the same conversion). Both orders of the neighbours
are alike, for the reflection ``x -> v - x`` swaps them. The bound needs no constants from the literature (compare
N. Agarwal et al., cpSGD, Theorem 1) and lies some percent above the Gaussian of the same variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.binomial_noise import MAX_FLIPS, MAX_SCALE, NoiseShare

_TAIL_SHARE = 0.01
"""Share of delta that pays for a coordinate's noise beyond t."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class VectorStep:
    """How far one device moves the sum: by an integer vector of ``length`` entries, each at most ``largest``, whose
    squares add up to at most ``squares``."""

    length: int
    largest: int
    squares: int

    @classmethod
    def replaced(cls, length: int, maximum: int, norm: int, *, one_signed: bool) -> VectorStep:
        """From one vector of length up to ``norm``, entries at most ``maximum`` apart, to any other: at most twice that
        radius, or the square root of two times it where all entries have one sign."""
        squares = min(length * maximum**2, (2 if one_signed else 4) * norm**2)
        return cls(length, min(maximum, 2 * norm), squares)

    @classmethod
    def deleted(cls, length: int, maximum: int, norm: int) -> VectorStep:
        """From such a vector to the zero vector."""
        return cls(length, min(maximum, norm), min(length * maximum**2, norm**2))

    def scaled(self, scale: int) -> VectorStep:
        """The same after multiplication by ``scale``."""
        return VectorStep(self.length, scale * self.largest, scale * scale * self.squares)

    def sizes(self, scale: int) -> float:
        """Bound on the sum of the entries' sizes after multiplication by ``scale``: the least of the Cauchy-Schwarz
        bound, the bound by the largest entry, and the sum of squares (an integer's size is at most its square)."""
        reach = math.sqrt(self.length * self.squares)
        return scale * min(reach, float(self.length * self.largest), float(self.squares))


@lru_cache(maxsize=256)
def epsilon_vector_noise(total: int, step: VectorStep, scale: int, delta: float) -> float:
    """An epsilon that ``total`` flips in each coordinate give at ``delta`` where one device moves the sum by ``scale``
    times ``step``. Infinite where the noise is too small for the bound. ``ValueError`` names a bad parameter."""
    parameters.failure_probability(delta)
    parameters.reports(total, "total")
    if not 1 <= parameters.reports(scale, "scale") <= MAX_SCALE:
        raise ValueError(f"scale must be at most {MAX_SCALE}")
    if min(step.length, step.largest, step.squares) < 1:
        raise ValueError("a step needs at least one entry and must move it by at least 1")
    moved = step.scaled(scale)
    width = 0.5 * (total + 1)
    cut = math.sqrt(total * math.log(2 * step.length / (_TAIL_SHARE * delta)) / 2)
    reach = (cut + moved.largest) / width
    if reach >= 1:
        return math.inf
    rest = 2 * step.sizes(scale) * (math.atanh(reach) - reach)
    return _least(moved.squares / width, rest, (1 - _TAIL_SHARE) * delta)


def _least(curvature: float, rest: float, delta: float) -> float:
    """The smallest epsilon over all orders; the epsilon of every order is a valid bound."""

    def epsilon(log_order: float) -> float:
        order = math.exp(log_order)
        gain = order * math.log(order / (order + 1)) - math.log(order + 1) - math.log(delta)
        return (1 + order) * curvature + rest + gain / order

    low, high = -5.0, 15.0
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if epsilon(left) <= epsilon(right):
            high = right
        else:
            low = left
    return max(0.0, epsilon(0.5 * (low + high)))


def vector_share(epsilon: float, delta: float, honest: int, step: VectorStep) -> NoiseShare:
    """Return the share with which ``honest`` devices together give (epsilon, delta) to a vector sum.

    Takes the least noise among the shares of up to twice the fewest flips. ``ValueError`` where no share of bounded
    size is enough.
    """
    parameters.reports(honest, "honest")
    if parameters.epsilon("epsilon", epsilon) == 0:
        raise ValueError("epsilon must be above 0")

    def holds(scale: int, flips: int) -> bool:
        total = honest * flips
        return total <= parameters.MAX_N and epsilon_vector_noise(total, step, scale, delta) <= epsilon

    fewest = next((1 << k for k in range(MAX_FLIPS.bit_length()) if holds(1, 1 << k)), None)
    if fewest is None:
        raise ValueError("no share of bounded size gives this epsilon and delta; more devices must contribute")
    low, high = fewest // 2, fewest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(1, middle) else (middle, high)
    shares = [_finest(flips, holds) for flips in range(high, min(2 * high, high + 64, MAX_FLIPS) + 1)]
    usable = [share for share in shares if share is not None]
    return min(usable, key=lambda share: (share.flips / share.scale**2, share.flips))


def _finest(flips: int, holds: Callable[[int, int], bool]) -> NoiseShare | None:
    """Return the share with the finest scale that ``flips`` still hide; None where there is none."""
    if not holds(1, flips):
        return None
    low, high = 1, 2
    while high <= MAX_SCALE and holds(high, flips):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle, flips) else (low, middle)
    return NoiseShare(low, flips)
