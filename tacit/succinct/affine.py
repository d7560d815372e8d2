"""Local hashing with affine hash functions: one report of k bits about a string of up to 64 bits.

Theory. Optimised local hashing (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
Estimation", 2017) hashes the item x to one of g values with a hash function of the device's own, and reports the hash
by g-ary randomised response. The report *supports* every item with the reported hash: the true one with probability
``p = e^e0 / (e^e0 + g - 1)``, any other with ``1/g`` over the choice of the hash function. The variance of the estimate
is smallest for ``g = e^e0 + 1``.

Here ``g = 2^k`` and the hash is affine over bits, ``h(x) = A x + c``, with random rows ``A`` and a random ``c``. For two
different items it is pairwise uniform, which is all that the estimate needs. Being affine, the number of reports that
support each of 2^f items is a Walsh-Hadamard transform (``tacit.succinct.supports``): the server need not hash every
candidate for every report.

The hash function follows from a public seed, so that a report is k bits. Privacy rests on the device's own draws alone,
whatever the seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from tacit.methods.draws import ONE, bernoulli, epsilon0_from, keep_threshold, uniform_below
from tacit.ports import Entropy

MAX_BITS = 64
MAX_HASH_BITS = 8
SEED_SIZE = 8
_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def words(seed: int, count: int) -> list[int]:
    """The first ``count`` 64-bit words that follow from a 64-bit seed: the generator SplitMix64 (Steele, Lea, Flood,
    "Fast Splittable Pseudorandom Number Generators", 2014)."""
    found = []
    for at in range(1, count + 1):
        word = (seed + at * _STEP) & _WORD
        word = ((word ^ (word >> 30)) * _FIRST) & _WORD
        word = ((word ^ (word >> 27)) * _SECOND) & _WORD
        found.append(word ^ (word >> 31))
    return found


def hash_of(seed: int, item: int, hash_bits: int) -> int:
    """The hash of ``item`` under the function of ``seed``: bit i is the parity of row i and the item, plus bit i of the
    offset. The rows are the first words of the seed, the offset is the next one."""
    *rows, offset = words(seed, hash_bits + 1)
    found = sum(((row & item).bit_count() & 1) << at for at, row in enumerate(rows))
    return found ^ (offset & ((1 << hash_bits) - 1))


def best_hash_bits(epsilon0: Decimal | float | str) -> int:
    """The number of hash bits, from 1 to 8, with the least variance."""
    return min(range(1, MAX_HASH_BITS + 1), key=lambda bits: AffineHashing(epsilon0_from(epsilon0), bits).variance)


@dataclass(frozen=True, slots=True)
class AffineHashing:
    """The randomizer. ``epsilon0``: the local epsilon, 1e-6 to 40; ``hash_bits``: k, 1 to 8. A report is an integer
    from 0 to 2^k - 1. ``ValueError`` names a parameter that is out of range."""

    epsilon0: Decimal
    hash_bits: int
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits must be from 1 to {MAX_HASH_BITS}")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "_keep", keep_threshold(self.epsilon0, self.values - 1))

    @property
    def values(self) -> int:
        """How many values a report can have: g."""
        return 1 << self.hash_bits

    def randomise(self, item: int, seed: int, entropy: Entropy, /) -> int:
        """The report about ``item``, 0 to 2^64 - 1. Draws the same number of bytes whether the hash is kept or not."""
        if not 0 <= item <= _WORD:
            raise ValueError("an item must have at most 64 bits")
        value = hash_of(seed, item, self.hash_bits)
        keep = bernoulli(self._keep, entropy)
        other = uniform_below(self.values - 1, entropy)
        return value if keep else other + (other >= value)

    def empty(self, entropy: Entropy, /) -> int:
        """The report of a device that has no item: uniform, so that it supports nothing more than anything else."""
        return uniform_below(self.values, entropy)

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probabilities of (the item's hash, each other value), exactly as drawn."""
        keep = Fraction(self._keep, ONE)
        return keep, (1 - keep) / (self.values - 1)

    @property
    def gain(self) -> float:
        """``p - 1/g``: how much more often an item is supported by a report about it than by another one."""
        return float(self.output_probabilities()[0] - Fraction(1, self.values))

    @property
    def variance(self) -> float:
        """The variance of a rare item's estimated share, times the number of reports."""
        share = 1 / self.values
        return share * (1 - share) / self.gain**2

    def estimate(self, supports: int, reports: int) -> float:
        """The unbiased estimate of how many of ``reports`` devices have the item that ``supports`` of them support. Not
        clipped: it can be negative."""
        return (supports - reports / self.values) / self.gain

    def stderr(self, count: float, reports: int) -> float:
        """The standard deviation of ``estimate`` for an item that ``count`` of ``reports`` devices have."""
        hit, share = float(self.output_probabilities()[0]), 1 / self.values
        with_item = min(max(count, 0.0), reports)
        return math.sqrt(with_item * hit * (1 - hit) + (reports - with_item) * share * (1 - share)) / self.gain
