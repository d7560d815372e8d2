"""Draws from a conditioned distribution without rejection: the work depends on the parameters alone.

A vector of independent bits, each one with probability p, given that at most ``most`` of them are one, is drawn in two
steps. Its weight j has probability ``C(trials, j) p^j (1-p)^(trials-j) / Pr[Bin(trials, p) <= most]``, and given the
weight every set of j places is equally likely. Each step compares a uniform 192-bit number with exact thresholds that
are rounded down, so that the distribution drawn differs from the exact one by less than 2^-170 in total variation (for
up to 2^20 trials): less than the rounding of the thresholds of single bits.
"""

from __future__ import annotations

import bisect
from functools import lru_cache

from tacit.methods.base.draws import ONE
from tacit.ports import Entropy

DRAW_BITS = 192
DRAW_BYTES = DRAW_BITS // 8
_KEPT_BITS = 512
"""Terms are kept to as many binary digits, in units of the first one."""


def bounded_bits(trials: int, keep: int, most: int, entropy: Entropy) -> list[int]:
    """``trials`` bits, each one with probability ``1 - keep / 2^128``, given that at most ``most`` are one. Takes
    ``most + 1`` draws of ``DRAW_BYTES`` bytes, whatever comes out; 0 < ``keep`` < 2^128, 0 <= ``most`` <= ``trials``.
    """
    stream = entropy(DRAW_BYTES * (most + 1))
    drawn = [int.from_bytes(stream[at : at + DRAW_BYTES], "big") for at in range(0, len(stream), DRAW_BYTES)]
    weight = bisect.bisect_right(weight_thresholds(trials, keep, most), drawn[0])
    moved: dict[int, int] = {}  # of a permutation of all places, those that are not in their own
    places = []
    for at, number in enumerate(drawn[1:]):
        chosen = at + (number * (trials - at) >> DRAW_BITS)
        places.append(moved.get(chosen, chosen))
        moved[chosen] = moved.get(at, at)
    bits = [0] * trials
    for place in places[:weight]:
        bits[place] = 1
    return bits


@lru_cache(maxsize=32)
def weight_thresholds(trials: int, keep: int, most: int) -> tuple[int, ...]:
    """For each weight j below ``most``: the probability of at most j, given at most ``most``, in units of 2^-192."""
    term, ratio = 1 << _KEPT_BITS, ONE - keep
    sums = [term]
    for weight in range(most):
        term = term * ((trials - weight) * ratio) // ((weight + 1) * keep)
        sums.append(sums[-1] + term)
    total = sums[-1]
    return tuple((one << DRAW_BITS) // total for one in sums[:-1])
