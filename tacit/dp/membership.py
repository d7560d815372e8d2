"""What the number of messages tells about whether one device is of the audience (SA2 5.5).

A device of the audience sends with probability s, or with s0 where it has the default answer of importance sampling;
one outside sends nothing. Aggregators compare ``Ber(s) + S`` with ``S``, the messages of the other X - 1 devices, of
which any number may be at either rate: the worst composition counts, as in ``tacit.dp.unfilled``. A member of rate s0
is a mixture of one of rate s and of a device outside, so that it tells no more (hockey sticks are jointly convex). With
one rate for all, delta = 1e-6 and X from 10,000 to 100,000 this is at most ``3.5 sqrt(q / ((1 - q) X))``; where nearly
everybody has the default answer it is about ``3.6 s / sqrt(s0 (1 - s0) X)``, which is more.
"""

from __future__ import annotations

import math

from tacit.dp import parameters
from tacit.dp.hidden_count import MAX_COUNT_EPSILON, SendingRates
from tacit.dp.unfilled import among_others

SPLITS = 256
"""Number of halvings; enough for the exact value where the worst composition is nearly everybody at one rate."""


def membership_epsilon(audience: int, rates: SendingRates, delta: float) -> float:
    """epsilon at ``delta`` for the number of messages of an audience of at least ``audience`` devices, when one device
    joins or leaves it. Infinite above 10, and where some device is sure to send. ``ValueError`` names a bad parameter.
    """
    parameters.reports(audience, "audience")
    parameters.failure_probability(delta)
    if rates.sends >= 1:
        return math.inf
    both = (rates.sends, rates.least_sends)
    smallest = among_others((rates.sends, 0.0), both, audience - 1, delta, MAX_COUNT_EPSILON, splits=SPLITS)
    return smallest if smallest < MAX_COUNT_EPSILON else math.inf
