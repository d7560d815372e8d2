"""Coin flips on integer vectors of bounded length: a proved curve for every way to spread a step over coordinates.

Each coordinate carries independent noise ``Bin(N, 1/2)``; one device's value moves the sum by an integer vector v with
``V = sum v_i^2 <= squares``, ``max |v_i| <= largest`` and ``sum |v_i| <= sizes``. The exact sum over outcomes
(``tacit.dp.binomial_noise``) knows one or two coordinates; which split of the length over d coordinates is the worst
is not known, so this curve lies above all of them, little above that of the Gaussian of the same variance.

Proof. Let Q be the law of the centred noise z, P that of v + z; a reflection of a coordinate makes its ``v_i >= 0``,
and ``z -> v - z`` exchanges P and Q, so one direction is enough. With ``M = (N + 1)/2``, ``p(z - 1)/p(z) = (M + z -
1/2)/(M - z + 1/2)``, so the loss is ``L = ln P/Q = sum_i sum_(j < v_i) 2 artanh((z_i - j - 1/2)/M)``.

1. *Linear.* Let ``0 <= c < 1``, ``0 <= U < 1``, ``b = 1/(1 - c^2)`` and ``a = max(b c - artanh c, artanh U - b U)``. On
   (-1, 0] artanh is concave and below its tangent at -c, ``b u + b c - artanh c``; on [0, U] it is convex and below a
   line that is not below it at 0 and at U. So ``artanh u <= a + b u`` on (-1, U]. Let E be the event that ``z_i - v_i
   <= t`` wherever ``v_i > 0``. By Hoeffding it fails under P with probability at most ``k exp(-2 t^2/N)``, k the number
   of such i. On E, with ``U = (t + largest)/M < 1``, every argument is at most U, Q is not 0 where P is not, and ``L <=
   A = (b/M) (2 sum v_i z_i - V) + 2 a sizes``. Hence ``H(e^epsilon) <= P(not E) + E_Q (e^A - e^epsilon)_+``.
2. *Gaussian.* Bin(n, 1/2) - n/2 is smaller in convex order than N(0, y_n/4), where ``y_0 = 1``, ``y_(n+1) = y_n
   e^(1/y_n)``: one more coin of +-1/2 beside N(0, s^2) is smaller than N(0, s^2 e^(1/(4 s^2))), for the logarithm of
   the quotient of their densities at x is ``-w x^2 + ln cosh(x/(2 s^2))``, w > 0: concave in x^2, 0 at x = 0, without
   bound below. The difference of the densities thus changes sign at one |x| (S. Karlin, A. Novikoff, Generalized
   Convex Inequalities: the cut criterion). Convex order outlives scaling and sums of independent terms, and ``(e^A -
   e^epsilon)_+`` is convex in ``sum v_i z_i``, which may so be replaced by N(0, V y_N/4). ``y_n >= n + 1``, whence
   ``y_N <= 1 + N + sum_(j=1..N) (1/(2 j) + (e - 5/2)/j^2) <= N + ln(N)/2 + 2 =: y``.
3. *Closed form.* ``A`` is then normal with deviation ``tau = b sqrt(V y)/M`` and ``ln E e^A = gain = (b V/M) (b y/(2 M)
   - 1) + 2 a sizes``, so ``H(e^epsilon) <= k exp(-2 t^2/N) + e^gain G(epsilon - gain)``, where G is the curve of a
   Gaussian of deviation 1/tau and sensitivity 1. It grows with tau and gain, and both with V, as ``y >= N + 1 = 2 M``.

The curve needs no constants from the literature (compare N. Agarwal et al., cpSGD, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.binomial_noise import MAX_FLIPS, MAX_SCALE, NoiseShare
from tacit.dp.gaussian import delta_gaussian
from tacit.dp.noisy_length import EXCESS
from tacit.dp.solve import smallest_epsilon

_TAIL_SHARE = 0.01
"""Share of delta that pays for a coordinate's noise beyond t."""
_LARGEST_GAIN = 20.0
"""Nothing is hidden where the gain is larger, or tau is."""
_CAP = 60.0
_ROUNDING = 1e-11
"""What the gain is rounded up by."""


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


@dataclass(frozen=True, slots=True)
class VectorCurve:
    """``H(e^epsilon) <= tail + e^gain G(epsilon - gain)``: G the curve of a Gaussian that is moved by ``tau`` of its
    standard deviations; beyond ``most`` what holds there, as H falls. Made by ``vector_curve``."""

    tail: float
    gain: float
    tau: float
    most: float = math.inf

    def __call__(self, epsilon: float) -> float:
        """Bound on the hockey-stick divergence at ``epsilon``, 0 to 1."""
        if max(self.gain, self.tau) > _LARGEST_GAIN:
            return 1.0
        inner = min(epsilon, self.most) - self.gain
        curve = delta_gaussian(abs(inner), 1 / self.tau)
        if inner < 0:
            # H(e^-x) = 1 - e^-x + e^-x H(e^x), as the Gaussian's two directions are alike
            curve = -math.expm1(inner) + math.exp(inner) * curve
        return min(1.0, self.tail + math.exp(self.gain) * curve)


def vector_curve(total: int, step: VectorStep, scale: int, tail: float, lost: float = 0.0) -> VectorCurve:
    """The curve of ``total`` flips in each coordinate where one device moves the sum by ``scale`` times ``step``.
    ``tail``: what is left for noise beyond t, part of every value. ``lost``: how many of the devices' vectors are too
    long to be sent, in expectation at most; where there are such, as much again is left for them
    (``tacit.dp.noisy_length``). ``ValueError`` names a bad parameter."""
    parameters.probability(tail, "tail")
    parameters.reports(total, "total")
    if not 1 <= parameters.reports(scale, "scale") <= MAX_SCALE:
        raise ValueError(f"scale must be at most {MAX_SCALE}")
    if min(step.length, step.largest, step.squares) < 1:
        raise ValueError("a step needs at least one entry and must move it by at least 1")
    if not 0 <= lost < 0.5 * tail:
        return VectorCurve(tail, math.inf, math.inf)
    # up to ``most``, (1 + e^epsilon) lost is no more than tail; beyond, the curve stays at its value there
    most, paid = (math.log(tail / lost - 1), 2 * tail) if lost else (math.inf, tail)
    # The proof's names: width is M, beyond t, reach U, touching c (any below 1 will do), slope b, offset a, and 1 +
    # excess is y / (2 M). No more of the v_i are above 0 than their squares add up to.
    width, moved = 0.5 * (total + 1), step.scaled(scale)
    beyond = math.sqrt(0.5 * total * math.log(min(step.length, step.squares) / tail))
    reach = (beyond + moved.largest) / width
    if reach >= 1:
        return VectorCurve(paid, math.inf, math.inf)
    touching = 0.5 * reach
    steeper = touching**2 / (1 - touching**2)
    slope, excess = 1 + steeper, (0.5 * math.log(total) + 1) / (total + 1)
    offset = max(slope * touching - math.atanh(touching), math.atanh(reach) - slope * reach)
    # b y / (2 M) - 1 without the subtraction: b - 1 is steeper, and both are small
    gain = slope * moved.squares / width * (steeper + slope * excess) + 2 * offset * step.sizes(scale)
    tau = slope * math.sqrt(moved.squares * 2 * (1 + excess) / width)
    return VectorCurve(paid, gain + _ROUNDING, tau, most)


@lru_cache(maxsize=256)
def epsilon_vector_noise(total: int, step: VectorStep, scale: int, delta: float, lost: float = 0.0) -> float:
    """An epsilon that ``total`` flips in each coordinate give at ``delta`` where one device moves the sum by ``scale``
    times ``step``; ``lost`` as for ``vector_curve``. Infinite where the noise is too small for the bound.
    ``ValueError`` names a bad parameter."""
    parameters.failure_probability(delta)
    smallest = smallest_epsilon(vector_curve(total, step, scale, _TAIL_SHARE * delta, lost), delta, _CAP)
    return math.inf if smallest >= _CAP else smallest


def vector_share(epsilon: float, delta: float, honest: int, step: VectorStep) -> NoiseShare:
    """Return the share with which ``honest`` devices together give (epsilon, delta) to a vector sum.

    Takes the least noise among the shares of up to twice the fewest flips, of which there is an even number, so that
    their middle is a whole number. What vectors that are too long to be sent cost is left for them, so that the share
    is the same whether the length is proved or not. ``ValueError`` where no share of bounded size is enough.
    """
    parameters.reports(honest, "honest")
    if parameters.epsilon("epsilon", epsilon) == 0:
        raise ValueError("epsilon must be above 0")

    def holds(scale: int, flips: int) -> bool:
        total = honest * flips
        curve = vector_curve(total, step, scale, _TAIL_SHARE * delta, honest * EXCESS)
        return total <= parameters.MAX_N and curve(epsilon) <= delta

    fewest = next((1 << k for k in range(1, MAX_FLIPS.bit_length()) if holds(1, 1 << k)), None)
    if fewest is None:
        raise ValueError("no share of bounded size gives this epsilon and delta; more devices must contribute")
    low, high = fewest // 2, fewest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(1, middle) else (middle, high)
    shares = [_finest(flips, holds) for flips in range(high + high % 2, min(2 * high, high + 64, MAX_FLIPS) + 1, 2)]
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
