"""What a method is: one way to randomise an answer, to prove that, to estimate from the sum, and to account for it.

Each method is a class in a file of its own and one line in ``tacit.methods.registry``. It never sees a recipe: it takes
the shape of a question and the members that belong to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from tacit.dp.amplification import delta_fmt22, epsilon_fmt22
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.parameters import MAX_EPSILON0
from tacit.methods.design import SampleDesign
from tacit.methods.estimate import CellModel, Estimate
from tacit.methods.proof import Proof
from tacit.methods.statistics import Shape, StatisticName
from tacit.ports import Entropy

SHUFFLE_FMT22 = "shuffle-fmt22"
EPSILON_PLACES = 4
"""Decimals of a local epsilon that is searched for."""
Measurement = int | list[int]
"""What the VDAF takes: a category for Prio3Histogram, a bit for Prio3Count, bits for Prio3MultihotCountVec, an integer
for Prio3Sum, integers for Prio3SumVec."""
Answer = int | tuple[int, ...]
"""A device's encoded answer: a category, a bit, an integer from 0, or a vector of such."""
Members = Mapping[str, Any]
"""Members of a recipe's ``randomizer`` beside its name: ``categories`` and those of the method."""


@dataclass(frozen=True, slots=True)
class Draws:
    """A method's draws in words, for devices that others write: the measurement of an ``answer`` v, of a ``missing``
    one and of a ``dummy``, in the notation of ``docs/device.md``; ``bounds`` of its proof, where they follow from its
    members; ``note``: what a table has no room for."""

    answer: str
    dummy: str
    missing: str = "a dummy"
    bounds: str = ""
    note: str = ""


class Method(ABC):
    """One way to answer a question. ``NAME`` is the recipe's word, ``MEMBERS`` names what a recipe states of it beside
    ``categories``, ``STATISTICS`` what it answers. ``IS_LOCAL``: what one device sends hides its answer by itself.
    ``DRAWS``: how it does, for the page of methods."""

    NAME: ClassVar[str]
    MEMBERS: ClassVar[tuple[str, ...]]
    STATISTICS: ClassVar[tuple[StatisticName, ...]]
    IS_LOCAL: ClassVar[bool]
    DRAWS: ClassVar[Draws]

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether it answers such a question."""
        return shape.statistic.name in cls.STATISTICS

    @classmethod
    def categories_of(cls, shape: Shape) -> int:
        """What a recipe states as ``categories``."""
        return shape.cells

    @classmethod
    def stated_wrongly(cls, members: Members) -> str | None:
        """What of ``members`` is not one of the method's, or is not there, in words."""
        surplus = [f"{name} {value}" for name, value in members.items() if name not in {"categories", *cls.MEMBERS}]
        if surplus:
            return f"{cls.NAME} has {', '.join(surplus)}, which it does not take; leave it out"
        lacking = [name for name in ("categories", *cls.MEMBERS) if name not in members]
        return f"{cls.NAME} lacks {', '.join(lacking)}; state it" if lacking else None

    @classmethod
    def mismatch(cls, shape: Shape, members: Members) -> str | None:
        """What of ``members`` does not fit ``shape``, in words."""
        wanted, stated = cls.categories_of(shape), members["categories"]
        return None if stated == wanted else f"the encoder has {wanted} categories, the randomizer {stated}"

    @classmethod
    @abstractmethod
    def of(cls, shape: Shape, members: Members, batch_flips: int = 0) -> Self:
        """The method with the stated members, each of ``MEMBERS`` being among them. ``batch_flips``: noise that each
        aggregator adds. ``ValueError`` names what cannot be."""

    @classmethod
    @abstractmethod
    def tuned(cls, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Self:
        """With as little noise as ``epsilon`` allows: of one report where that hides its answer, otherwise of the sum
        of n reports at ``delta``. ``ValueError`` where there is none."""

    @abstractmethod
    def members(self) -> dict[str, Any]:
        """The members ``categories`` and ``MEMBERS`` as a recipe states them."""

    @property
    @abstractmethod
    def proof(self) -> Proof:
        """What proves that an output is one of this method's."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers the aggregate holds."""

    @abstractmethod
    def randomise(self, answer: Any, entropy: Entropy, /) -> Measurement | None:
        """The measurement to shard for a device whose encoded answer is ``answer`` (an ``Answer``).

        Run by the client, once per recipe. None: nothing is sent, with ``reject_probability`` whatever the
        answer. ``ValueError`` when the answer is out of range.
        """

    @abstractmethod
    def dummy(self, entropy: Entropy, /) -> Measurement:
        """The measurement of a report that says nothing (P20): a draw that depends on no answer, of the same form and
        range as every other measurement. Always sent."""

    def missing(self, entropy: Entropy, /) -> Measurement | None:
        """The measurement of a device that takes part and has no answer (P27): a dummy. None with the same probability
        as for every answer."""
        return self.dummy(entropy)

    @property
    def reject_probability(self) -> float:
        """The chance of None; it does not depend on the answer, nor on whether there is one."""
        return 0.0

    def rejecting_at_most(self, _chance: float) -> Self:
        """The same method with the least bound of its outputs at which at most so many of them are not sent."""
        return self

    def of_totals(self) -> Self:
        """The same method, whose estimates are totals: where it estimates means, of their sums."""
        return self

    @property
    def adds_between(self) -> tuple[float, float]:
        """The least and the most that one device's answer adds to a total."""
        return 0.0, 1.0

    @abstractmethod
    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """What a device without an answer adds in expectation to each total of ``estimate`` (to a mean: the value with
        which it is in it). It takes part at the rate of the default answer, if there is one."""

    @abstractmethod
    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts from the aggregate of n reports, dummies among them, of devices that sent as ``design``
        says. ``ValueError`` for counts that they cannot have, or a design that does not fit."""

    @abstractmethod
    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviations of ``estimate(...).values`` when the true counts are known; of sums, with ``squares``,
        the sums of the squared values (default: the largest possible)."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The mechanism's name in a claim, without sampling."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """epsilon of one report by itself; infinite where it is not hidden."""

    @abstractmethod
    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of the sum of n reports."""

    @abstractmethod
    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of n single reports in an order that says nothing."""

    def thresholds(self) -> dict[str, Any]:
        """What draws are compared with, in hex, for whoever writes a device."""
        return {}


@dataclass(frozen=True, slots=True)
class LocalMethod(Method):
    """A method of one category that is ``epsilon0``-LDP by replacement."""

    IS_LOCAL = True
    TAIL_SHARE: ClassVar[float] = 0.0
    """Share of delta that is kept for outputs that are not sent."""

    epsilon0: Decimal

    @classmethod
    def aggregate_delta(cls, _epsilon: float, _epsilon0: float, _n: int) -> float:
        """delta at ``epsilon`` of the sum of n reports with ``epsilon0``, all of them sent; 1 where nothing better is
        proved than holds for every epsilon0-LDP method."""
        return 1.0

    @classmethod
    def exceeds(cls, _epsilon: float, _epsilon0: float, _n: int, _delta: float) -> bool:
        """Whether a small part of its work is enough to see that ``aggregate_delta`` is above delta."""
        return True

    @classmethod
    def keeps(cls, epsilon0: float, n: int, delta: float, target: float) -> bool:
        """Whether the sum of n reports with ``epsilon0`` is (target, delta)-private, all of them being sent."""
        if epsilon0 <= target or delta_fmt22(target, epsilon0, n, tail=delta * 1e-4) <= delta:
            return True
        return not cls.exceeds(target, epsilon0, n, delta) and cls.aggregate_delta(target, epsilon0, n) <= delta

    @classmethod
    def seems_to_keep(cls, epsilon0: float, n: int, delta: float, target: float) -> bool:
        """Whether ``keeps`` may hold, for a small part of its work."""
        if epsilon0 <= target or not cls.exceeds(target, epsilon0, n, delta):
            return True
        return delta_fmt22(target, epsilon0, n, tail=delta * 1e-4) <= delta

    @classmethod
    def largest_epsilon0(cls, n: int, delta: float, epsilon: float, most: float = MAX_EPSILON0) -> float:
        """The largest local epsilon up to ``most`` with which the sum of n reports is (epsilon, delta)-private, rounded
        down. ``ValueError`` names what is out of range."""
        left = delta * (1 - cls.TAIL_SHARE)
        return largest_epsilon0(
            cls.keeps, n, left, epsilon, places=EPSILON_PLACES, seems_to_keep=cls.seems_to_keep, most=most
        )

    def members(self) -> dict[str, Any]:
        """``epsilon0`` and ``categories``."""
        return {"epsilon0": plain(self.epsilon0), "categories": self.cells}

    @abstractmethod
    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a one in a cell: (own category's cell, any other), before rejection."""

    @abstractmethod
    def _model(self, design: SampleDesign) -> CellModel:
        """The cells' probabilities in what is sent."""

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """By the cells' probabilities."""
        return self._model(design).missing_adds(self.cells)

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviation per category given the true counts."""
        return self._model(design).stderrs(truth, population)

    @property
    def mechanism(self) -> str:
        """Shuffled reports, unless the sum's own accountant knows better."""
        return SHUFFLE_FMT22

    @property
    def local_epsilon(self) -> float:
        """``epsilon0``."""
        return float(self.epsilon0)

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """That of the single reports, of which the sum is a function."""
        return self.reports_epsilon(n, delta)

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """Amplification by shuffling, which holds for every epsilon0-LDP method."""
        return epsilon_fmt22(self.local_epsilon, n, delta)


def rounded_epsilon0(value: float) -> Decimal:
    """A local epsilon with ``EPSILON_PLACES`` decimals, not above ``value``."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-EPSILON_PLACES), rounding=ROUND_FLOOR)


def plain(number: Decimal) -> str:
    """A decimal as recipes write it: no exponent, no trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def check_category(category: int, categories: int) -> None:
    """``ValueError`` unless 0 <= category < categories."""
    if not 0 <= category < categories:
        raise ValueError(f"category must be from 0 to {categories - 1}")
