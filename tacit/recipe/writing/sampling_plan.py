"""How many messages a recipe can expect, and the member ``sampling``, from the analyst's figures about the devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from tacit.dp.hidden_claim import Sample, sufficient_intensity
from tacit.errors import UsageError
from tacit.methods.base.method import plain

FILL = Decimal("0.8")
"""Default B as a share of the expected contributions."""
_PLACES = Decimal("0.1")


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """``population`` devices take part at ``rate``, those with the encoded answer ``default`` at ``default_rate``; the
    share ``others`` of all devices has another answer. ``dummies`` is the number expected from devices that do not take
    part. ``attested``: how many devices, at least, a census in the log has found."""

    population: int
    rate: Decimal
    default: int | None = None
    default_rate: Decimal | None = None
    others: Decimal | None = None
    dummies: Decimal | None = None
    attested: int | None = None

    def __post_init__(self) -> None:
        if self.default_rate is not None and not 0 < self.default_rate <= self.rate < 1:
            raise UsageError(
                f"importance sampling needs rates above 0 and below 1, that of the default answer the smaller one, not "
                f"{plain(self.default_rate)} and {plain(self.rate)}"
            )

    @property
    def is_plain(self) -> bool:
        """Whether every device takes part at one rate, and there are no dummies."""
        return self.default_rate is None and self.dummies is None

    @property
    def messages(self) -> Decimal:
        """The expected number of messages, dummies included."""
        taking_part = self.rate * self.population
        if self.default_rate is not None and self.others is not None:
            taking_part = (self.others * self.rate + (1 - self.others) * self.default_rate) * self.population
        return taking_part + (self.dummies or 0) * (1 - taking_part / max(1, self.population))

    def batch_size(self) -> int:
        """The default B: 0.8 of the expected messages."""
        return int((FILL * self.messages).to_integral_value(ROUND_FLOOR))

    def with_dummies_for(self, epsilon: Decimal, delta: Decimal, batch_size: int | None) -> SamplingPlan:
        """This plan with the fewest dummies that hide, to ``epsilon`` at ``delta``, whether a device sent from an
        observer who knows which others took part. Raises ``UsageError`` where no number suffices."""
        sample = self.sample(max(1, self.batch_size() if batch_size is None else batch_size))
        try:
            enough = sufficient_intensity(sample, float(epsilon), float(delta))
        except ValueError as error:
            raise UsageError(f"no number of dummies fits: {error}") from error
        if enough is None:
            raise UsageError(
                f"no number of dummies from {self.population} devices at q = {plain(self.rate)} hides whether "
                f"one sent, to epsilon {plain(epsilon)}; lower q, ask more devices, or allow a larger epsilon"
            )
        return replace(self, dummies=Decimal(repr(enough)).quantize(_PLACES, rounding=ROUND_CEILING))

    def sample(self, batch_size: int) -> Sample:
        """The sample from which claims are computed; B is ``batch_size``. Raises ``UsageError``."""
        default_rate = None if self.default_rate is None else float(self.default_rate)
        try:
            return Sample(
                batch_size,
                float(self.rate),
                default_rate,
                float(self.dummies or 0),
                self.population,
                self.attested or 1,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error

    def expected_contributions(self, batch_size: int) -> int:
        """``expected_contributions`` (P15); dummies count, since they are messages like all others."""
        return max(batch_size, math.ceil(self.messages))

    def body(self) -> dict[str, Any]:
        """The recipe's member ``sampling``."""
        body: dict[str, Any] = {"rate": plain(self.rate)}
        if self.default_rate is not None:
            body["importance"] = {"default": self.default, "default_rate": plain(self.default_rate)}
            body["importance"] |= {} if self.attested is None else {"devices": self.attested}
        if self.dummies is not None:
            body["dummies"] = {"intensity": plain(self.dummies), "population": self.population}
        return body
