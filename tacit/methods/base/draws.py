"""Exact draws from uniform bytes.

A probability p is an integer threshold t out of 2^128: the event happens when a uniform 128-bit integer is
below t. Thresholds come from 60-digit decimals and are rounded so that the likelihood ratio of any output
never exceeds e^epsilon0: towards more noise, by at most 2^-126 in probability (design bound: 2^-64).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext

from tacit.ports import Entropy
from tacit.uniform import uniform_below

BITS = 128
BYTES = BITS // 8
ONE = 1 << BITS
MIN_EPSILON0 = Decimal("0.000001")
MAX_EPSILON0 = Decimal(40)
_DIGITS = 60
_RANGE = 1 << 64
_BLOCK = 1 << 12
"""Most words of 64 bits that are drawn at once."""


def epsilon0_from(value: Decimal | float | str) -> Decimal:
    """Parse a local epsilon as an exact decimal (a float by its shortest form). ``ValueError`` outside [1e-6, 40]."""
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation as error:
        raise ValueError("epsilon0 must be a decimal number") from error
    if not number.is_finite() or not MIN_EPSILON0 <= number <= MAX_EPSILON0:
        raise ValueError(f"epsilon0 must be from {MIN_EPSILON0} to {MAX_EPSILON0}")
    return number


def keep_threshold(epsilon: Decimal, others: int) -> int:
    """Threshold of the probability ``e^epsilon / (e^epsilon + others)``, rounded down.

    Rounding down makes the likely output less likely and so errs towards noise.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        power = epsilon.exp()
        exact = Decimal(ONE) * power / (power + others)
        return int(exact.to_integral_value(rounding=ROUND_FLOOR)) - 1


def bernoulli(threshold: int, entropy: Entropy) -> bool:
    """True with probability ``threshold / 2^128`` exactly."""
    return int.from_bytes(entropy(BYTES), "big") < threshold


def fair_flips(flips: int, entropy: Entropy) -> int:
    """Bin(flips, 1/2) exactly: the ones among ``flips`` random bits; the work depends on ``flips`` alone."""
    if flips < 0:
        raise ValueError("flips must not be negative")
    size = (flips + 7) // 8
    return (int.from_bytes(entropy(size), "big") & ((1 << flips) - 1)).bit_count() if size else 0


def discrete_laplace(numerator: int, denominator: int, entropy: Entropy) -> int:
    """Draw two-sided geometric noise of scale t = ``numerator / denominator`` exactly: ``Pr[x]`` is proportional to
    ``e^(-|x| / t)`` (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithm 2).
    The numerator is from 1 to 2^64; about five exact draws are needed, whatever the scale."""
    while True:
        low = uniform_below(numerator, entropy)
        if not _exp_coin(low, numerator, entropy):
            continue
        high = 0
        while _exp_coin(1, 1, entropy):
            high += 1
        size, negative = (low + numerator * high) // denominator, uniform_below(2, entropy)
        if size or not negative:
            return -size if negative else size


def _exp_coin(numerator: int, denominator: int, entropy: Entropy) -> bool:
    """True with probability ``e^(-numerator / denominator)`` exactly, for a fraction from 0 to 1; uses its power
    series. The two draws of a term are apart, since their product may exceed 2^64."""
    term = 1
    while uniform_below(denominator, entropy) < numerator and uniform_below(term, entropy) == 0:
        term += 1
    return term % 2 == 1


def hex_threshold(threshold: int, size: int = BYTES) -> str:
    """A threshold as ``size`` bytes in lower-case hex, highest first, as recipes and vectors state it."""
    return f"{threshold:0{2 * size}x}"


def permutation(size: int, entropy: Entropy) -> array[int]:
    """The numbers from 0 to ``size - 1`` in an order of which every one is equally likely: Fisher-Yates, on words of 64
    random bits that are drawn in blocks. Takes 4 bytes for each number. ``ValueError`` for more than 2^32 numbers."""
    if size > 1 << 32:
        raise ValueError("at most 2^32 numbers can be permuted")
    order, words = array("I", range(size)), _words(entropy, size - 1)
    for at in range(size - 1, 0, -1):
        bound = at + 1
        # Uniform below the bound: 0 ... 2^64 - 1 is cut into blocks of ``bound`` numbers from 0 on, and a word counts
        # by its place in its block. One in the last block, if that is not whole, is drawn again, so that all places
        # have equally many words; this has a chance below 2^-32.
        place = (word := next(words)) % bound
        while word - place > _RANGE - bound:
            place = (word := next(words)) % bound
        order[at], order[place] = order[place], order[at]
    return order


def _words(entropy: Entropy, least: int) -> Iterator[int]:
    """Random words of 64 bits without end, of which at least ``least`` are wanted."""
    while True:
        block = array("Q", entropy(8 * min(max(least, 1), _BLOCK)))
        yield from block
        least -= len(block)
