"""The plan of a training run: one document from which its series, and after every release its next model, follow.

Every member is decided before the first device is asked. What does not fit is refused with what would fit; whether the
noise can be made and a contribution be sent is known when the series is made (``tacit.operations.learning.plans``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tacit.errors import DecodeError
from tacit.models.parties import Part
from tacit.recipe.encoder_specs import MAX_SUM, Update
from tacit.recipe.fields import parse_fields, parse_file, wrong
from tacit.recipe.member_types import Label, Natural, Positive, Text
from tacit.recipe.model import MAX_ROUNDS, Interval, Question
from tacit.recipe.quantity import PositiveQuantity, exact
from tacit.recipe.series import MAX_SECONDS
from tacit.recipe.training import MAX_CLIP, Training
from tacit.recipe.writing.survey import Amount, Fraction, Proven

MAX_SEED: Final = (1 << 32) - 1
MAX_RATE: Final = 10
"""Of an adaptive clip."""
LEAST_CLIP: Final = Decimal("0.000001")
"""Of an adaptive clip: four digits of it are within the nine places of a recipe."""


class FedAvgPlan(Part):
    """Adds ``learning_rate`` times the mean update, and keeps ``momentum`` of those before (absent: nothing)."""

    kind: Literal["fedavg"]
    learning_rate: PositiveQuantity
    momentum: Fraction | None = None


class FedAdamPlan(Part):
    """FedAdam, with the usual ``beta1`` 0.9, ``beta2`` 0.99 and ``tau`` 0.001 where they are absent."""

    kind: Literal["fedadam"]
    learning_rate: PositiveQuantity
    beta1: Fraction = Decimal("0.9")
    beta2: Fraction = Decimal("0.99")
    tau: PositiveQuantity = "0.001"


class Adaptive(Part):
    """The clip follows the updates: after each round it is changed so that about the share ``target`` of devices need
    not shorten theirs (``tacit.learning.clipping``); ``rate``: how fast."""

    target: Fraction = Decimal("0.5")
    rate: PositiveQuantity = "0.2"


ServerOptimiser = Annotated[FedAvgPlan | FedAdamPlan, Field(discriminator="kind")]


class Plan(Part):
    """A run of ``rounds`` rounds. In each, every one of the ``devices`` expected takes part with the probability
    ``rate``; a round with fewer than ``min_batch_size`` (B) contributions is not released. ``clip``: the Euclidean
    length to which a device shrinks its update (with ``adaptive``: in the first round); ``unit``: the step, in
    clips, to which it rounds entries. ``epsilon`` at ``delta``: the total of all rounds against one aggregator or
    the analyst (claim (a)). Reports are made for ``round_seconds``; ``release_seconds`` later the next round
    begins, whose model needs this one's release. ``seed``: that of the first model."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,55}$")]
    metric: Label
    text: Text
    training: Training
    clip: PositiveQuantity
    adaptive: Adaptive | None = None
    unit: PositiveQuantity
    server: ServerOptimiser
    seed: Annotated[Natural, Field(le=MAX_SEED)] = 0
    devices: Positive
    rate: Fraction
    min_batch_size: Positive
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
    round_seconds: Positive
    release_seconds: Positive
    epsilon: Amount
    delta: Fraction
    proof: Proven = "range"

    def model_post_init(self, context: Any, /) -> None:
        """Refuse members that do not fit together, each with what would."""
        if (self.training.quantile is None) != (self.adaptive is None):
            raise wrong("adaptive", "and training.quantile belong together: its entry tells the share of short updates")
        if self.adaptive is not None and exact(self.adaptive.rate) > MAX_RATE:
            raise wrong("adaptive.rate", f"must be at most {MAX_RATE}")
        if self.adaptive is not None and exact(self.clip) < LEAST_CLIP:
            raise wrong("clip", f"must be at least {LEAST_CLIP} where it is adaptive: it does not fall below that")
        if self.training.length > MAX_SUM:
            raise wrong(
                "training.architecture",
                f"has {self.training.length:,} entries to send; at most {MAX_SUM:,} fit, as by a `projection`",
            )
        if exact(self.clip) > MAX_CLIP:
            raise wrong("clip", f"must be at most {MAX_CLIP}")
        if self.min_batch_size > self.expected_contributions:
            raise wrong(
                "min_batch_size",
                f"must be at most {math.floor(self.expected_contributions):,}, what `rate` {self.rate} x `devices` "
                f"{self.devices:,} brings; or take {math.ceil(self.min_batch_size / self.rate):,} devices",
            )
        if self.seconds > MAX_SECONDS:
            fitting = MAX_SECONDS // self.period
            raise wrong("rounds", f"take {self.seconds} seconds, and a series has {MAX_SECONDS}: {fitting} would fit")
        if 1 % exact(self.unit):
            raise wrong("unit", "must divide 1, as 0.01 does: it is the step, in clips, to which entries are rounded")
        self.encoder  # noqa: B018 - refuses what no recipe can hold

    @classmethod
    def read(cls, data: bytes, name: str) -> Plan:
        """The plan in a JSON or TOML file called ``name``. Raises ``DecodeError`` and ``FieldError``. How long the
        text is does not matter: every member has its own bound."""
        body = parse_file(data, name)
        if not isinstance(body, dict):
            raise DecodeError(f"{name}: a plan is an object with members")
        return cls.from_body(body)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Plan:
        """The plan with these members. Raises ``FieldError``."""
        return parse_fields(cls, body, tagged="server")

    @cached_property
    def encoder(self) -> Update:
        """What a device sends: its update in clips, of Euclidean length 1 at most. Raises ``FieldError``."""
        own = {"kind": "update", "length": self.training.length, "low": -1, "high": 1, "unit": self.unit, "norm": 1}
        return parse_fields(Update, {**own, "training": self.training})

    @property
    def question(self) -> Question:
        """What every round asks, before it has a model."""
        return Question(text=self.text, metric=self.metric, encoder=self.encoder, statistic="vector-sum")

    @property
    def expected_contributions(self) -> Decimal:
        return self.rate * self.devices

    @property
    def period(self) -> int:
        """Seconds from the beginning of a round to that of the next."""
        return self.round_seconds + self.release_seconds

    @property
    def seconds(self) -> int:
        """Length of the whole run."""
        return self.rounds * self.period

    def interval(self, start: int, index: int) -> Interval:
        """When reports of round ``index`` are made, in a run that begins at ``start`` (POSIX seconds)."""
        return Interval(start=start + index * self.period, duration=self.round_seconds)


EXAMPLE: Final = {
    "name": "digits",
    "metric": "digits",
    "text": "Which changes of the model recognise your own handwritten digits better?",
    "training": {
        "architecture": {"kind": "softmax", "inputs": 64, "classes": 10},
        "steps": 1,
        "learning_rate": 1,
    },
    "clip": 1,
    "unit": "0.01",
    "server": {"kind": "fedavg", "learning_rate": 1, "momentum": "0.7"},
    "seed": 0,
    "devices": 10_000,
    "rate": "0.05",
    "min_batch_size": 400,
    "rounds": 30,
    "round_seconds": 3600,
    "release_seconds": 1200,
    "epsilon": 2,
    "delta": "0.000001",
    "proof": "norm",
}
"""Handwritten digits of 8 x 8 pixels: a plan to begin with."""

SMALL: Final = {
    **EXAMPLE,
    "name": "small",
    "clip": "0.06",
    "unit": "0.1",
    "devices": 60,
    "rate": "0.9",
    "min_batch_size": 45,
    "rounds": 5,
    "round_seconds": 90,
    "release_seconds": 30,
    "epsilon": 8,
}
"""The same digits, whose pixels are whole numbers from 0 to 16, on the devices of a stack on one machine: so few that
much must be told of each to learn anything."""
EXAMPLES: Final = {"digits": EXAMPLE, "small": SMALL}
"""Plans to begin with, by name."""
