"""The interface of a method: what a recipe states of one way to randomise an answer, what proves it, and what it costs.

Each method is a class in its own file and one line in ``tacit.extension_points``. It never sees a recipe: it receives
the shape of a question and the members that belong to it. How a device draws, how a collector estimates from the
sum, and how an analyst chooses parameters, is said in folders beside it: ``randomisers``, ``estimators``, ``planners``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from tacit.dp.amplification import delta_fmt22, epsilon_fmt22
from tacit.dp.binomial_noise import NoiseShare
from tacit.dp.parameters import MAX_N
from tacit.dp.repeated.losses import Curve
from tacit.dp.reports import NoiseStep
from tacit.methods.base.proof import NormProof, Proof
from tacit.methods.base.statistics import Shape, StatisticName

SHUFFLE_FMT22 = "shuffle-fmt22"
MOST_COUNTED = 1 << 17
"""So many reports are summed exactly for the curve of a sum; a device computes one in two seconds."""
Measurement = int | list[int]
"""The VDAF's input: a category for Prio3Histogram, a bit for Prio3Count, bits for Prio3MultihotCountVec, an integer for
Prio3Sum, integers for Prio3SumVec and Prio3L2BoundSum (in older recipes: values and then their noises). For one server
that searches reports: their public randomness and a value."""
Answer = int | tuple[int, ...]
"""A device's encoded answer: a category, a bit, an integer from 0, or a vector of such."""
Members = Mapping[str, Any]
"""The members of a recipe's ``randomizer`` other than its name: ``categories`` and those of the method."""


class Method(ABC):
    """One way to answer a question. ``NAME`` is its name in a recipe, ``MEMBERS`` are the members that a recipe states
    for it beside ``categories``, ``STATISTICS`` are the statistics that it answers. ``IS_LOCAL``: a single report hides
    its answer by itself. ``IS_PROVED``: its outputs have a ``proof``, so that they can be added up as secret shares.
    ``ENGINE``: the name of what searches single reports for frequent items (``tacit.succinct.engines``); None where
    reports are added up. ``IS_SHUFFLED``: a measurement is how many messages a device sends about each cell, and they
    hide its answer only once they are shuffled among those of others."""

    NAME: ClassVar[str]
    MEMBERS: ClassVar[tuple[str, ...]]
    STATISTICS: ClassVar[tuple[StatisticName, ...]]
    IS_LOCAL: ClassVar[bool]
    IS_PROVED: ClassVar[bool] = True
    ENGINE: ClassVar[str | None] = None
    IS_SHUFFLED: ClassVar[bool] = False

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether the method can answer a question of this shape: by its statistic, and in some methods by its
        cells."""
        return shape.statistic.name in cls.STATISTICS

    @classmethod
    def categories_of(cls, shape: Shape) -> int:
        """The value that a recipe must state as ``categories``: the number of cells, unless the method says
        otherwise."""
        return shape.cells

    @classmethod
    def stated_wrongly(cls, members: Members) -> str | None:
        """Describe which of ``members`` are superfluous or missing; None if they are right."""
        surplus = [f"{name} {value}" for name, value in members.items() if name not in {"categories", *cls.MEMBERS}]
        if surplus:
            return f"{cls.NAME} has {', '.join(surplus)}, which it does not take; leave it out"
        lacking = [name for name in ("categories", *cls.MEMBERS) if name not in members]
        return f"{cls.NAME} needs {', '.join(lacking)}; add it" if lacking else None

    @classmethod
    def mismatch(cls, shape: Shape, members: Members) -> str | None:
        """Describe which of ``members`` do not fit ``shape``; None if they fit."""
        wanted, stated = cls.categories_of(shape), members["categories"]
        return None if stated == wanted else f"the encoder has {wanted} categories, but the randomizer states {stated}"

    @classmethod
    @abstractmethod
    def of(cls, shape: Shape, members: Members, batch_flips: int = 0) -> Self:
        """Make the method from the stated members, which include each of ``MEMBERS``. ``batch_flips``: noise that each
        aggregator adds. ``ValueError`` names a member that is out of range."""

    @abstractmethod
    def members(self) -> dict[str, Any]:
        """The members ``categories`` and ``MEMBERS`` as a recipe states them."""

    @property
    def proof(self) -> Proof | None:
        """The VDAF that proves an output valid for this method; None if none does, and only models without a VDAF can
        use the method."""
        return None

    @property
    def noise_share(self) -> NoiseShare | None:
        """The noise that a device adds as its share of what hides everybody in the sum; None where a report hides its
        answer by itself."""
        return None

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers the aggregate holds."""

    @property
    def largest(self) -> int:
        """The largest number that a cell of a measurement holds."""
        return 1

    @property
    def messages(self) -> int:
        """How many messages a device sends: one, or more where they are shuffled among those of others."""
        return 1

    def proving_norm(self, _of: NormProof = NormProof.SUM) -> Self:
        """The method for devices that prove the Euclidean length of their vector. ``ValueError`` if it has none."""
        raise ValueError(f"{self.NAME} has no vectors whose norm could be proved")

    @property
    def most_reports(self) -> int:
        """The largest n for which ``aggregate_epsilon`` can be computed."""
        return MAX_N

    @property
    def reject_probability(self) -> float:
        """The probability that ``randomise`` returns None; the same for every answer and for a missing one."""
        return 0.0

    def rejecting_at_most(self, _chance: float) -> Self:
        """The same method with the least weight bound at which an output is rejected with a probability of at most
        ``_chance``."""
        return self

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The mechanism's name in a claim, without sampling."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """epsilon of one report by itself; infinite where a single report does not hide its answer."""

    @property
    def noise_step(self) -> NoiseStep | None:
        """How a replaced answer changes the sum that noise shares hide; None for a method without them."""
        return None

    @abstractmethod
    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of the sum of n reports, up to ``most_reports``, one of which is replaced; infinite
        where nothing is guaranteed."""

    @abstractmethod
    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """epsilon at ``delta`` of n single reports in an order that reveals nothing."""

    def aggregate_curve(self, _n: int) -> Curve | None:
        """An upper bound of the hockey stick of the sum of ``_n`` reports at every epsilon, any one of which is
        replaced; None where no such bound is computed."""
        return None

    def reports_curve(self, _n: int) -> Curve | None:
        """The same for ``_n`` single reports in an order that reveals nothing."""
        return None

    @property
    def single_curve(self) -> Curve | None:
        """The same for one report by itself; None where it is not below that of binary randomised response."""
        return None


@dataclass(frozen=True, slots=True)
class LocalMethod(Method):
    """A method for categories that is ``epsilon0``-LDP by replacement."""

    IS_LOCAL = True
    TAIL_SHARE: ClassVar[float] = 0.0
    """Share of delta that is reserved for outputs that are not sent."""

    epsilon0: Decimal

    @classmethod
    def aggregate_delta(cls, _epsilon: float, _epsilon0: float, _n: int) -> float:
        """delta at ``epsilon`` of the sum of n reports with ``epsilon0``, all of them sent; 1 where only the bound for
        every epsilon0-LDP method is proved."""
        return 1.0

    def members(self) -> dict[str, Any]:
        """``epsilon0`` and ``categories``."""
        return {"epsilon0": plain(self.epsilon0), "categories": self.cells}

    @abstractmethod
    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a one in a cell: (own category's cell, any other), before rejection."""

    @property
    def mechanism(self) -> str:
        """Shuffled reports, unless the method has an accountant for the sum."""
        return SHUFFLE_FMT22

    @property
    def local_epsilon(self) -> float:
        """The local randomizer's ``epsilon0`` as a float."""
        return float(self.epsilon0)

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The epsilon of the single reports: the sum is a function of them."""
        return self.reports_epsilon(n, delta)

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """Amplification by shuffling, which holds for every epsilon0-LDP method."""
        return epsilon_fmt22(self.local_epsilon, n, delta)

    def reports_curve(self, n: int) -> Curve:
        """Amplification by shuffling. A rejection says nothing about the answer, and what is sent is epsilon0-LDP."""
        return lambda epsilon: delta_fmt22(epsilon, self.local_epsilon, n)

    def aggregate_curve(self, n: int) -> Curve:
        """That of the reports or, where it is lower, ``aggregate_delta``. With eta the chance that one of the reports
        is rejected, ``P(S | all are sent) <= P(S) / (1 - eta)`` and ``Q(S) <= (1 - eta) Q(S | all are sent) + eta``,
        whence ``(H + e^epsilon eta) / (1 - eta)``. Of more than ``MOST_COUNTED`` reports the others only add what does
        not depend on the answer."""
        shuffled, counted = self.reports_curve(n), min(n, MOST_COUNTED)
        eta = -math.expm1(counted * math.log1p(-self.reject_probability))

        def lower(epsilon: float) -> float:
            exact = self.aggregate_delta(epsilon, self.local_epsilon, counted) + math.exp(epsilon) * eta
            return min(shuffled(epsilon), exact / (1 - eta) if eta < 1 else 1.0)

        return lower


def plain(number: Decimal) -> str:
    """A decimal as recipes write it: no exponent, no trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def check_category(category: int, categories: int) -> None:
    """``ValueError`` unless 0 <= category < categories."""
    if not 0 <= category < categories:
        raise ValueError(f"category must be from 0 to {categories - 1}")
