"""Binary randomised response (design rule P18): one bit, proved by Prio3Count."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

from tacit.dp.rr_exact import delta_one_cell, epsilon_one_cell, rr_flip
from tacit.methods.base.draws import ONE, epsilon0_from, keep_threshold
from tacit.methods.base.method import LocalMethod, Members, plain
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import Shape, StatisticName

_BITS = 2


@dataclass(frozen=True, slots=True)
class Rr(LocalMethod):
    """Reports the true bit with probability e^e0/(e^e0 + 1), else the other one. The only cell counts the devices that
    hold a 1."""

    NAME = "rr"
    MEMBERS: ClassVar[tuple[str, ...]] = ("epsilon0",)
    STATISTICS: ClassVar[tuple[StatisticName, ...]] = ("count",)
    keep_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "keep_below", keep_threshold(self.epsilon0, 1))

    @classmethod
    def categories_of(cls, _shape: Shape) -> int:
        """Always 2: this method answers false or true."""
        return _BITS

    @classmethod
    def of(cls, _shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` for an epsilon0 out of range, or categories other
        than two."""
        if members["categories"] != _BITS:
            raise ValueError(f"categories must be {_BITS} for rr")
        return cls(members["epsilon0"])

    def members(self) -> dict[str, Any]:
        """``epsilon0``, and ``categories`` = 2."""
        return {"epsilon0": plain(self.epsilon0), "categories": _BITS}

    @property
    def proof(self) -> Proof:
        """The proof that the number is 0 or 1 (Prio3Count)."""
        return Proof("Prio3Count", 1, 1)

    @property
    def cells(self) -> int:
        """Always 1: the count of ones."""
        return 1

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of reporting a 1 for (true bit 1, true bit 0)."""
        keep = Fraction(self.keep_below, ONE)
        return keep, 1 - keep

    @classmethod
    def aggregate_delta(cls, epsilon: float, epsilon0: float, n: int) -> float:
        """Exact delta of one count of n flipped bits."""
        return delta_one_cell(epsilon, rr_flip(epsilon0), n)

    @property
    def mechanism(self) -> str:
        """Name of the exact accountant of one count."""
        return "rr-exact"

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon, or the shuffling bound where that is less."""
        return min(self.reports_epsilon(n, delta), epsilon_one_cell(rr_flip(self.local_epsilon), n, delta))
