"""What a visible number of messages reveals, and how many dummies hide it (SA2 section 4.6, corrected).

One device sends or does not: the analyst compares ``K`` with ``1 + K`` messages, K ~ Poisson(lambda) dummies. The
paper's rate ``1 / (epsilon k)`` per device (lambda = 1/epsilon) leaves no dummy at all with probability e^-lambda and
fails badly. The Poisson bound is safe for the binomial number of dummies that k devices really draw.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.solve import smallest_epsilon

MAX_INTENSITY = 1e9
_ROUNDING = 1e-12


def log_pmf(k: int, intensity: float) -> float:
    """ln Pr[Poisson(intensity) = k], k >= 0 and intensity > 0."""
    return k * math.log(intensity) - intensity - math.lgamma(k + 1)


def lower_tail(k: int, intensity: float) -> float:
    """Pr[Poisson(intensity) <= k] for k below the mean, by summation downwards."""
    if k < 0:
        return 0.0
    total, term = 0.0, math.exp(log_pmf(k, intensity))
    while k >= 0 and term > total * 1e-18:
        total += term
        term *= k / intensity
        k -= 1
    return total


def upper_tail(k: int, intensity: float) -> float:
    """Pr[Poisson(intensity) >= k] for k above the mean, by summation upwards."""
    if k <= 0:
        return 1.0
    total, term = 0.0, math.exp(log_pmf(k, intensity))
    while term > total * 1e-18 and term > 0:
        total += term
        k += 1
        term *= intensity / k
    return total


def upper_quantile(intensity: float, probability: float) -> int:
    """The smallest k with Pr[Poisson(intensity) > k] <= probability (P20: how many of a batch may be dummies)."""
    _intensity(intensity)
    parameters.probability(probability, "probability")
    low, high = math.ceil(intensity), math.ceil(intensity + 10)
    while upper_tail(high + 1, intensity) > probability:
        high = 2 * high
    while low < high:
        middle = (low + high) // 2
        if upper_tail(middle + 1, intensity) > probability:
            low = middle + 1
        else:
            high = middle
    return low


def delta_shift(epsilon: float, intensity: float) -> float:
    """The larger hockey stick of {Poisson(intensity), 1 + Poisson(intensity)}. ``ValueError`` names a bad parameter."""
    parameters.epsilon("epsilon", epsilon)
    _intensity(intensity)
    growth = math.exp(epsilon)
    # Pr[K = k] / Pr[1 + K = k] = intensity / k is above e^epsilon up to ``top``, below e^-epsilon from ``above`` on
    top = math.ceil(intensity / growth) - 1
    fewer = lower_tail(top, intensity)
    first = fewer - growth * lower_tail(top - 1, intensity)
    above = math.floor(intensity * growth) + 1
    # summed away from the mean, where the terms fall
    more = upper_tail(above - 1, intensity) if above - 1 > intensity else 1 - lower_tail(above - 2, intensity)
    second = more - growth * upper_tail(above, intensity)
    return min(1.0, max(first + _ROUNDING * fewer, second + _ROUNDING * more, 0.0))


def epsilon_shift(intensity: float, delta: float) -> float:
    """The smallest epsilon with ``delta_shift <= delta``; infinite where no epsilon will do."""
    parameters.failure_probability(delta)
    cap = 60.0
    smallest = smallest_epsilon(lambda epsilon: delta_shift(epsilon, intensity), delta, cap)
    return math.inf if smallest >= cap else smallest


@lru_cache(maxsize=64)
def dummy_intensity(epsilon: float, delta: float) -> float:
    """Return the smallest expected number of dummies with ``delta_shift(epsilon) <= delta``, rounded up by 1e-7 of it.

    More dummies never reveal more (a sum of independent Poisson counts is Poisson), so bisection down from the
    sufficient ``2 ln(1/delta) / (1 - (1 + epsilon) e^-epsilon)`` finds it. Raises ``ValueError`` where that is above
    1e9.
    """
    parameters.failure_probability(delta)
    if parameters.epsilon("epsilon", epsilon) == 0:
        raise ValueError("epsilon must be above 0")
    # half of the first term is where Chernoff's bound of the lower tail is delta; the upper tail falls faster
    high = -2 * math.log(delta) / (-math.expm1(-epsilon) - epsilon * math.exp(-epsilon)) + 10
    if high > MAX_INTENSITY:
        raise ValueError(f"epsilon is too small: more than {MAX_INTENSITY:g} dummies would be needed")
    low = 0.0
    while high - low > 1e-7 * high:
        middle = 0.5 * (low + high)
        if delta_shift(epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _intensity(value: float) -> float:
    number = parameters.finite("intensity", value)
    if not 0 < number <= MAX_INTENSITY:
        raise ValueError(f"intensity must be above 0 and at most {MAX_INTENSITY:g}")
    return number
