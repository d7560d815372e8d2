"""k-ary randomised response (design rule P18): the output is one category, proved by Prio3Histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from tacit.dp.repeated.losses import Curve
from tacit.methods.base.draws import ONE, epsilon0_from, keep_threshold
from tacit.methods.base.method import LocalMethod, Members
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import Shape


@dataclass(frozen=True, slots=True)
class Krr(LocalMethod):
    """Reports the true category with probability e^e0/(e^e0 + k - 1), each other one with 1/(e^e0 + k - 1)."""

    NAME = "krr"
    MEMBERS = ("epsilon0",)
    STATISTICS = ("histogram",)
    categories: int
    keep_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.categories < 2:
            raise ValueError("categories must be at least 2")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "keep_below", keep_threshold(self.epsilon0, self.categories - 1))

    @classmethod
    def of(cls, _shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` for an epsilon0 out of range, or fewer than two
        categories."""
        return cls(members["epsilon0"], members["categories"])

    @property
    def proof(self) -> Proof:
        """The proof that the vector has exactly one 1 (Prio3Histogram)."""
        return Proof("Prio3Histogram", self.categories, self.categories)

    @property
    def cells(self) -> int:
        """The number of cells: one per category."""
        return self.categories

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probabilities of (the true category, each other category), exactly as drawn."""
        keep = Fraction(self.keep_below, ONE)
        return keep, (1 - keep) / (self.categories - 1)

    @property
    def single_curve(self) -> Curve:
        """Two categories differ in two of k outputs: ``(e^epsilon0 - e^epsilon) / (e^epsilon0 + k - 1)`` at most. A
        missing answer is the mean of all categories."""
        most = math.exp(self.local_epsilon)
        return lambda epsilon: max(0.0, most - math.exp(epsilon)) / (most + self.categories - 1)
