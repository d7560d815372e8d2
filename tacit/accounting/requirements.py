"""The input and the result of a planner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.dp import parameters
from tacit.dp.vector_noise import VectorStep
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import COUNT, STATISTICS, Shape, Statistic, StatisticName
from tacit.models.secure_aggregation.form import SecureAggregation

MAX_EPSILON0 = 8.0
TWO_SERVERS, ONE_SERVER, SHUFFLER, NOBODY = "two servers apart", "the server", "a shuffler apart", "nobody"
"""Whom a device trusts: servers that do not work together, that one, a shuffler that does not work with it, no one."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of one question. ``cells`` counts the numbers in the answer; a histogram of 1 is a yes-or-no
    question. Values of sums, means and vectors lie from ``low`` to ``high`` and are rounded to multiples of ``unit``;
    ``norm`` bounds a vector's length. The rest is policy: ``max_epsilon0`` caps the local epsilon of one report,
    ``allow_unbounded_local`` allows reports without a local guarantee, ``min_batch_size`` is the least batch;
    ``max_epsilon_half`` caps the claim at B/2 (0: twice epsilon, at least 2), ``max_with_relay`` and
    ``max_half_with_relay`` cap both claims without sampling (P17), ``max_messages`` what a device sends behind a
    shuffler. ``model``: that of the recipe; ways of other models are for comparison."""

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
    max_messages: float = math.inf
    model: str = SecureAggregation.name

    def __post_init__(self) -> None:
        for name in ("population", "cells", "min_batch_size"):
            parameters.reports(getattr(self, name), name)
        if self.unit <= 0 or self.norm <= 0:
            raise ValueError("unit and norm must be above 0")
        parameters.failure_probability(self.delta)
        if not parameters.MIN_EPSILON0 <= parameters.finite("epsilon", self.epsilon) <= parameters.MAX_EPSILON0:
            limits = f"{parameters.MIN_EPSILON0:g} to {parameters.MAX_EPSILON0:g}"
            raise parameters.ParameterError("epsilon", f"must be from {limits}")
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
        """Whether every encoded value is 0 or 1, so that the answer counts devices."""
        return self.kind.counts_devices

    @property
    def kind(self) -> Statistic:
        """The statistic as methods know it; a histogram of one cell is a count."""
        return COUNT if STATISTICS[self.statistic].is_one_hot and self.cells == 1 else STATISTICS[self.statistic]

    @property
    def shape(self) -> Shape:
        """The question in the form that methods take."""
        return Shape(self.kind, self.cells, self.low, self.high, self.unit, self.norm if self.kind.is_vector else None)

    @property
    def maximum(self) -> int:
        """The largest encoded value of a cell: (high - low) / unit, rounded down."""
        return self.shape.maximum

    @property
    def holders(self) -> float:
        """Expected number of devices whose answer falls into one cell."""
        return self.population / max(2, self.cells)

    @property
    def vector_step(self) -> VectorStep:
        """How far one replaced vector moves the sum, in units."""
        radius = int(self.norm // self.unit)
        return VectorStep.replaced(self.cells, self.maximum, radius, one_signed=0 in (self.low, self.high))

    @property
    def step(self) -> float:
        """How far one replaced answer moves the answer: Euclidean length, in the answer's own units."""
        if self.kind.is_vector:
            return self.unit * math.sqrt(self.vector_step.squares)
        return self.unit * self.maximum * math.sqrt(self.shape.moved)

    @property
    def truth(self) -> float:
        """The assumed value of one number of the answer: a cell's holders; the total or the mean when half of the
        values are at either end; 0 in a vector."""
        if self.counts:
            return self.holders
        if self.kind.is_vector:
            return 0.0
        return (1 if self.kind.is_ratio else self.population) * float(self.low + self.high) / 2

    @property
    def squares(self) -> list[float] | None:
        """The sum of the squared values of one entry, for vectors of full length in no particular direction; None where
        ``truth`` is all that is needed."""
        if not self.kind.is_vector:
            return None
        return [self.population * float(min(self.norm**2 / self.cells, max(-self.low, self.high) ** 2))]

    @property
    def scale(self) -> float:
        """What a relative error refers to: the population, the range of a total, or the range of a mean."""
        span = 1.0 if self.counts else float(self.high - self.low)
        return span if self.kind.is_ratio else self.population * span

    def of_total(self, stderr: float) -> float:
        """Convert the error ``stderr`` of a total into the error of the answer: a mean divides by the population."""
        return stderr / self.population if self.kind.is_ratio else stderr


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to ask. ``stderr`` is in units of the answer (devices, for counts); ``contributions`` is an expectation;
    ``epsilon0`` is None without a local guarantee; ``inner`` is what a batch may cost before sampling is counted (what
    ``tacit recipe new`` takes); ``form`` is the model of a recipe that asks so, None where this platform does not run
    it. ``allowed``: it runs it, and policy allows that; ``available``: it may also be proposed, as a way of the wanted
    model; ``unguarded``: policy would allow it if it asked for no local guarantee. ``trust``: whom a device trusts for
    the privacy budget.

    ``method`` is what devices would run. It, the ``chunk_length`` of its proof and ``upload_bytes`` are None for ways
    that the platform does not run. A device sends ``messages``, of ``upload_bytes`` together: the leader's share,
    or the payload without token and seals; behind a shuffler the sealed messages.
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
    form: str | None = None
    allowed: bool = False
    unguarded: bool = False
    trust: str = TWO_SERVERS
    messages: int = 1

    @property
    def is_summed(self) -> bool:
        """Whether the platform runs it and a device is hidden by a sum of secret shares alone."""
        return self.method is not None and self.method.IS_PROVED and not self.method.IS_LOCAL

    def relative(self, needs: Requirements) -> float:
        """The error as a share of ``Requirements.scale``."""
        return self.stderr / needs.scale
