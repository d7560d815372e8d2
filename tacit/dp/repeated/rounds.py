"""Curves of one sampled round, and the epsilon of many.

Let ``base(epsilon)`` bound the hockey stick of a round's mechanism between any two of its laws (who takes part with x,
with x', or another device in its place). A device in the round with chance r makes of it ``H(e^x) <= r base(epsilon)``
for ``e^x = 1 + r (e^epsilon - 1)`` (B. Balle, G. Barthe, M. Gaboardi, Privacy Amplification by Subsampling, Theorems 8
to 11): by removal of a report, by its addition, and by replacement given the size of the sample. By replacement what
another device holds may be like either neighbour, in each round anew, so the same curve stands on both sides, and the
smaller step to a value of 0 is of no use: the other device may hold the far end. By
add/remove of a Gaussian both exact curves are composed, and the larger epsilon is the answer.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.dp import parameters
from tacit.dp.composition import MAX_FOLD
from tacit.dp.donation import DEVIATION_SHARE
from tacit.dp.gaussian import cdf, delta_gaussian
from tacit.dp.repeated.convolve import epsilon_of
from tacit.dp.repeated.losses import Curve, loss_of
from tacit.dp.sampling import seen_rate

_NEGLIGIBLE = 1e-4
"""Share of delta that may pay for losses that count as infinite."""
_ROUNDING = 1e-12
_FEW = 0.5
"""Below this rate the bound without sampling is not computed: it is the larger one, and holds all the same."""


def epsilon_repeated(forward: Curve, backward: Curve, rounds: int, delta: float) -> float:
    """An epsilon at ``delta`` of ``rounds`` rounds for P against Q, each with the curves ``forward`` of P against Q and
    ``backward`` of Q against P; infinite where there is none. ``ValueError`` names a bad parameter."""
    parameters.failure_probability(delta)
    if parameters.reports(rounds, "rounds") > MAX_FOLD:
        raise ValueError(f"rounds must be at most {MAX_FOLD}")
    return epsilon_of(loss_of(forward, backward, _NEGLIGIBLE * delta / rounds), rounds, delta)


def epsilon_sampled_rounds(base: Curve, rate: float, rounds: int, delta: float) -> float:
    """An epsilon at ``delta`` of ``rounds`` rounds by replacement. In each a device is in the sample with chance
    ``rate`` at most, given the sample's size; 1: it is known that the device takes part. ``base`` as above."""
    curve = sample_curve(base, rate)
    return epsilon_repeated(curve, curve, rounds, delta)


def epsilon_visible_rounds(base: Curve, rate: float, n: int, rounds: int, delta: float) -> float:
    """The same where every device tosses a coin of ``rate`` in each round, and rounds release batches of n or more,
    whose sizes are seen: with the least rate that holds in each round (``tacit.dp.sampling.seen_rate``), for which 5 %
    of delta is kept, or without sampling where there is none."""
    effective, left = seen_rate(rate, n, DEVIATION_SHARE * delta / rounds), (1 - DEVIATION_SHARE) * delta
    if effective is None or left < parameters.MIN_DELTA:
        return epsilon_sampled_rounds(base, 1.0, rounds, delta)
    seen = epsilon_sampled_rounds(base, effective, rounds, left)
    # both hold: near a rate of 1 the bound without sampling may be smaller, as it keeps none of delta for the sizes
    return seen if effective < _FEW else min(seen, epsilon_sampled_rounds(base, 1.0, rounds, delta))


def sample_curve(base: Curve, rate: float) -> Curve:
    """The curve ``H(1 + r (e^epsilon - 1)) = r base(epsilon)``."""
    r = parameters.rate(rate)
    return base if r == 1 else lambda epsilon: r * base(math.log1p(math.expm1(epsilon) / r))


@lru_cache(maxsize=16)
def epsilon_sampled_gaussian(sigma: float, rate: float, rounds: int, delta: float) -> float:
    """An epsilon at ``delta`` of ``rounds`` Poisson-sampled Gaussian rounds of contributions of norm up to 1, by
    add/remove, where nobody sees the sizes of the samples (SA2 paper, Example 5)."""
    removed = sample_curve(lambda epsilon: delta_gaussian(epsilon, sigma), rate)
    if rate == 1:
        return epsilon_repeated(removed, removed, rounds, delta)

    def added(epsilon: float) -> float:
        # as in `gaussian.delta_subsampled`
        odds = (math.exp(-epsilon) - (1 - rate)) / rate
        if odds <= 0:
            return 0.0
        at = sigma * math.log(odds) + 0.5 / sigma
        within = cdf(at)
        mixed = math.exp(epsilon) * ((1 - rate) * within + rate * cdf(at - 1 / sigma))
        return max(0.0, within - mixed) + _ROUNDING * within

    return max(epsilon_repeated(removed, added, rounds, delta), epsilon_repeated(added, removed, rounds, delta))
