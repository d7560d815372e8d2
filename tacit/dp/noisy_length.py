"""How long a vector with its device's noise is at most, and what it costs that longer ones are not sent (P41).

A device sends ``y = scale x + z``: x an integer vector of length ``reach / scale`` at most, z independent centred noise
``Bin(flips, 1/2) - flips/2`` in each of d entries. What its proof covers is y, so that a dishonest device cannot choose
a longer one. Where an honest y is longer than the proof allows, the device sends 0 in its place, without noise. It
draws once and always does the same work; that it was so is seen by nobody and happens with a chance below ``EXCESS``.

The bound. ``z_i`` is sub-Gaussian, ``E e^(t z_i) = cosh(t/2)^flips <= e^(t^2 s/2)`` with ``s = flips/4``. With a
standard normal g, ``e^(l y^2) = E_g e^(sqrt(2 l) g y)``; taking the expectation over z first gives for ``2 l s < 1``

    E e^(l |a + z|^2) <= (1 - 2 l s)^(-d/2) e^(l |a|^2 / (1 - 2 l s)),

which grows with ``|a|``: that of the non-central chi-squared law, were z normal. So its tail bound holds (L. Birge, An
alternative point of view on Lepski's method, 2001, Lemma 8.1): for every a of length up to A

    Pr[|a + z|^2 >= d s + A^2 + 2 sqrt(c s (d s + 2 A^2)) + 2 c s] <= e^-c.

``longest_square`` is this in whole numbers, rounded up, so that all parties compute the same one. It holds whatever x
is, and no distribution of data is assumed.

The cost. Let P be the law of the sum of n devices' y, one of which holds x, Q the same where it holds x', and P', Q'
what is sent. Each device's y differs from what it sends with a chance of at most eta, so P' and P, and Q' and Q, are
within ``n eta`` of each other in total variation, and for every event S

    P'(S) <= P(S) + n eta <= e^e Q(S) + H + n eta <= e^e Q'(S) + H + (1 + e^e) n eta,    H = H_(e^e)(P, Q).

Reports beyond those n have one law, whichever of the two the device holds, and only add to both: n is that of the
claim. ``tacit.dp.vector_noise`` pays this in its curve, at every e up to the one from which it would cost more; as H
falls with e, its value there holds for all larger ones. Sampling and rounds come after, and treat it as any curve.
"""

from __future__ import annotations

import math
from typing import Final

NATS: Final = 52
"""How unlikely it is that an honest vector is too long: e^-52 at most, below 2^-75."""
EXCESS: Final = math.exp(-NATS)
"""Bound on the chance that a device's vector is too long to be sent."""


def longest_square(length: int, reach: int, flips: int, nats: int = NATS) -> int:
    """The squared length, in units of the noise, that an honest vector of ``length`` entries exceeds with a chance of
    at most ``e^-nats``: of values whose squares add up to at most ``reach^2``, with ``flips`` centred flips in each."""
    # Four times the bound, with s = flips/4: 8 sqrt(c s (d s + 2 A^2)) is 2 sqrt(root). It is rounded up, the quotient
    # down: flips are even, so that squares are whole numbers, and one more than the quotient is above the bound.
    spread = length * flips
    root = nats * flips * (spread + 8 * reach * reach)
    above = math.isqrt(root - 1) + 1 if root else 0
    return (spread + 4 * reach * reach + 2 * nats * flips + 2 * above) // 4
