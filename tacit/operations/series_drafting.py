"""Makes the series of a search for frequent texts from a survey, so that its rounds fit the epochs of a log's tokens.
Nothing is written or sent."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.models.parties import Parties
from tacit.operations.drafting import Drafted, Reserved, at_place, placed
from tacit.operations.pace import USUAL_PACE, Pace
from tacit.recipe.encoder_specs import Prefixes, PrefixSearch
from tacit.recipe.model import Recipe, TokenSlot
from tacit.recipe.policy import Policy
from tacit.recipe.writing.builder import PRECISION_SECONDS, propose
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import Survey
from tacit.rules import series_table as series_rules
from tacit.time_format import format_second

LEAST_PAUSE = 1.0
"""The shortest pause between two rounds, in lengths of a round: in it a round is released, and the next one drafted,
approved and published."""


def searches(survey: Survey) -> bool:
    """Whether the survey is asked in the rounds of a series, as a search for frequent texts."""
    return isinstance(survey.encoder, PrefixSearch)


def drafted_series(
    survey: Survey,
    parties: Parties,
    live: LiveLog,
    policy: Policy,
    epoch_seconds: int,
    now: float,
    pace: Pace = USUAL_PACE,
    reserved: Reserved = (),
) -> Drafted:
    """Make the survey's series, with a round for each of its levels, which begins in the log ``live`` as ``placed``
    says, with the refusals of ``policy``; its recipe is the first round, before it has candidates. A round lasts as
    long as the survey says, or half an epoch, and the pause after it is at least as long. The parameters are those of
    ``drafted``. Raises ``FieldError`` and ``UsageError``."""
    window = survey.duration or epoch_seconds // 2
    chosen = placed(survey.having(duration=window), live, parties.issuer.name, epoch_seconds, now, pace, reserved)
    recipe = propose(chosen, parties)
    spec = recipe.question.encoder
    if not isinstance(spec, Prefixes):
        raise UsageError("only a search for frequent texts is asked in rounds")
    rounds = len(spec.levels)
    per_epoch, period = _rhythm(recipe, live, rounds, epoch_seconds)
    shape = Shape(rounds, rounds, recipe.interval.start, window, per_epoch, period - window)
    require_inside(shape, recipe.token.epoch, epoch_seconds)
    series = propose_series(recipe, shape, min_batch_size=survey.min_batch_size)
    refusals = series_rules.check(series, policy, now)
    return Drafted(series.round(0, series.window(0)), tuple(refusals), series)


def _rhythm(recipe: Recipe, live: LiveLog, rounds: int, epoch_seconds: int) -> tuple[int, int]:
    """The most rounds in an epoch, with the seconds from one to the next: each has its pause and a free slot (from the
    recipe's on), begins whole minutes after the one before, and is over with the epoch. If all rounds fit into what is
    left of the first epoch, they share that out."""
    token, window = recipe.token, recipe.interval.duration
    directory = live.directory(token.issuer, token.epoch)
    slots = 0 if directory is None else len(directory.keys)
    late = recipe.interval.start - token.epoch * epoch_seconds
    for several in range(min(rounds, slots - token.slot), 1, -1):
        period = (
            (epoch_seconds - (late if several == rounds else 0)) // several // PRECISION_SECONDS * PRECISION_SECONDS
        )
        fits = late + (several - 1) * period + window <= epoch_seconds
        repeats = several == rounds or several * period == epoch_seconds
        if fits and repeats and period >= (1 + LEAST_PAUSE) * window and _are_free(token, several, rounds, live):
            return several, period
    return 1, epoch_seconds


def on_free_slots(recipe: Recipe, shape: Shape, live: LiveLog, slots: int) -> Recipe:
    """``recipe`` with a slot from which on every round of ``shape`` has a free one of the ``slots`` of its epoch: its
    own if it is one, otherwise the first. Raises ``UsageError`` if there is none."""
    token = free_token(recipe.token, shape.per_epoch, shape.rounds, live, slots)
    if token is not None:
        return recipe if token == recipe.token else at_place(recipe, recipe.interval.start, token.epoch, token.slot)
    raise UsageError(
        f"the issuer has {slots} slots in an epoch, and no {shape.per_epoch} in a row are free in every epoch of the "
        "series; take a smaller --slots-per-epoch, or a recipe of a later epoch"
    )


def free_token(token: TokenSlot, per_epoch: int, rounds: int, live: LiveLog, slots: int) -> TokenSlot | None:
    """``token``, or if it is not free the first slot of its epoch from which on ``per_epoch`` of the ``slots`` of every
    epoch are free for so many ``rounds``; None if there is none."""
    last = slots - per_epoch
    choices = (token.model_copy(update={"slot": slot}) for slot in (token.slot, *range(last + 1)) if slot <= last)
    return next((one for one in choices if _are_free(one, per_epoch, rounds, live)), None)


def _are_free(first: TokenSlot, per_epoch: int, rounds: int, live: LiveLog) -> bool:
    """Whether no recipe of the log, and no series there, has a slot of one of ``rounds``, of which the first has
    ``first``."""
    wanted = _Span(first.issuer, first.epoch, first.slot, per_epoch, rounds)
    tokens = (item.recipe.token for item in live.recipes)
    series = ((one.slots, one.rounds) for one in live.open_series)
    return not any(
        wanted.meets(_Span(issuer, epoch, slot, several, count))
        for issuer, epoch, slot, several, count in chain(
            ((one.issuer, one.epoch, one.slot, 1, 1) for one in tokens),
            ((one.issuer, one.epoch, one.slot, one.per_epoch, count) for one, count in series),
        )
    )


class _Span(NamedTuple):
    """The slots of so many ``rounds``: from the first one on, ``per_epoch`` of every epoch, in the last those left."""

    issuer: str
    epoch: int
    slot: int
    per_epoch: int
    rounds: int

    def meets(self, other: _Span) -> bool:
        """Whether they share a slot; if so, they do in the first epoch of both, where each has the most."""
        if self.issuer != other.issuer:
            return False
        epoch = max(self.epoch, other.epoch)
        return max(self.slot, other.slot) < min(self._end(epoch), other._end(epoch))

    def _end(self, epoch: int) -> int:
        """The slot after its last one in an epoch that is not before its first."""
        return self.slot + min(self.per_epoch, self.rounds - (epoch - self.epoch) * self.per_epoch)


def require_inside(shape: Shape, epoch: int, epoch_seconds: int) -> None:
    """Raise ``UsageError`` if a round is not inside the epoch of its tokens; the first one has those of ``epoch``."""
    for index in range(shape.rounds):
        begin, own = shape.begin(index), epoch + index // shape.per_epoch
        if not own * epoch_seconds <= begin <= begin + shape.window_seconds <= (own + 1) * epoch_seconds:
            raise UsageError(
                f"round {index}, {format_second(begin)} to {format_second(begin + shape.window_seconds)}, is "
                f"not inside epoch {own}, "
                f"{format_second(own * epoch_seconds)} to {format_second((own + 1) * epoch_seconds)}: begin "
                "with an epoch, and make "
                "--window and --pause together, times --slots-per-epoch, its length"
            )
