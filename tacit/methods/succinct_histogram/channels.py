"""The succinct histogram as the paper states it: each frequent item of a large domain is found in a channel of its own.

Theory (Bassily and Smith, 2015, Algorithm 5). In each of ``T = ln(3/beta)`` repetitions a public hash function,
pairwise independent, sends an item to one of ``K = n^1.5`` channels. In its item's channel a device is a holder of the
unique heavy hitter (``unique``), in every other one it has no item. A frequent item is alone in its
channel at least once, and is decoded there. One more report goes to a frequency oracle (``projection``),
which tells what was decoded rightly from noise: items above its error bound are kept. Each of the 2T + 1 reports that
depend on the item gets an equal part of epsilon: two items differ in at most 2T channels, and in the oracle.

That count is too careful. In the channel of one item, its holder's report is likelier than another device's by a factor
of at most 2p, and less likely by at most 2(1-p); for two items the factors of both channels multiply to ``p / (1-p)``,
one part of epsilon, as they do when the channel is the same. So T + 1 parts are exactly enough (``exact_budget``),
and what the paper states uses a little more than half of epsilon.

A report has a component in each of T K channels, all independent, all but T of them uniform. Nobody needs them all: a
device computes the ones that are asked for, and whoever evaluates a simulated population asks only for channels in
which somebody has an item. The others decode to noise, which the oracle's bound keeps out together with all else.

With one-bit reports (``one_bit``) no component is sent at all: the components of a device without an
item follow from public randomness, and a device accepts or rejects them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol

from tacit.methods.base.affine import hash_of
from tacit.methods.base.draws import epsilon0_from
from tacit.methods.succinct_histogram.projection import FrequencyOracle
from tacit.methods.succinct_histogram.signs import BasicRandomizer, SignReport, SignSums
from tacit.methods.succinct_histogram.unique import UniqueHitter
from tacit.ports import Entropy

MAX_REPORTS = 1 << 40
BLOCK = 8
"""Channels whose components in public randomness are computed together."""
_WORDS = Struct(f">{BLOCK}Q")


class Components(Protocol):
    """A report by channel: its component in each of those that were asked for, or in every one."""

    def __getitem__(self, channel: int, /) -> SignReport: ...


class Frequent(NamedTuple):
    """An item and the estimated share of devices that have it."""

    item: int
    share: float


@dataclass(frozen=True, slots=True)
class SuccinctHistogram:
    """``epsilon0``: of the whole report; ``bits``: of an item, 1 to 64; ``reports``: n, how many are expected, up to
    2^40; ``beta``: the chance of an error beyond the theorem's; ``seed``: 16 to 64 public bytes. ``ValueError`` names a
    parameter that is out of range."""

    epsilon0: Decimal
    bits: int
    reports: int
    beta: float
    seed: bytes = field(repr=False)
    exact_budget: bool = False
    unique: UniqueHitter = field(init=False, repr=False)
    oracle: FrequencyOracle = field(init=False, repr=False)
    _hash_seeds: tuple[int, ...] = field(init=False, repr=False)
    _likelihoods: tuple[Fraction, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.reports <= MAX_REPORTS or not 0 < self.beta < 1:
            raise ValueError("reports must be from 1 to 2^40, and beta between 0 and 1")
        epsilon0 = epsilon0_from(self.epsilon0)
        with localcontext() as context:
            context.rounding = ROUND_FLOOR
            part = epsilon0 / self.parts
        oracle = FrequencyOracle(part, 1 << self.bits, self.reports, self.beta / 3, self.seed)
        kept, times = oracle.randomizer.kept(), self.repetitions + 1
        likelihoods = tuple((2 * kept) ** same * (2 - 2 * kept) ** (times - same) for same in range(times + 1))
        hash_seeds = tuple(self._hash_seed(repetition) for repetition in range(self.repetitions))
        object.__setattr__(self, "epsilon0", epsilon0)
        object.__setattr__(self, "unique", UniqueHitter(part, self.bits))
        object.__setattr__(self, "oracle", oracle)
        object.__setattr__(self, "_hash_seeds", hash_seeds)
        object.__setattr__(self, "_likelihoods", likelihoods)

    @property
    def repetitions(self) -> int:
        """T, the number of repetitions: ln(3 / beta), rounded up."""
        return math.ceil(math.log(3 / self.beta))

    @property
    def channel_bits(self) -> int:
        """The number of bits of a channel in its repetition: K is the power of two from n^1.5 on."""
        return ((self.reports**3 - 1).bit_length() + 1) // 2

    @property
    def parts(self) -> int:
        """Into how many equal parts epsilon is divided."""
        return self.repetitions + 1 if self.exact_budget else 2 * self.repetitions + 1

    @property
    def oracle_channel(self) -> int:
        """The number of the last channel, the frequency oracle's; those before belong to repetitions."""
        return self.repetitions << self.channel_bits

    def _hash_seed(self, repetition: int) -> int:
        return int.from_bytes(blake2b(b"channels %d" % repetition, key=self.seed, digest_size=8).digest(), "big")

    def channels_of(self, item: int) -> tuple[int, ...]:
        """The channels of ``item``, one in each repetition. ``ValueError`` for an item outside the domain."""
        if not 0 <= item < 1 << self.bits:
            raise ValueError(f"an item must have {self.bits} bits")
        hashes = (hash_of(seed, item, self.channel_bits) for seed in self._hash_seeds)
        return tuple(at << self.channel_bits | hashed for at, hashed in enumerate(hashes))

    def randomise(self, item: int | None, channels: Iterable[int], entropy: Entropy, /) -> dict[int, SignReport]:
        """The components, in these channels, of the report of a device with ``item`` or without one (Algorithm 7)."""
        own = () if item is None else self.channels_of(item)
        found = {}
        for channel in channels:
            if channel == self.oracle_channel:
                found[channel] = self.oracle.report(item, entropy)
            else:
                found[channel] = self.unique.report(item if channel in own else None, entropy)
        return found

    def expand(self, public: bytes, /) -> PublicComponents:
        """The report of a device without an item that follows from public bytes."""
        return PublicComponents(self, public)

    def likelihood(self, report: Components, item: int | None, /) -> Fraction:
        """How much likelier ``report`` is for a device with ``item`` than for one without, exactly as drawn. Looks at T
        + 1 components only."""
        if item is None:
            return Fraction(1)
        row, sign = report[self.oracle_channel]
        same = int(self.oracle.sign(item, row) == sign)
        for channel in self.channels_of(item):
            index, sign = report[channel]
            same += self.unique.sign(item, index) == sign
        return self._likelihoods[same]

    @property
    def likelihood_bound(self) -> Fraction:
        """The likelihood of a report in which every component of an item has the item's sign."""
        return self._likelihoods[-1]

    def randomizer_of(self, channel: int) -> BasicRandomizer:
        """The randomizer of a component. ``ValueError`` for a channel that is not from 0 to ``oracle_channel``."""
        if not 0 <= channel <= self.oracle_channel:
            raise ValueError(f"a channel must be from 0 to {self.oracle_channel}")
        return (self.oracle if channel == self.oracle_channel else self.unique).randomizer

    def sufficient_share(self, counted: int | None = None) -> float:
        """The share from which on every item is found, except with probability ``beta`` (Theorem 3.5); infinite if
        there is none. ``counted``: how many reports there are (at most n; default: n). A third of ``beta`` each is for
        channels that are decoded wrongly, for the oracle, and for items that are never alone in their channel: at most
        sqrt(n) items have a share that can be enough, and each meets another one in all repetitions with probability
        ``n^(-T/2)``, together less than ``e^-T`` from 55 reports on; fewer are never enough."""
        reports = self.reports if counted is None else counted
        decoded = self.unique.sufficient_share(reports, self.beta / (3 * math.sqrt(self.reports)))
        return max(decoded, 2 * self.oracle.error_bound(reports))


@dataclass(frozen=True, slots=True)
class PublicComponents:
    """The components that follow from a report's public bytes, computed when they are looked at."""

    histogram: SuccinctHistogram
    public: bytes

    def __getitem__(self, channel: int, /) -> SignReport:
        length = self.histogram.randomizer_of(channel).length
        block, at = divmod(channel, BLOCK)
        return component(block_words(self.public, block)[at], length)


def block_words(public: bytes, block: int) -> tuple[int, ...]:
    """The words of 64 bits from which the components of ``BLOCK`` channels follow."""
    return _WORDS.unpack(blake2b(block.to_bytes(16, "big"), key=public, digest_size=_WORDS.size).digest())


def component(word: int, length: int) -> SignReport:
    """The component, in a channel of ``length`` coordinates, that a word of 64 bits stands for: its lowest bit is the
    sign (1: minus), the others, scaled down, are the coordinate."""
    return SignReport((word >> 1) * length >> 63, 1 - 2 * (word & 1))


def decode_channels(histogram: SuccinctHistogram, publics: Sequence[bytes]) -> set[int]:
    """The items that any of all channels gives, from the public bytes of the reports that were accepted: for n reports
    ``T n^2.5`` steps, as in the paper."""
    length, found = histogram.unique.randomizer.length, set()
    for block in range(histogram.oracle_channel // BLOCK):
        sums = [SignSums(length) for _ in range(BLOCK)]
        for public in publics:
            for one, word in zip(sums, block_words(public, block), strict=True):
                one.sums[(word >> 1) * length >> 63] += 1 - 2 * (word & 1)
        found |= {histogram.unique.find(one) for one in sums}
    return {item for item in found if item is not None}
