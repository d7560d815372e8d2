"""What a planner is asked for, and what it answers with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.dp import parameters
from tacit.dp.vector_noise import VectorStep
from tacit.methods.method import Method
from tacit.methods.statistics import COUNT, STATISTICS, Shape, Statistic, StatisticName

MAX_EPSILON0 = 8.0


@dataclass(frozen=True, slots=True)
class Requirements:
    """What is wanted. ``cells`` counts the numbers in the answer; a histogram of 1 is a yes-or-no question. Values of
    sums, means and vectors lie from ``low`` to ``high`` and are rounded to multiples of ``unit``; ``norm`` bounds a
    vector's length. The rest is policy: ``max_epsilon0`` caps what one device's report tells, ``allow_unbounded_local``
    says that it may tell everything, ``min_batch_size`` is the least batch; ``max_epsilon_half`` caps the claim at B/2
    (0: twice epsilon, at least 2), ``max_with_relay`` and ``max_half_with_relay`` both claims without sampling (P17).
    """

    population: int
    cells: int
    epsilon: float
    delta: float
    max_epsilon0: float = MAX_EPSILON0
    statistic: StatisticName = "histogram"
    low: int | Fraction = 0
    high: int | Fraction = 1
    unit: int | Fraction = 1
    norm: int | Fraction = 1
    allow_unbounded_local: bool = False
    min_batch_size: int = 2
    max_epsilon_half: float = 0.0
    max_with_relay: float = math.inf
    max_half_with_relay: float = math.inf

    def __post_init__(self) -> None:
        for name in ("population", "cells", "min_batch_size"):
            parameters.reports(getattr(self, name), name)
        if self.unit <= 0 or self.norm <= 0:
            raise ValueError("unit and norm must be above 0")
        parameters.failure_probability(self.delta)
        if not parameters.MIN_EPSILON0 <= parameters.finite("epsilon", self.epsilon) <= parameters.MAX_EPSILON0:
            raise ValueError(f"epsilon must be from {parameters.MIN_EPSILON0:g} to {parameters.MAX_EPSILON0:g}")
        parameters.local_epsilon(self.max_epsilon0)
        if self.low >= self.high:
            raise ValueError("high must be above low")
        if self.kind.is_scalar and self.cells != 1:
            raise ValueError(f"a {self.statistic} is one number: cells must be 1")
        if self.counts and (self.low, self.high, self.unit) != (0, 1, 1):
            raise ValueError(f"the values of a {self.statistic} are 0 and 1: low, high and unit must be left out")
        if (self.high - self.low) % self.unit:
            raise ValueError("unit must divide high - low")
        if self.kind.is_vector and (not self.low <= 0 <= self.high or self.low % self.unit or self.norm % self.unit):
            raise ValueError("the range of a vector's entries must hold 0, and unit must divide low, high and norm")

    @property
    def counts(self) -> bool:
        """Whether the answer is counts of devices."""
        return self.kind.counts_devices

    @property
    def kind(self) -> Statistic:
        """What is asked; a histogram of one cell is a count."""
        return COUNT if STATISTICS[self.statistic].is_one_hot and self.cells == 1 else STATISTICS[self.statistic]

    @property
    def shape(self) -> Shape:
        """The question as methods see it."""
        return Shape(self.kind, self.cells, self.low, self.high, self.unit, self.norm if self.kind.is_vector else None)

    @property
    def maximum(self) -> int:
        """The largest encoded value."""
        return self.shape.maximum

    @property
    def holders(self) -> float:
        """Devices whose answer falls into one cell."""
        return self.population / max(2, self.cells)

    @property
    def vector_step(self) -> VectorStep:
        """How far one replaced vector moves the sum, in units."""
        radius = int(self.norm // self.unit)
        return VectorStep.replaced(self.cells, self.maximum, radius, one_signed=0 in (self.low, self.high))

    @property
    def step(self) -> float:
        """How far one replaced answer moves the answer, in its own units and by its Euclidean length."""
        if self.kind.is_vector:
            return self.unit * math.sqrt(self.vector_step.squares)
        return self.unit * self.maximum * math.sqrt(self.shape.moved)

    @property
    def truth(self) -> float:
        """One number of the answer as it is supposed to be: a cell's holders, the total or the mean of values half of
        which are at either end, 0 in a vector."""
        if self.counts:
            return self.holders
        if self.kind.is_vector:
            return 0.0
        return (1 if self.kind.is_ratio else self.population) * float(self.low + self.high) / 2

    @property
    def squares(self) -> list[float] | None:
        """The sum of the squared values of an entry of vectors of full length in no particular direction; None where
        ``truth`` says all that there is to say."""
        if not self.kind.is_vector:
            return None
        return [self.population * float(min(self.norm**2 / self.cells, max(-self.low, self.high) ** 2))]

    @property
    def scale(self) -> float:
        """What an error is a share of: the population, the range of a total, or that of a mean."""
        span = 1.0 if self.counts else float(self.high - self.low)
        return span if self.kind.is_ratio else self.population * span

    def of_total(self, stderr: float) -> float:
        """The error of the answer whose total has the error ``stderr``: a mean divides by the population."""
        return stderr / self.population if self.kind.is_ratio else stderr


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to ask. ``stderr`` in units of the answer (devices, for counts); ``contributions`` are expected;
    ``epsilon0`` is None without a local guarantee; ``inner`` is what a batch may cost where its sampling is not counted
    (what ``tacit recipe new`` takes); ``available`` says whether it may be proposed: this platform runs it, and what is
    seen of one device is allowed.

    ``method`` is what devices would run; it, ``chunk_length`` of its proof and ``upload_bytes``, the leader's share of
    one contribution, are None for ways that the platform does not run.
    """

    model: str
    randomizer: str
    rate: float
    batch_size: int
    contributions: int
    stderr: float
    epsilon0: float | None = None
    method: Method | None = None
    inner: float | None = None
    chunk_length: int | None = None
    upload_bytes: int | None = None
    available: bool = False

    @property
    def is_summed(self) -> bool:
        """Whether the platform runs it and only the sum hides a device."""
        return self.method is not None and not self.method.IS_LOCAL

    def relative(self, needs: Requirements) -> float:
        """The error as a share of ``Requirements.scale``."""
        return self.stderr / needs.scale
