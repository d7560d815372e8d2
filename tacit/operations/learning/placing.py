"""When and with which tokens the rounds of a training run are asked: its series, placed in a log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tacit.errors import Refusal, UsageError
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog
from tacit.models.parties import Parties
from tacit.operations.drafting import next_epoch
from tacit.operations.learning.plans import planned_series
from tacit.operations.pace import Pace
from tacit.operations.series_drafting import free_token
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import TokenSlot
from tacit.recipe.policy import Policy
from tacit.recipe.series import MAX_PER_EPOCH, Series
from tacit.rules import series_table, table
from tacit.time_format import format_second

EPOCHS_AHEAD: Final = 8
"""A run whose start is open begins so many epochs later than it could, at most."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """The issuer's epochs of tokens: their length in ``seconds``, and the ``slots`` of each."""

    seconds: int
    slots: int


def placed_run(
    plan: Plan, parties: Parties, live: LiveLog, epochs: Epochs, now: float, pace: Pace, start: int | None = None
) -> Series:
    """The series of ``plan`` on slots that are free in the log ``live``. It begins at ``start`` (POSIX seconds), or
    with the first epoch that devices of this ``pace`` can reach and that has room. Raises ``UsageError`` for a start
    that is over, for rounds that do not fit into the epochs, and where no slots are free; and as ``planned_series``."""
    issuer = parties.issuer.name
    if start is not None and not pace.reaches(plan.interval(start, 0), epochs.seconds, now):
        earliest = format_second(math.ceil(now + pace.lead_seconds(epochs.seconds)))
        raise UsageError(f"--start {start} is too soon: devices decide in the first quarter of a round, and see it "
                         f"from about {earliest} on")  # fmt: skip
    first = next_epoch(live, issuer, epochs.seconds, now, pace)
    begins = [start] if start is not None else [(first + at) * epochs.seconds for at in range(EPOCHS_AHEAD)]
    for begin in begins:
        per_epoch = rounds_per_epoch(plan, begin, epochs)
        wanted = TokenSlot(issuer=issuer, epoch=begin // epochs.seconds, slot=0)
        token = free_token(wanted, per_epoch, plan.rounds, live, epochs.slots)
        if token is not None:
            return planned_series(plan, parties, begin, token, per_epoch)
    raise UsageError(
        f"no {per_epoch} of the {epochs.slots} token slots of an epoch are free for all {plan.rounds} rounds from "
        f"{format_second(begins[-1])} on; wait until other recipes and series are over, or give a later --start"
    )


def rounds_per_epoch(plan: Plan, start: int, epochs: Epochs) -> int:
    """How many rounds of the plan are asked in each epoch, if the first begins at ``start`` (POSIX seconds). Raises
    ``UsageError`` where a round would not be inside the epoch of its tokens, with what would fit."""
    late = start % epochs.seconds
    if late + plan.seconds - plan.release_seconds <= epochs.seconds:
        found = plan.rounds
    elif epochs.seconds % plan.period:
        raise UsageError(
            f"rounds of round_seconds + release_seconds = {plan.period} s do not divide the stack's epochs of "
            f"{epochs.seconds} s: change the plan, or make a stack with tacit up --epoch-seconds {plan.period}"
        )
    elif late > plan.release_seconds:
        raise UsageError(
            f"--start must be in the first {plan.release_seconds} s of an epoch: {format_second(start - late)}"
        )
    else:
        found = epochs.seconds // plan.period
    if found > min(epochs.slots, MAX_PER_EPOCH):
        raise UsageError(
            f"{found} rounds of the plan fall into an epoch, which has {epochs.slots} token slots: make a stack with "
            f"tacit up --epoch-seconds {plan.period}, or with more --slots"
        )
    return found


def refusals_of(plan: Plan, series: Series, policy: Policy, now: float) -> list[Refusal]:
    """Why a party with this ``policy`` will refuse the series of ``plan`` or its rounds; empty: it accepts them."""
    found = series_table.check(series, policy, now)
    for index in sorted({0, min(1, series.rounds - 1), series.rounds - 1}):
        recipe = series.round(index, plan.interval(series.interval.start, index))
        found += table.check(recipe, policy, Context(Stage.DRAFT, now), only=series_table.OF_A_ROUND)
    return found
