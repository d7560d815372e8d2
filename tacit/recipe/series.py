"""A series: rounds of one recipe that are charged as one (P26), such as iterations of a training run.

A series is its own leaf, signed by the analyst before any of its rounds. It holds everything that the rounds have in
common (the template: a recipe without ``name``, ``interval``, ``token``, ``series`` and ``question.round_input``), how
many there may be, where and when, and what all of them together cost. A round is a complete recipe that names the
series' hash and its own index. This module defines the form; the rules are in ``tacit.rules.series``, the cost in
``tacit.recipe.claims``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from tacit.models.forms import find_form
from tacit.models.parties import Operator, Part
from tacit.recipe.document import Document
from tacit.recipe.member_types import DecimalText, Positive
from tacit.recipe.model import MAX_ROUNDS, Interval, Recipe, SeriesRound, TokenSlot
from tacit.recipe.privacy import Epsilons
from tacit.time_format import format_second
from tacit.tlog.canonical import MAX_INTEGER
from tacit.tlog.fields import Count

OWN_MEMBERS = ("name", "interval", "token", "series")
"""Members of a recipe that differ between rounds, in addition to ``question.round_input``."""
MAX_PER_EPOCH = 256
MAX_SECONDS = 366 * 86400
"""The longest series in seconds: it is charged in full from its publication to its end, and is part of every answer to
a device in that time."""


class Donation(Part):
    """Randomised donation time: a device takes part in at most one round, the first of ``slots`` rounds for which its
    coin of the template's rate says yes; every round lasts exactly ``window_seconds``, and ``pause_seconds`` (absent:
    0) pass between two rounds, so that a round can ask what follows from the one before."""

    slots: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
    window_seconds: Positive
    pause_seconds: Positive | None = None

    @property
    def pause(self) -> int:
        """Seconds between the end of a round and the beginning of the next one."""
        return self.pause_seconds or 0

    def seconds(self, rounds: int) -> int:
        """Length of so many rounds with the pauses between them."""
        return rounds * self.window_seconds + (rounds - 1) * self.pause


class SeriesSlots(Part):
    """The slots whose tokens the rounds spend: round i has slot ``slot + i mod per_epoch`` of epoch ``epoch + i div
    per_epoch``."""

    issuer: Operator
    epoch: Count
    slot: Annotated[int, Field(ge=0, le=2**32 - 1 - MAX_PER_EPOCH)]
    per_epoch: Annotated[int, Field(ge=1, le=MAX_PER_EPOCH)]


class SeriesClaim(Part):
    """What all rounds together cost one device, per adversary (P16)."""

    delta: DecimalText
    relation: Literal["replacement"]
    epsilon: Epsilons


LOG_SIGNER = "log"
"""The signer that a leaf of the log's operator states; its key is that of the log's checkpoints."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a series was ended: by the leaf at ``index``. ``until``: the POSIX second at which the last of its rounds
    ends that came before that leaf, as far as is known (0 without one)."""

    index: int
    until: int


class Series(Document):
    """The whole series. ``interval`` contains every round's interval; with donation the rounds fill it, with a pause
    between two where one is stated."""

    what = "series"

    version: Annotated[int, Field(ge=1, le=1)]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,55}$")]
    template: dict[str, Any]
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
    donation: Donation | None = None
    slots: SeriesSlots
    interval: Interval
    claim: SeriesClaim

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a template that is not a recipe, or that sets members of a round, and a series without an end."""
        own = [name for name in OWN_MEMBERS if name in self.template]
        question = self.template.get("question")
        if isinstance(question, dict) and "round_input" in question:
            own.append("question.round_input")
        if own:
            raise ValueError(f"template: {', '.join(own)} belong to the rounds")
        if self.interval.duration > MAX_SECONDS:
            raise ValueError(f"a series must not last longer than {MAX_SECONDS} seconds")
        if self.slots.epoch + (self.rounds - 1) // self.slots.per_epoch > MAX_INTEGER:
            raise ValueError("slots: the last round's epoch is too large for a recipe")
        if self.window(self.rounds - 1).end > MAX_INTEGER:
            raise ValueError("interval: the last round's end is too large for a recipe")
        form = find_form(self.probe.model)
        problem = None if form is None else form.epsilon_problem(self.claim.epsilon.root)
        if problem is not None:
            raise ValueError(f"claim.epsilon.{problem}")

    @cached_property
    def probe(self) -> Recipe:
        """A recipe made from the template, for checking what all rounds have in common; it is not a round."""
        return Recipe.from_body(
            {
                **self.template,
                "name": self.name,
                "interval": self.interval.model_dump(mode="json"),
                "token": self.token(0).model_dump(mode="json"),
            }
        )

    @property
    def round_seconds(self) -> int:
        """Length of a round where all have the same: with donation the window, else an equal part of the whole."""
        return self.interval.duration // self.rounds if self.donation is None else self.donation.window_seconds

    def token(self, index: int) -> TokenSlot:
        """The slot whose tokens round ``index`` spends: ``per_epoch`` rounds in each epoch, one after the other."""
        first = self.slots
        epochs, place = divmod(index, first.per_epoch)
        return TokenSlot(issuer=first.issuer, epoch=first.epoch + epochs, slot=first.slot + place)

    def assigns(self, token: TokenSlot) -> bool:
        """Whether ``token`` is the slot of one of the rounds, which drafts of other recipes then leave free."""
        first = self.slots
        epochs, place = token.epoch - first.epoch, token.slot - first.slot
        belongs = token.issuer == first.issuer and epochs >= 0 and 0 <= place < first.per_epoch
        return belongs and epochs * first.per_epoch + place < self.rounds

    def window(self, index: int) -> Interval:
        """The interval of round ``index`` where rounds follow each other without a gap; with donation after the pause,
        as they always do."""
        pause = 0 if self.donation is None else self.donation.pause
        start = self.interval.start + index * (self.round_seconds + pause)
        return Interval(start=start, duration=self.round_seconds)

    def round(self, index: int, interval: Interval, round_input: str | None = None) -> Recipe:
        """The recipe of round ``index``, named after the series. Raises DecodeError where it is malformed."""
        question = self.template["question"]
        return Recipe.from_body(
            {
                **self.template,
                "question": question if round_input is None else {**question, "round_input": round_input},
                "name": f"{self.name}-{index}",
                "interval": interval.model_dump(mode="json"),
                "token": self.token(index).model_dump(mode="json"),
                "series": SeriesRound(hash=self.hash_text, index=index).model_dump(mode="json"),
            }
        )

    def mismatch(self, recipe: Recipe) -> str | None:
        """Why ``recipe`` is not a round of this series, or None. Whether another recipe holds the round already is not
        checked."""
        place = recipe.series
        if place is None or place.hash != self.hash_text:
            return "the recipe names another series"
        if place.index >= self.rounds:
            return f"round {place.index} is not one of the {self.rounds} from 0"
        differing = _differing(self.template, template_of(recipe))
        if differing:
            return f"{', '.join(differing)} differ from the series' template"
        if not recipe.name.startswith(f"{self.name}-"):
            return f"the recipe is named {recipe.name}; its name must begin with {self.name}-"
        if recipe.token != self.token(place.index):
            own = self.token(place.index)
            return f"round {place.index} must have the tokens of {own.issuer}, epoch {own.epoch}, slot {own.slot}"
        inside = self.interval.start <= recipe.interval.start and recipe.interval.end <= self.interval.end
        if not inside:
            return (
                f"the round must be within the series, {format_second(self.interval.start)} to "
                f"{format_second(self.interval.end)}"
            )
        return None


def template_of(recipe: Recipe) -> dict[str, Any]:
    """What a recipe has in common with the other rounds of its series."""
    body = {name: value for name, value in recipe.body().items() if name not in OWN_MEMBERS}
    question = {name: value for name, value in body["question"].items() if name != "round_input"}
    return {**body, "question": question}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
