"""Randomizers with several messages that show where Claim 4.2 ends, and zsum as a finite randomizer.

Theory (Balcer and Cheu, 2020, section 4.1).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from tacit.shuffled.protocols import THE_MESSAGE
from tacit.shuffled.randomizers import FiniteRandomizer

ONES_OF_NOBODY = 2
"""How many of the four messages of a user with a 1 in ``gap`` are never 1."""


def swapped() -> FiniteRandomizer:
    """A user with a bit x sends x, then 1 - x (Claim 4.3). Its first message is the bit; all messages together are as
    many zeros as ones, whatever the bits are."""
    return FiniteRandomizer(tuple({(bit, 1 - bit): Fraction(1)} for bit in (0, 1)))


def gap() -> FiniteRandomizer:
    """A user sends four bits: with a 0 uniform ones, with a 1 uniform ones of which not exactly two are 1 (Claim 4.4).
    Two ones tell that a user by itself has a 0; from two users on, every number of ones is possible for all inputs."""
    every = list(product((0, 1), repeat=4))
    allowed = [bits for bits in every if sum(bits) != ONES_OF_NOBODY]
    return FiniteRandomizer(tuple(dict.fromkeys(some, Fraction(1, len(some))) for some in (every, allowed)))


def zsum_randomizer(p: Fraction) -> FiniteRandomizer:
    """The randomizer of zsum with the probability ``p`` of a noise message, above 0 and below 1."""
    return FiniteRandomizer(tuple({(THE_MESSAGE,) * bit: 1 - p, (THE_MESSAGE,) * (bit + 1): p} for bit in (0, 1)))
