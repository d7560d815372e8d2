"""Local hashing with affine hash functions: one report of k bits about a string of up to 512 bits.

Theory. Optimised local hashing (T. Wang, J. Blocki, N. Li, S. Jha, "Locally Differentially Private Protocols for
Frequency Estimation", USENIX Security 2017) hashes the item x to one of g values with a hash function of the device's
own, and reports the hash by g-ary randomised response. The report *supports* every item with the reported hash: the
true one with probability ``p = e^e0 / (e^e0 + g - 1)``, any other with ``1/g`` over the choice of the hash function.
The variance of the estimate is smallest for ``g = e^e0 + 1``.

Here ``g = 2^k`` and the hash is affine over bits, ``h(x) = A x + c``, with random rows ``A`` and a random ``c``. For
two different items it is pairwise uniform, which is all that the estimate needs. Because it is affine, a Walsh-Hadamard
transform counts the reports that support each of 2^f items (``tacit.succinct.supports``): the server need not hash
every candidate for every report.

Devices are split over the levels of a prefix tree (``tacit.succinct.tree``): a report is about the prefix of one
length. Hash function and level follow from 16 random public bytes, which are sent with the k bits. Privacy rests on the
device's own draws alone, whatever those bytes are, as long as they are drawn without looking at the item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from tacit.methods.base.draws import ONE, epsilon0_from, keep_threshold
from tacit.methods.base.method import LocalMethod, Members
from tacit.methods.base.statistics import MAX_ITEM_BITS, Shape

MAX_HASH_BITS = 8
SEED_SIZE = 8
WORD_BITS = 64
PUBLIC_SIZE = 16
"""Bytes of public randomness of a report: eight for the hash function, eight for the level."""
WIDEST_STEP = 16
"""Most bits between two levels: a transform over 2^16 prefixes is cheap."""
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


def rows_of(seed: int, bits: int, hash_bits: int) -> tuple[list[int], int]:
    """The rows of the hash function of ``seed`` for items of ``bits`` bits, and its offset. Of the ``hash_bits`` + 1
    words that come next, the first ``hash_bits`` are the 64 bits more of each row, from the lowest bits on; the last
    word of the first such group is the offset."""
    group = hash_bits + 1
    drawn = words(seed, group * max(1, -(-bits // WORD_BITS)))
    parts = [drawn[at : at + hash_bits] for at in range(0, len(drawn), group)]
    rows = [sum(word << WORD_BITS * at for at, word in enumerate(row)) for row in zip(*parts, strict=True)]
    return rows, drawn[hash_bits] & ((1 << hash_bits) - 1)


def hash_of(seed: int, item: int, hash_bits: int) -> int:
    """The hash of ``item`` under the function of ``seed``: bit i is the parity of row i and the item, plus bit i of the
    offset."""
    rows, offset = rows_of(seed, item.bit_length(), hash_bits)
    return offset ^ sum(((row & item).bit_count() & 1) << at for at, row in enumerate(rows))


def levels_of(bits: int) -> tuple[int, ...]:
    """The prefix lengths of a domain of ``bits`` bits (1 to 512): as few steps of at most 16 bits as possible, all as
    equal as possible."""
    if not 1 <= bits <= MAX_ITEM_BITS:
        raise ValueError(f"items must have 1 to {MAX_ITEM_BITS} bits")
    steps = -(-bits // WIDEST_STEP)
    return tuple(bits * at // steps for at in range(1, steps + 1))


def seed_of(public: bytes) -> int:
    """The seed of the hash function in the 16 public bytes of a report."""
    return int.from_bytes(public[:SEED_SIZE], "big")


def level_of(word: int, levels: int) -> int:
    """The level, from 0, of the report whose last eight public bytes are ``word``. The last of S levels has 3 of 2S + 1
    parts, each other one has 2: it has the most candidates, and gives the estimates."""
    return min((word * (2 * levels + 1) >> 64) // 2, levels - 1)


def share_of_last(levels: int) -> float:
    """The share of the reports that are about whole items."""
    return 3 / (2 * levels + 1)


@dataclass(frozen=True, slots=True)
class AffineHashing(LocalMethod):
    """Reports k bits about a prefix of the item. ``hash_bits``: k, 1 to 8; ``bits``: of an item, 1 to 512."""

    NAME = "affine"
    MEMBERS = ("epsilon0",)
    STATISTICS = ("heavy-hitters",)
    IS_PROVED = False
    ENGINE = "tree"
    hash_bits: int
    bits: int = MAX_ITEM_BITS
    keep_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"categories must be a power of two from 2 to {1 << MAX_HASH_BITS}")
        levels_of(self.bits)
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "keep_below", keep_threshold(self.epsilon0, self.values - 1))

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members; ``categories`` is 2^k. ``ValueError`` for an epsilon0 out of range,
        or categories that are not such a power."""
        categories = int(members["categories"])
        bits = categories.bit_length() - 1
        return cls(members["epsilon0"], bits if categories == 1 << bits else 0, shape.item_bits)

    @classmethod
    def mismatch(cls, _shape: Shape, _members: Members) -> str | None:
        """None: the number of values is the method's own, and ``of`` checks it."""
        return None

    @property
    def values(self) -> int:
        """How many values a report can have: g, a power of two."""
        return 1 << self.hash_bits

    @property
    def cells(self) -> int:
        """g, which a recipe states as ``categories``."""
        return self.values

    @property
    def levels(self) -> tuple[int, ...]:
        """Prefix lengths in bits, rising; the last one is the item's."""
        return levels_of(self.bits)

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probabilities of (the item's hash, each other value), exactly as drawn."""
        keep = Fraction(self.keep_below, ONE)
        return keep, (1 - keep) / (self.values - 1)
