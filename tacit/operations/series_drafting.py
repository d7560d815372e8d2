"""Makes the series of a search for frequent texts from a survey, so that its rounds fit the epochs of a log's tokens.
Nothing is written or sent."""

from __future__ import annotations

from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.models.parties import Parties
from tacit.moments import moment
from tacit.operations.drafting import Drafted, Reserved, placed
from tacit.operations.pace import USUAL_PACE, Pace
from tacit.recipe.builder import PRECISION_SECONDS, propose
from tacit.recipe.encoder_specs import Prefixes, PrefixSearch
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series_builder import Shape, propose_series
from tacit.recipe.survey import Survey
from tacit.rules import series_table as series_rules

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
    per_epoch = _per_epoch(recipe, live, rounds, epoch_seconds)
    shape = Shape(rounds, rounds, recipe.interval.start, window, per_epoch, epoch_seconds // per_epoch - window)
    require_inside(shape, recipe.token.epoch, epoch_seconds)
    series = propose_series(recipe, shape, min_batch_size=survey.min_batch_size)
    refusals = series_rules.check(series, policy, now)
    return Drafted(series.round(0, series.window(0)), tuple(refusals), series)


def _per_epoch(recipe: Recipe, live: LiveLog, rounds: int, epoch_seconds: int) -> int:
    """The most rounds in an epoch that leave each its pause, begin at a whole minute, and have a free slot each from
    the recipe's on."""
    token, window = recipe.token, recipe.interval.duration
    directory = live.directory(token.issuer, token.epoch)
    slots = 0 if directory is None else len(directory.keys)
    taken = {
        one.recipe.token.slot
        for one in live.recipes
        if (one.recipe.token.issuer, one.recipe.token.epoch) == (token.issuer, token.epoch)
    }
    for several in range(min(rounds, slots - token.slot), 1, -1):
        period, rest = divmod(epoch_seconds, several)
        free = taken.isdisjoint(range(token.slot, token.slot + several))
        if free and not rest and period % PRECISION_SECONDS == 0 and period >= (1 + LEAST_PAUSE) * window:
            return several
    return 1


def require_inside(shape: Shape, epoch: int, epoch_seconds: int) -> None:
    """Raise ``UsageError`` if a round is not inside the epoch of its tokens; the first one has those of ``epoch``."""
    for index in range(shape.rounds):
        begin, own = shape.begin(index), epoch + index // shape.per_epoch
        if not own * epoch_seconds <= begin <= begin + shape.window_seconds <= (own + 1) * epoch_seconds:
            raise UsageError(
                f"round {index}, {moment(begin)} to {moment(begin + shape.window_seconds)}, is not inside epoch {own}, "
                f"{moment(own * epoch_seconds)} to {moment((own + 1) * epoch_seconds)}: begin with an epoch, and make "
                "--window and --pause together, times --slots-per-epoch, its length"
            )
