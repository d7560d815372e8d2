"""The succinct histogram as a method of a recipe: a report is its public bytes and one bit.

Algorithms 5 to 7 of Bassily and Smith (``channels``, ``one_bit``): from the public bytes
follows a report of a device without an item, a component for each of ``T K`` channels and the oracle's, and the bit
says whether the device accepts it. The one-bit transformation has the constant that keeps epsilon exactly, and the
budget is divided by ``T + 1``, which is exactly enough; the paper divides by ``2 T + 1``.

The server decodes ``T n^1.5`` channels of n reports each, and an item has to stand out with the small part of epsilon
that each channel has. So the method is for few devices and a large epsilon, and refuses everything else:
``AffineHashing`` finds more from the same devices. It is here to be compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from tacit.methods.base.draws import epsilon0_from
from tacit.methods.base.method import LocalMethod, Members
from tacit.methods.base.statistics import Shape
from tacit.methods.succinct_histogram.channels import PublicComponents, SuccinctHistogram
from tacit.methods.succinct_histogram.code import MAX_BITS
from tacit.methods.succinct_histogram.one_bit import OneBit

BETA = 0.2
"""Chance with which the theorem on what is found may fail. With less there are more than three repetitions, each with a
smaller part of epsilon, and an even smaller part of all reports is accepted."""
MOST_REPORTS = 1_000
"""With more the server needs more than some minutes to decode all channels."""
SEED = b"tacit succinct histogram"
"""Fixes the matrix and the hash functions. Privacy does not rest on it; errors are bounded for items that do not depend
on it."""


@dataclass(frozen=True, slots=True)
class PaperHistogram(LocalMethod):
    """``bits``: of an item, 1 to 64; ``reports``: how many are expected, n."""

    NAME = "succinct-histogram"
    MEMBERS = ("epsilon0", "reports")
    STATISTICS = ("heavy-hitters",)
    IS_PROVED = False
    ENGINE = "paper"
    bits: int = MAX_BITS
    reports: int = MOST_REPORTS
    one_bit: OneBit[int, PublicComponents] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        if self.bits > MAX_BITS:
            raise ValueError(
                f"{self.NAME} takes texts of at most {MAX_BITS} bits, not {self.bits}; take shorter texts, or "
                "randomizer affine (engine tree)"
            )
        histogram = SuccinctHistogram(self.epsilon0, self.bits, self.reports, BETA, SEED, exact_budget=True)
        one_bit: OneBit[int, PublicComponents] = OneBit(histogram)
        object.__setattr__(self, "one_bit", one_bit)

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` for an epsilon0 out of range, categories other than
        2, or parameters with which nothing can be found."""
        if members["categories"] != 2:
            raise ValueError("categories must be 2")
        made = cls(members["epsilon0"], shape.item_bits, 1)
        return made.expecting(int(members["reports"]))

    @classmethod
    def mismatch(cls, _shape: Shape, _members: Members) -> str | None:
        """None: a report is one bit whatever the domain."""
        return None

    def expecting(self, reports: int) -> Self:
        """The method with the channels of so many reports. ``ValueError`` says in numbers why it cannot find
        anything."""
        made = replace(self, reports=min(reports, MOST_REPORTS))
        if reports > MOST_REPORTS:
            raise ValueError(
                f"{self.NAME} would decode T n^1.5 = {made.histogram.repetitions * reports**1.5:,.0f} channels of "
                f"n = {reports:,} reports, T n^2.5 steps; n can be {MOST_REPORTS:,} at most, so lower the rate, or "
                "take randomizer affine (engine tree)"
            )
        bound = made.share_bound(round(reports * made.one_bit.accepted))
        if bound >= 1:
            raise ValueError(
                f"{self.NAME} finds nothing: {made.cost()}, and only a share above {bound:.2f} would stand "
                "out; take a larger epsilon, shorter texts, or randomizer affine (engine tree)"
            )
        return made

    @property
    def histogram(self) -> SuccinctHistogram:
        """The histogram whose reports are accepted or rejected."""
        histogram = self.one_bit.randomizer
        assert isinstance(histogram, SuccinctHistogram)  # noqa: S101
        return histogram

    def cost(self) -> str:
        """What the paper's parameters are here, in words."""
        found = self.histogram
        return (
            f"n = {self.reports:,} reports of {self.bits} bits have T = {found.repetitions} repetitions with "
            f"K = {1 << found.channel_bits:,} channels, and epsilon / (T + 1) = "
            f"{float(self.epsilon0) / found.parts:.2g} in each"
        )

    def share_bound(self, accepted: int) -> float:
        """The share from which on an item is listed, from so many accepted reports; infinite from none."""
        return self.histogram.oracle.error_bound(accepted) if accepted else math.inf

    def members(self) -> dict[str, Any]:
        """``epsilon0``, ``categories`` and ``reports``."""
        return {**LocalMethod.members(self), "reports": self.reports}

    @property
    def cells(self) -> int:
        """2: a report has one bit."""
        return 2

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probabilities that an accepted report's sign in the oracle is (the item's own, another item's)."""
        return self.histogram.oracle.randomizer.kept(), Fraction(1, 2)
