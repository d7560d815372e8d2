"""The recipe: one public, signed statement of what is asked, how it is randomised, who takes part and what it costs.

This module only defines its form: members, types, canonical bytes (RFC 8785, rule P6) and hash. The named rules of
``tacit.rules.table`` decide whether a recipe is acceptable. Numbers are integers or decimal strings
(``tacit.recipe.quantity``: those that may be either); binary members are unpadded base64url; every member is required
unless it says otherwise.
"""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator

from tacit.dp.claim import UNBOUNDED
from tacit.methods.base.statistics import StatisticName
from tacit.models.forms import FORMS, find_form
from tacit.models.parties import Operator, Part, Parties, UnknownParties
from tacit.recipe.document import Document
from tacit.recipe.encoder_specs import Attributes, EncoderSpec
from tacit.recipe.member_types import AttributeName, AttributeValue, Label, Natural, Positive, Text
from tacit.recipe.privacy import Privacy, epsilon_of
from tacit.recipe.randomised import AggregatorNoise, RandomizerSpec, Sampling, VdafSpec
from tacit.tlog.fields import Key32
from tacit.version import DAP_18, VERSIONS, DapVersion

MAX_ROUNDS = 10_000
MAX_ROUND_INPUT = 16_384


class Question(Part):
    """What every device is asked of its own data. ``metric`` is the field that the data source provides, and
    ``round_input`` what a round of a series passes to the data source, opaque to everybody else."""

    text: Text
    metric: Label
    encoder: EncoderSpec
    statistic: StatisticName
    round_input: Annotated[str, Field(min_length=1, max_length=MAX_ROUND_INPUT)] | None = None


class Batch(Part):
    """``min_batch_size`` is B; ``time_precision`` in seconds; ``expected_contributions`` in reports (P15)."""

    min_batch_size: Positive
    mode: Literal["time_interval", "leader_selected"]
    close: Literal["interval_end", "at_B"]
    time_precision: Positive
    expected_contributions: Positive


class Interval(Part):
    """When reports may be made: ``start`` in POSIX seconds and ``duration`` in seconds, both multiples of the time
    precision."""

    start: Natural
    duration: Positive

    @property
    def end(self) -> int:
        """POSIX second from which no report may be made."""
        return self.start + self.duration


class Audience(Part):
    """Which devices are asked: those of the population that have every attribute value of ``criteria``, evaluated on
    the device alone (SA2 5.5); absent: all of the population."""

    population: Label
    criteria: Annotated[dict[AttributeName, AttributeValue], Field(min_length=1, max_length=4)] | None = None


class TokenSlot(Part):
    """The slot whose tokens this recipe spends (P8)."""

    issuer: Operator
    epoch: Natural
    slot: Annotated[int, Field(ge=0, le=2**32 - 1)]


class SeriesRound(Part):
    """The series to which a recipe belongs as a round (P26), by the SHA-256 of its canonical bytes, and the number of
    the round, from 0."""

    hash: Key32
    index: Annotated[int, Field(ge=0, lt=MAX_ROUNDS)]


_SHAPES: Any = reduce(or_, (form.parties for form in FORMS.values()))
"""The parties of the known models, for the JSON Schema."""


class Recipe(Document):
    """A recipe: what is asked of which devices, how, by whom, and at what privacy cost."""

    what = "recipe"

    version: Annotated[int, Field(ge=1, le=1)]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    question: Question
    model: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    randomizer: RandomizerSpec
    vdaf: Annotated[VdafSpec | None, Field(validate_default=True)] = None
    dap_version: Literal["dap-19"] | None = None
    aggregator_noise: AggregatorNoise | None = None
    sampling: Sampling
    batch: Batch
    interval: Interval
    privacy: Privacy
    audience: Audience
    token: TokenSlot
    parties: SerializeAsAny[Parties]
    series: SeriesRound | None = None

    @field_validator("vdaf")
    @classmethod
    def _check_vdaf(cls, vdaf: VdafSpec | None, info: ValidationInfo) -> VdafSpec | None:
        """Refuse a recipe without a VDAF where the model needs one for its proofs, and one with a VDAF where it does
        not."""
        form = find_form(info.data.get("model", ""))
        if form is not None and form.proves != (vdaf is not None):
            raise ValueError("is missing" if form.proves else f"{form.name} has none")
        return vdaf

    @field_validator("dap_version")
    @classmethod
    def _check_dap_version(cls, dap_version: str | None, info: ValidationInfo) -> str | None:
        """Refuse a version of DAP in a model without a DAP task, where it would say nothing."""
        form = find_form(info.data.get("model", ""))
        if dap_version is not None and form is not None and not form.proves:
            raise ValueError(f"{form.name} has no DAP task")
        return dap_version

    @field_validator("parties", mode="plain", json_schema_input_type=_SHAPES)
    @classmethod
    def _of_the_model(cls, parties: Any, info: ValidationInfo) -> Parties:
        """The parties of the model; for an unknown model, any parties."""
        form = find_form(info.data.get("model", ""))
        shape = UnknownParties if form is None else form.parties
        return parties if isinstance(parties, shape) else shape.model_validate(parties, strict=True)

    @field_validator("privacy")
    @classmethod
    def _check_epsilons(cls, privacy: Privacy, info: ValidationInfo) -> Privacy:
        """Refuse epsilons that are not those of the model's adversaries, where the model is known."""
        form = find_form(info.data.get("model", ""))
        problem = None if form is None else form.epsilon_problem(privacy.epsilon.root)
        if problem is not None:
            raise ValueError(f"epsilon.{problem}")
        return privacy

    @property
    def epsilon0(self) -> Decimal:
        """Local epsilon of the randomizer; infinite where it has none."""
        return epsilon_of(self.randomizer.epsilon0 or UNBOUNDED)

    @property
    def dap(self) -> DapVersion:
        """The version of DAP that the recipe's task speaks: DAP-18 unless the recipe says otherwise."""
        return DAP_18 if self.dap_version is None else VERSIONS[self.dap_version]

    @property
    def aggregator_flips(self) -> int:
        """Coin flips that each aggregator adds to every number; 0: none."""
        return 0 if self.aggregator_noise is None else self.aggregator_noise.flips

    @property
    def criteria(self) -> dict[str, str]:
        """Attribute values that a device of the audience has; empty: every device belongs to the audience."""
        return self.audience.criteria or {}

    @property
    def is_census(self) -> bool:
        """Whether it counts devices by their attributes; both aggregate shares are then published in the log."""
        return isinstance(self.question.encoder, Attributes)

    @property
    def rate(self) -> Decimal:
        """The sampling rate q, in (0, 1]."""
        return Decimal(self.sampling.rate)

    @property
    def delta(self) -> Decimal:
        """The delta at which the recipe states its claim."""
        return Decimal(self.privacy.delta)
