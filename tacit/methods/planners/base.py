"""The interface of a planner: the parameters of a method with which it reaches a target.

Each planner is a class in this folder and one line in ``tacit.extension_points``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Generic, TypeVar

from tacit.dp.parameters import MAX_N
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import Shape

MethodT = TypeVar("MethodT", bound=Method)


@dataclass(frozen=True)
class Planner(ABC, Generic[MethodT]):
    """Plans ``method``. ``MOST_PLANNED``: the most reports for which it can be ``planned_for``."""

    MOST_PLANNED: ClassVar[int] = MAX_N

    method: type[MethodT]

    @abstractmethod
    def tuned(self, shape: Shape, epsilon: Decimal, n: int, delta: float) -> MethodT:
        """Make the method with as little noise as ``epsilon`` allows: epsilon of one report where that hides its
        answer, otherwise of the sum of n reports at ``delta``. ``ValueError`` where no parameters reach it."""

    def planned_for(self, made: MethodT, _reports: int) -> MethodT:
        """The same as ``made`` for about so many reports, where its parameters depend on that. ``ValueError`` where it
        cannot work with so many."""
        return made
