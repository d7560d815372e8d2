"""A frequency oracle by random projection: the share of any item, from one sign of each device.

Theory (Bassily and Smith, 2015, Algorithms 2 and 3). A public matrix of m rows and one column for each of d items has
entries ``+-1/sqrt(m)``, random for all items. A device puts its item's column through the basic randomizer; the
server's estimate of an item is the product of its column with the mean of the reports. The paper's m is ``ln(d + 1)
ln(2/beta) / gamma^2`` with ``gamma = sqrt(ln(2d/beta) / (e0^2 n))``.

The error of all items together (Theorem 2.5) has two parts. For fixed columns, each product of a report and a column is
c or -c, so the mean of n of them errs by more than ``c sqrt(2 ln(4d/beta) / n)`` for any of d items with probability at
most ``beta/2`` (Hoeffding's inequality). Of the columns themselves, the products with other items' columns disturb an
estimate: their mean, weighted with the shares, is 1/m times a sum of m independent mean-zero numbers between -1 and 1,
so it is larger than ``sqrt(2 ln(4d/beta) / m)`` for any item with probability at most ``beta/2``. The bound is the sum
of both.

The matrix follows from a seed by BLAKE2b and is never stored: a device computes one block of 512 signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b

from tacit.methods.base.draws import epsilon0_from
from tacit.methods.succinct_histogram.signs import BasicRandomizer, SignReport, SignSums, sign_at
from tacit.ports import Entropy

SEED_SIZES = range(16, 65)
MAX_ITEMS = 1 << 64
_BLOCK = 64
_BLOCK_BITS = 8 * _BLOCK


@dataclass(frozen=True, slots=True)
class FrequencyOracle:
    """``items``: d, the size of the domain, 2 to 2^64; ``reports``: n, how many are expected; ``beta``: the chance with
    which the error may be larger than ``error_bound``; ``seed``: 16 to 64 public bytes, on which no item may depend if
    the error is to be bounded. ``ValueError`` names a parameter that is out of range."""

    epsilon0: Decimal
    items: int
    reports: int
    beta: float
    seed: bytes = field(repr=False)
    randomizer: BasicRandomizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.items <= MAX_ITEMS:
            raise ValueError("items must be from 2 to 2^64")
        if self.reports < 1 or not 0 < self.beta < 1:
            raise ValueError("reports must be at least 1, and beta between 0 and 1")
        if len(self.seed) not in SEED_SIZES:
            raise ValueError("a seed must have 16 to 64 bytes")
        epsilon0 = epsilon0_from(self.epsilon0)
        object.__setattr__(self, "epsilon0", epsilon0)
        rows = math.ceil(math.log(self.items + 1) * math.log(2 / self.beta) / self._gamma**2)
        object.__setattr__(self, "randomizer", BasicRandomizer(epsilon0, rows))

    @property
    def _gamma(self) -> float:
        return math.sqrt(math.log(2 * self.items / self.beta) / (float(self.epsilon0) ** 2 * self.reports))

    @property
    def rows(self) -> int:
        """m: the number of rows of the matrix."""
        return self.randomizer.length

    def randomise(self, item: int | None, row: int, entropy: Entropy, /) -> int:
        """The sign that a device with ``item``, or without one, reports for a row."""
        if not 0 <= row < self.rows:
            raise ValueError(f"a row must be from 0 to {self.rows - 1}")
        return self.randomizer.randomise(0 if item is None else self.sign(item, row), entropy)

    def report(self, item: int | None, entropy: Entropy, /) -> SignReport:
        """The report of a device with ``item``, or without one, about a row that it draws itself."""
        row = self.randomizer.index(entropy)
        return SignReport(row, self.randomise(item, row, entropy))

    def sign(self, item: int, row: int) -> int:
        """The sign of the matrix's entry. ``ValueError`` for an item outside the domain."""
        block, at = divmod(row, _BLOCK_BITS)
        return sign_at(int.from_bytes(self._block(item, block), "little"), at)

    def column(self, item: int) -> int:
        """All signs of an item's column, as a vector."""
        blocks = range(-(-self.rows // _BLOCK_BITS))
        whole = int.from_bytes(b"".join(self._block(item, block) for block in blocks), "little")
        return whole & ((1 << self.rows) - 1)

    def _block(self, item: int, block: int) -> bytes:
        if not 0 <= item < self.items:
            raise ValueError(f"an item must be from 0 to {self.items - 1}")
        return blake2b(item.to_bytes(8, "big") + block.to_bytes(8, "big"), key=self.seed, digest_size=_BLOCK).digest()

    def estimate(self, item: int, sums: SignSums) -> float:
        """The estimate of the share of devices that have ``item``. Not clipped: it can be negative."""
        return sums.share(self.column(item), self.randomizer)

    def error_bound(self, reports: int) -> float:
        """The error that no estimate of any of the d items from so many reports exceeds, except with probability
        ``beta`` (Theorem 2.5)."""
        projected = math.sqrt(2 * math.log(4 * self.items / self.beta) / self.rows)
        return self.randomizer.deviation(reports, self.beta / (2 * self.items)) + projected
