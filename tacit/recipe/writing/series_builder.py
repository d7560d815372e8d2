"""Builds a series from one recipe and a number of rounds: rate, B, noise, deltas and the total claim follow from them.

The series as a whole has the delta of the recipe from which it was made, so an account has room for as many series as
for such recipes; each round's epsilon against an aggregator with the relay stays that of the recipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tacit.dp.claim import RELATION
from tacit.dp.donation import slot_share, yield_of
from tacit.dp.repeated.shares import share_for_rounds
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.methods.base.method import Method, plain
from tacit.methods.base.proof import NORM_PROOF
from tacit.methods.registry import METHODS
from tacit.models.forms import form_of
from tacit.recipe.claims import claim_of, total_claim
from tacit.recipe.derive import randomizer_of, shape_of
from tacit.recipe.model import MAX_ROUNDS, Recipe
from tacit.recipe.series import Series, template_of
from tacit.recipe.writing.builder import with_claim
from tacit.recipe.writing.privacy_target import PrivacyTarget
from tacit.recipe.writing.sampling_plan import FILL, SamplingPlan

PLACES = Decimal(1).scaleb(-18)
MAX_EPSILON0 = Decimal(8)


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout of a series: the number of rounds; with donation the number of slots that a device chooses from; when
    each round begins and how long it lasts (seconds); slots of tokens per epoch; and the seconds between two rounds,
    which belong to donation: other rounds have their own time."""

    rounds: int
    donation_slots: int | None
    start: int
    window_seconds: int
    per_epoch: int = 1
    pause_seconds: int = 0

    def begin(self, index: int) -> int:
        """POSIX second at which round ``index`` begins."""
        return self.start + index * (self.window_seconds + self.pause_seconds)

    @property
    def seconds(self) -> int:
        """Length of all rounds with the pauses between them."""
        return self.begin(self.rounds - 1) + self.window_seconds - self.start


def propose_series(
    recipe: Recipe, shape: Shape, *, min_batch_size: int | None = None, total_epsilon: Decimal | None = None
) -> Series:
    """Make the series whose rounds ask what ``recipe`` asks, of the same devices, starting with the slot of its tokens.

    With donation each slot has the rate q/m, and B (default: 0.8 of what the last slot is expected to bring, all
    devices being eligible from the first round) and the noise follow from that. ``total_epsilon``: the noise is that
    with which claim (a) of all rounds together is at most so much at B; noise shares with independent coins alone have
    such a search. Raises ``UsageError`` where the numbers give no series.
    """
    _check(shape)
    if form_of(recipe.model).watched:
        raise UsageError(f"model {recipe.model} has no series: devices watch an event once and answer once")
    rate = _rate(recipe, shape)
    population = population_of(recipe)
    batch_size = min_batch_size or _batch_size(recipe, shape, rate, population)
    if batch_size < 1:
        raise UsageError(f"{population} devices are too few for {shape.rounds} rounds; B would be 0")
    expected = recipe.batch.expected_contributions if shape.donation_slots is None else math.ceil(population * rate)
    body = {name: value for name, value in recipe.body().items() if name not in {"privacy", "series"}}
    body["sampling"] = {**body["sampling"], "rate": plain(rate)}
    body["batch"] |= {"min_batch_size": batch_size, "expected_contributions": max(batch_size, expected)}
    round_delta = (recipe.delta / (2 if shape.donation_slots else shape.rounds + 1)).quantize(PLACES, ROUND_FLOOR)
    asked = shape_of(recipe.question)
    proves = recipe.vdaf is not None and recipe.vdaf.name == NORM_PROOF
    target = PrivacyTarget(recipe.randomizer.name, asked, _target(recipe), round_delta, _most(recipe), proves)
    form = form_of(recipe.model)
    if total_epsilon is None:
        body |= target.members(form, SamplingPlan(population, rate), batch_size)
    else:
        body |= target.members_with(form, _made_for_total(recipe, shape, batch_size, total_epsilon))
    template = template_of(with_claim(body, delta=round_delta, account=recipe.privacy.account))
    return _with_total(recipe, shape, template)


def population_of(recipe: Recipe) -> int:
    """How many devices the recipe counts on: the expected contributions divided by the rate, rounded."""
    return round(recipe.batch.expected_contributions / recipe.rate)


def expected_contributions(series: Series, population: int) -> list[int]:
    """Expected contributions to each round from ``population`` devices, all eligible from the first round; with
    donation, none after the last of their slots."""
    rate = float(series.probe.rate)
    if series.donation is None:
        return [round(population * rate)] * series.rounds
    slots = series.donation.slots
    return [round(population * slot_share(rate, at)) if at < slots else 0 for at in range(series.rounds)]


def share_taking_part(series: Series) -> float:
    """Share of the devices that are expected to take part in some round, when all are eligible from the first one."""
    slots = series.rounds if series.donation is None else min(series.rounds, series.donation.slots)
    return yield_of(float(series.probe.rate), slots)


def _check(shape: Shape) -> None:
    for name, value in (("rounds", shape.rounds), ("donation slots", shape.donation_slots)):
        if value is not None and not 1 <= value <= MAX_ROUNDS:
            raise UsageError(f"{name} must be from 1 to {MAX_ROUNDS}")
    if shape.pause_seconds and shape.donation_slots is None:
        raise UsageError("a pause between rounds belongs to donation; other rounds have their own time")


def _rate(recipe: Recipe, shape: Shape) -> Decimal:
    """The probability of taking part in each round."""
    if shape.donation_slots is None:
        return recipe.rate
    return slot_rate(recipe.rate, shape.donation_slots)


def _batch_size(recipe: Recipe, shape: Shape, rate: Decimal, population: int) -> int:
    if shape.donation_slots is None:
        return recipe.batch.min_batch_size
    return slot_batch(population, rate, min(shape.rounds, shape.donation_slots))


def slot_batch(population: int, rate: Decimal, slots: int) -> int:
    """The default B with donation: 0.8 of what the last of ``slots`` that are asked is expected to bring, each with the
    probability ``rate``."""
    return math.floor(float(FILL) * population * slot_share(float(rate), slots - 1))


def slot_rate(rate: Decimal, slots: int) -> Decimal:
    """The probability of taking part in each of ``slots``, where ``rate`` is the recipe's: q/m, rounded down."""
    return (rate / slots).quantize(PLACES, ROUND_FLOOR)


def _most(recipe: Recipe) -> Decimal:
    """The largest epsilon0 of a report in a round: none tells more by itself than one to the recipe."""
    own = recipe.randomizer.epsilon0
    return MAX_EPSILON0 if own is None else min(MAX_EPSILON0, Decimal(own))


def _target(recipe: Recipe) -> Decimal:
    """The epsilon against an aggregator with the relay for which the recipe was made; noise shares keep it even if half
    of B is dishonest."""
    beside = form_of(recipe.model).charged_with_relay
    if METHODS[recipe.randomizer.name].IS_LOCAL:
        return Decimal(recipe.privacy.epsilon[beside])
    try:
        return Decimal(repr(claim_of(recipe, max(1, recipe.batch.min_batch_size // 2))[beside]))
    except Refusal as refusal:
        raise UsageError(str(refusal)) from refusal


def _made_for_total(recipe: Recipe, shape: Shape, batch_size: int, epsilon: Decimal) -> Method:
    """The method whose noise keeps ``epsilon`` against one aggregator over all rounds."""
    method, rate = randomizer_of(recipe), float(recipe.rate)
    step = method.noise_step
    if step is None or shape.donation_slots is not None or form_of(recipe.model).watched:
        raise UsageError("a total epsilon is for noise shares (flips) in rounds with independent coins")
    try:
        share = share_for_rounds(step, batch_size, shape.rounds, float(epsilon), float(recipe.delta), rate)
    except ValueError as error:
        raise UsageError(str(error)) from error
    members = {**method.members(), "scale": share.scale, "flips": share.flips}
    return type(method).of(shape_of(recipe.question), members, recipe.aggregator_flips)


def _with_total(recipe: Recipe, shape: Shape, template: dict[str, Any]) -> Series:
    """The series with the total claim that follows from its template, rounded up."""
    token, unclaimed = recipe.token, form_of(recipe.model).unclaimed()
    body: dict[str, Any] = {
        "version": 1,
        "name": recipe.name,
        "template": template,
        "rounds": shape.rounds,
        "slots": {
            "issuer": token.issuer,
            "epoch": token.epoch,
            "slot": token.slot,
            "per_epoch": shape.per_epoch,
        },
        "interval": {"start": shape.start, "duration": shape.seconds},
        "claim": {"delta": recipe.privacy.delta, "relation": RELATION, "epsilon": unclaimed},
    }
    if shape.donation_slots is not None:
        pause = {"pause_seconds": shape.pause_seconds} if shape.pause_seconds else {}
        body["donation"] = {"slots": shape.donation_slots, "window_seconds": shape.window_seconds, **pause}
    try:
        stated = total_claim(Series.from_body(body)).rounded_up()
        return Series.from_body({**body, "claim": {**body["claim"], "epsilon": stated}})
    except (DecodeError, Refusal) as error:
        raise UsageError(str(error)) from error
