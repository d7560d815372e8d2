"""Noise shares (design rule P18): every device sends ``scale * value + Bin(flips, 1/2)`` in each cell.

There is no local guarantee: what hides a device is the sum of everybody's shares, of which one aggregator or the
analyst sees nothing but the total (``tacit.dp.binomial_noise``, ``tacit.dp.vector_noise``). A share lies in [0,
flips], so an output lies in [0, scale * maximum + flips] and no encoding overflows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from tacit.dp.binomial_noise import MAX_FLIPS, MAX_SCALE, NoiseShare
from tacit.dp.noisy_length import EXCESS, longest_square
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import VectorStep
from tacit.methods.base.method import Members, Method
from tacit.methods.base.proof import NormProof, Proof
from tacit.methods.base.statistics import STATISTICS, Shape, Statistic, StatisticName, neutral_of
from tacit.vdaf.vector_bounds import VectorBounds

MAX_BATCH_FLIPS = 1 << 20
"""Most flips that an aggregator adds to each number."""
MAX_SQUARE = (1 << 53) - 1
"""Largest squared length that a recipe can state."""
MAX_MEASUREMENT = 1 << 32
"""Largest output: 2^30 of them, more than any batch holds, add up to less than the modulus of Field64."""


@dataclass(frozen=True, slots=True)
class Flips(Method):
    """``maximum`` is the largest encoded value of a cell; value v stands for ``low + unit v``. ``batch_flips`` are the
    centred flips that each of the two aggregators adds to every sum, beside the devices' own. ``norm`` is the largest
    Euclidean length of a vector, without which nothing is claimed about vectors. ``norm_proof``: of which vector the
    length is proved; of values alone, a measurement has the values and then the noises."""

    NAME = "flips"
    MEMBERS = ("scale", "flips", "maximum")
    STATISTICS = ("histogram", "count", "sum", "mean", "vector-sum")
    IS_LOCAL = False
    statistic: StatisticName
    scale: int
    flips: int
    maximum: int
    cells: int
    low: int | Fraction = 0
    unit: int | Fraction = 1
    batch_flips: int = 0
    norm: int | Fraction | None = None
    norm_proof: NormProof | None = None
    kind: Statistic = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", STATISTICS[self.statistic])
        for name, value, most in (("scale", self.scale, MAX_SCALE), ("flips", self.flips, MAX_FLIPS)):
            if not 1 <= value <= most:
                raise ValueError(f"{name} must be from 1 to {most}")
        if not 0 <= self.batch_flips <= MAX_BATCH_FLIPS or self.batch_flips % 2:
            raise ValueError(f"the flips of an aggregator must be an even number up to {MAX_BATCH_FLIPS}")
        if self.maximum < 1 or self.cells < 1:
            raise ValueError("maximum and the number of cells must be at least 1")
        if self.largest > MAX_MEASUREMENT:
            raise ValueError(f"scale * maximum + flips must be at most {MAX_MEASUREMENT}")
        if self.kind.is_scalar and self.cells != 1:
            raise ValueError(f"a {self.statistic} has one cell")
        if self.kind.counts_devices and self.maximum != 1:
            raise ValueError(f"the values of a {self.statistic} are 0 and 1: maximum must be 1")

    @classmethod
    def mismatch(cls, shape: Shape, members: Members) -> str | None:
        """Describe a mismatch in the number of cells or in the largest value."""
        widest, stated = shape.maximum, members.get("maximum")
        other = f"the encoder gives values up to {widest}, but the randomizer states {stated}"
        return super(Flips, cls).mismatch(shape, members) or (None if stated == widest else other)

    @classmethod
    def of(cls, shape: Shape, members: Members, batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(
            shape.statistic.name,
            scale=members["scale"],
            flips=members["flips"],
            maximum=members["maximum"],
            cells=members["categories"],
            low=shape.low,
            unit=shape.unit,
            batch_flips=batch_flips,
            norm=shape.norm,
        )

    def members(self) -> dict[str, Any]:
        """``categories``, ``scale``, ``flips`` and ``maximum``."""
        return {"categories": self.cells, "scale": self.scale, "flips": self.flips, "maximum": self.maximum}

    @property
    def proof(self) -> Proof:
        """The proof that every cell holds a number up to ``largest``."""
        if self.kind.is_scalar:
            return Proof("Prio3Sum", 1, 1, max_measurement=self.largest)
        if self.norm_proof is not None:
            return Proof.of_norm(self.bounds)
        bits = self.cells * self.largest.bit_length()
        return Proof("Prio3SumVec", self.cells, bits, max_measurement=self.largest)

    def proving_norm(self, of: NormProof = NormProof.SUM) -> Self:
        """The same with vectors whose length is proved. ``ValueError`` where there is no vector or no such proof."""
        if not self.kind.is_vector or self.norm is None:
            raise ValueError(f"a {self.statistic} has no norm that could be proved")
        if of is NormProof.SUM and self.flips % 2:
            raise ValueError("flips must be even where the norm is proved, so that their middle is a whole number")
        made = replace(self, norm_proof=of)
        if made.bounds.max_square > MAX_SQUARE:
            raise ValueError(f"a vector with its noise is at most {math.isqrt(MAX_SQUARE)} long where that is proved")
        return made

    @property
    def radius(self) -> int:
        """The largest length of the values, in steps of ``unit``, rounded down."""
        return int((self.norm or 0) // self.unit)

    @property
    def bounds(self) -> VectorBounds:
        """What is proved of a vector whose length is proved: of the sum of values and noise, or in older recipes of its
        values."""
        if self.norm_proof is NormProof.VALUES:
            return VectorBounds(self.cells, self.maximum, self.neutral, self.radius**2, self.scale, self.flips)
        longest = longest_square(self.cells, self.scale * self.radius, self.flips)
        return VectorBounds(self.cells, self.largest, self.middle, longest)

    @property
    def middle(self) -> int:
        """What the neutral value is in the middle of its noise, rounded down."""
        return self.scale * self.neutral + self.flips // 2

    @property
    def noise_share(self) -> NoiseShare:
        """The scale of a value, and the flips that a device adds to it."""
        return NoiseShare(self.scale, self.flips)

    @property
    def most_reports(self) -> int:
        """The devices whose flips are not too many to be summed."""
        return self.noise_step.most_reports

    @property
    def noise_step(self) -> NoiseStep:
        """How replacing one device's answer changes the sum: two cells of a histogram, one number, or a vector.
        ``ValueError`` for a vector of unknown length."""
        if not self.kind.is_vector:
            moved = self.kind.moved(self.cells)
            return NoiseStep(self.scale, self.flips, self.maximum, moved, batch_flips=self.batch_flips)
        shape = Shape(self.kind, self.cells, self.low, self.high, self.unit, self.norm)
        vector = vector_step(shape)
        excess = EXCESS if self.norm_proof is NormProof.SUM else 0.0
        return NoiseStep(self.scale, self.flips, vector=vector, batch_flips=self.batch_flips, excess=excess)

    @property
    def mechanism(self) -> str:
        """The exact accountant for one or two sums, or the proved bound for vectors."""
        return self.noise_step.mechanism

    @property
    def local_epsilon(self) -> float:
        """Infinite: one device's share alone does not hide its value."""
        return math.inf

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon of the sum of n honest shares; infinite where they are too few."""
        return self.noise_step.aggregate_epsilon(n, delta)

    def reports_epsilon(self, _n: int, _delta: float, /) -> float:
        """Infinite for any number of single reports."""
        return math.inf

    @property
    def largest(self) -> int:
        """The largest number that a measurement can hold."""
        return self.scale * self.maximum + self.flips

    @property
    def neutral(self) -> int:
        """The encoded value of a dummy: that of 0 where 0 is a possible value, else that of ``low``."""
        return neutral_of(self.low, self.unit, self.maximum)

    @property
    def high(self) -> int | Fraction:
        return self.low + self.unit * self.maximum


def vector_step(shape: Shape) -> VectorStep:
    """How far replacing one device's vector by another moves the sum, in units and before scaling."""
    if shape.norm is None:
        raise ValueError("the norm of the vectors is not known")
    radius = int(shape.norm // shape.unit)
    return VectorStep.replaced(shape.cells, shape.maximum, radius, one_signed=0 in (shape.low, shape.high))
