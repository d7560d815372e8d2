"""How the answers of a recipe are randomised and proved, and which devices answer: its members ``randomizer``,
``aggregator_noise``, ``vdaf`` and ``sampling``."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from tacit.models.parties import Part
from tacit.recipe.member_types import DecimalText, Natural, Positive, Size


class RandomizerSpec(Part):
    """What a device does to its answer (P18). Each randomizer has its own members and no others: ``epsilon0`` where it
    hides an answer by itself, ``max_weight`` where it bounds the ones of a vector, ``scale``, ``flips`` and ``maximum``
    for noise shares (one-bit: ``maximum``, ``epsilon0``), ``noise_rate`` for shuffled messages, ``reports`` where its
    parameters depend on how many are expected. ``categories``: numbers in a measurement (rr and one-bit: 2)."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    categories: Positive
    epsilon0: DecimalText | None = None
    max_weight: Positive | None = None
    scale: Positive | None = None
    flips: Positive | None = None
    maximum: Positive | None = None
    reports: Positive | None = None
    noise_rate: DecimalText | None = None


class AggregatorNoise(Part):
    """Noise that leader and helper each add to every number, once per batch: ``flips`` centred coin flips."""

    flips: Positive


class VectorSpec(Part):
    """What is proved of a vector: its values lie in [0, ``max_value``] and the sum of their squared distances from
    ``centre`` is at most ``max_square``. With ``scale`` 1 and ``flips`` 0 that is the vector that enters the sum, noise
    included; in older recipes what is added to ``scale`` times each value lies in [0, ``flips``], and only that is
    proved of it."""

    max_value: Positive
    centre: Natural
    max_square: Positive
    scale: Positive
    flips: Natural


class VdafSpec(Part):
    """The VDAF that proves the randomizer's output valid. Prio3Count and Prio3Sum have length 1; they and Prio3CountVec
    have chunk length 1. ``max_measurement`` is a member for the sums only, ``vector`` for Prio3L2BoundSum."""

    name: Literal[
        "Prio3Histogram",
        "Prio3MultihotCountVec",
        "Prio3Count",
        "Prio3Sum",
        "Prio3SumVec",
        "Prio3CountVec",
        "Prio3L2BoundSum",
    ]
    length: Size
    chunk_length: Size
    max_weight: Positive | None = None
    max_measurement: Positive | None = None
    vector: VectorSpec | None = None

    @property
    def vector_members(self) -> dict[str, int] | None:
        """The members of ``vector``; None for a VDAF without it."""
        return None if self.vector is None else self.vector.model_dump()


class Dummies(Part):
    """Dummy reports, which contain no answer (P20): an eligible device that does not take part sends one with
    probability ``intensity / population``. ``population``: how many devices are eligible at least, as stated by the
    operator."""

    intensity: DecimalText
    population: Positive


class Importance(Part):
    """The rate of devices whose encoded answer is ``default`` (category, bit or number); all others have the sampling's
    own rate, which is the larger one. ``devices``: the least number of devices that contribute to the number of
    messages (absent: one), as attested by a census."""

    default: Natural
    default_rate: DecimalText
    devices: Positive | None = None


class Sampling(Part):
    """Probability with which a device takes part, decided by its own coin."""

    rate: DecimalText
    importance: Importance | None = None
    dummies: Dummies | None = None

    def rate_of(self, answer: object) -> Decimal:
        """The probability with which a device with this encoded answer takes part; without an answer (None), that of
        the default."""
        held = self.importance is not None and answer in (None, self.importance.default)
        return Decimal(self.importance.default_rate if self.importance and held else self.rate)

    @property
    def dummy_rate(self) -> Fraction:
        """The probability with which a device that does not take part sends a dummy."""
        return Fraction(self.dummies.intensity) / self.dummies.population if self.dummies else Fraction(0)
