"""The device's own coin: 128 bits of randomness against a threshold."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from tacit.ports import Entropy

COIN_BITS = 128


def coin_threshold(rate: Decimal | Fraction) -> int:
    """The threshold for ``rate``: the coin says yes to a uniform 128-bit number below it. ``rate`` is rounded down to a
    multiple of 2^-128."""
    numerator, denominator = rate.as_integer_ratio()
    return (numerator << COIN_BITS) // denominator


def coin(rate: Decimal | Fraction, entropy: Entropy) -> bool:
    """True with probability ``rate``, rounded down to a multiple of 2^-128."""
    return int.from_bytes(entropy(COIN_BITS // 8), "big") < coin_threshold(rate)
