"""The interface of a randomizer."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from tacit.methods.design import SampleDesign
from tacit.methods.estimate import Estimate
from tacit.ports import Entropy

RELATION = "replacement"
Measurement = int | list[int]
"""What the VDAF takes: a category for Prio3Histogram, a bit for Prio3Count, bits for Prio3MultihotCountVec, an integer
for Prio3Sum, integers for Prio3SumVec."""
Answer = int | tuple[int, ...]
"""A device's encoded answer: a category, a bit, an integer from 0, or a vector of such."""


class Randomizer(Protocol):
    """What a device does to its encoded answer, with the estimator that belongs to it."""

    @property
    def name(self) -> str:
        """The recipe's word: ``krr``, ``rappor``, ``rr`` or ``flips``."""
        ...

    @property
    def cells(self) -> int:
        """How many numbers the aggregate holds."""
        ...

    def randomise(self, answer: Any, entropy: Entropy, /) -> Measurement | None:
        """The measurement to shard for a device whose encoded answer is ``answer`` (an ``Answer``).

        Run by the client, once per recipe. None: nothing is sent, with ``reject_probability`` whatever the
        answer. ``ValueError`` when the answer is out of range.
        """
        ...

    def dummy(self, entropy: Entropy, /) -> Measurement:
        """The measurement of a report that says nothing (P20): a draw that depends on no answer, of the same form and
        range as every other measurement. Always sent."""
        ...

    def missing(self, entropy: Entropy, /) -> Measurement | None:
        """The measurement of a device that takes part and has no answer (P27): a dummy. None with the same probability
        as for every answer."""
        ...

    @property
    def reject_probability(self) -> float:
        """The chance of None; it does not depend on the answer, nor on whether there is one."""
        ...

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """What a device without an answer adds in expectation to each total of ``estimate`` (to a mean: the value with
        which it is in it). It takes part at the rate of the default answer, if there is one."""
        ...

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts from the aggregate of n reports, dummies among them, of devices that sent as ``design``
        says. ``ValueError`` for counts that they cannot have, or a design that does not fit."""
        ...

    def expected_stderrs(self, truth: Sequence[float], population: int, design: SampleDesign) -> tuple[float, ...]:
        """Standard deviations of ``estimate(...).values`` when the true counts are known."""
        ...


class LocalRandomizer(Randomizer, Protocol):
    """An epsilon0-LDP randomizer of one category: what one device sends hides its answer by itself."""

    @property
    def epsilon0(self) -> Decimal:
        """Local epsilon, by replacement."""
        ...

    @property
    def relation(self) -> str:
        """The neighbouring relation of ``epsilon0``."""
        ...

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a one in a cell: (own category's cell, any other), before rejection."""
        ...


def check_category(category: int, categories: int) -> None:
    """``ValueError`` unless 0 <= category < categories."""
    if not 0 <= category < categories:
        raise ValueError(f"category must be from 0 to {categories - 1}")
