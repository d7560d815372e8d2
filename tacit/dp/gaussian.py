"""The Gaussian mechanism, exactly: one release, and one Poisson-subsampled release.

``delta(epsilon) = Phi(s / (2 sigma) - epsilon sigma / s) - e^epsilon Phi(-s / (2 sigma) - epsilon sigma / s)`` for
noise of standard deviation sigma and L2 sensitivity s (B. Balle, Y.-X. Wang, Improving the Gaussian Mechanism for
Differential Privacy, Theorem 8). The relation is the sensitivity's: 1 for add/remove of a unit vector, 2 for its
replacement. m releases cost what one with ``sigma / sqrt(m)`` costs.

``classical_sigma`` is the textbook formula; it is loose and kept to compare with published figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.solve import smallest_epsilon

MAX_SIGMA = 1e9
_ROUNDING = 1e-12
"""Allowance for floating point, relative to the two terms whose difference is delta."""
_FAR = -30.0


def cdf(x: float) -> float:
    """Phi(x), to full relative precision in the lower tail."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def log_cdf(x: float) -> float:
    """ln Phi(x), also where Phi(x) is below the smallest double."""
    if x > _FAR:
        return math.log(cdf(x))
    square = x * x
    # The next term, 105 / x^8, is above 0: what is left out makes Phi smaller, by 2e-10 of it at most, and so delta,
    # from which it is subtracted, larger.
    series = -1 / square + 3 / square**2 - 15 / square**3
    return -0.5 * square - math.log(-x) - 0.5 * math.log(2 * math.pi) + math.log1p(series)


def classical_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """``sensitivity sqrt(2 ln(1.25 / delta)) / epsilon``, proved for epsilon <= 1 only."""
    parameters.failure_probability(delta)
    return _positive("sensitivity", sensitivity) * math.sqrt(2 * math.log(1.25 / delta)) / _positive("epsilon", epsilon)


def delta_gaussian(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """delta(epsilon) of one release. ``ValueError`` names a bad parameter."""
    parameters.epsilon("epsilon", epsilon)
    ratio = _positive("sensitivity", sensitivity) / _positive("sigma", sigma)
    first = cdf(ratio / 2 - epsilon / ratio)
    # one exponential: e^epsilon alone may overflow where Phi underflows
    second = math.exp(epsilon + log_cdf(-ratio / 2 - epsilon / ratio))
    return min(1.0, max(0.0, first - second) + _ROUNDING * first)


@lru_cache(maxsize=256)
def epsilon_gaussian(sigma: float, delta: float, sensitivity: float = 1.0, releases: int = 1) -> float:
    """The smallest epsilon with ``delta_gaussian <= delta`` for ``releases`` of them; infinite above 1e6."""
    parameters.failure_probability(delta)
    parameters.reports(releases, "releases")
    each = _positive("sigma", sigma) / math.sqrt(releases)
    return _within(smallest_epsilon(lambda epsilon: delta_gaussian(epsilon, each, sensitivity), delta, 1e6), 1e6)


def sigma_gaussian(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest sigma with ``delta_gaussian(epsilon) <= delta``, rounded up by at most 1e-9 of it."""
    parameters.failure_probability(delta)
    _positive("epsilon", epsilon)
    return _smallest_sigma(lambda sigma: delta_gaussian(epsilon, sigma, sensitivity) <= delta)


def delta_subsampled(epsilon: float, sigma: float, sampling_rate: float) -> float:
    """delta(epsilon) of one Poisson-subsampled release of sensitivity 1, add/remove: the larger of both directions."""
    parameters.epsilon("epsilon", epsilon)
    q = parameters.rate(sampling_rate)
    if q == 1:
        return delta_gaussian(epsilon, sigma)
    _positive("sigma", sigma)
    remove = q * delta_gaussian(math.log1p(math.expm1(epsilon) / q), sigma)
    # Without the device against with it: the ratio of densities exceeds e^epsilon where e^((x - 1/2) / sigma^2) < odds,
    # so below x = sigma at, and nowhere unless odds > 0.
    odds = (math.exp(-epsilon) - (1 - q)) / q
    if odds <= 0:
        return remove
    at = sigma * math.log(odds) + 0.5 / sigma
    within = cdf(at)
    add = within - math.exp(epsilon) * ((1 - q) * within + q * cdf(at - 1 / sigma))
    return min(1.0, max(remove, add + _ROUNDING * within))


def sigma_subsampled(epsilon: float, delta: float, sampling_rate: float) -> float:
    """The smallest sigma with ``delta_subsampled(epsilon) <= delta``, rounded up by at most 1e-9 of it."""
    parameters.failure_probability(delta)
    _positive("epsilon", epsilon)
    return _smallest_sigma(lambda sigma: delta_subsampled(epsilon, sigma, sampling_rate) <= delta)


def _smallest_sigma(holds: Callable[[float], bool]) -> float:
    low, high = 1e-3, MAX_SIGMA
    if not holds(high):
        raise ValueError(f"no sigma up to {MAX_SIGMA:g} gives this epsilon and delta")
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _within(epsilon: float, cap: float) -> float:
    return math.inf if epsilon >= cap else epsilon


def _positive(name: str, value: float) -> float:
    number = parameters.finite(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above 0")
    return number
