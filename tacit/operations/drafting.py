"""Makes a recipe from a survey, places it in an epoch and slot of a log's token keys, and checks it as a draft. Nothing
is written or sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import Refusal, UsageError
from tacit.logview.live import LiveLog
from tacit.models.parties import Parties
from tacit.operations.outlook import Outlook, outlook
from tacit.operations.pace import USUAL_PACE, Pace
from tacit.recipe.asking import DECIDING_SHARE
from tacit.recipe.context import Context, Stage
from tacit.recipe.encoder_specs import Occurrences, Watched
from tacit.recipe.model import Recipe, TokenSlot
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.writing.builder import PRECISION_SECONDS, propose
from tacit.recipe.writing.survey import Survey
from tacit.rules import table as rules
from tacit.rules.detail import needed_of
from tacit.time_format import format_utc
from tacit.tlog.token_directories import IssuerDirectory

QUICK_STEP = 10
"""Seconds of which the beginning and the length of a quick interval are multiples: its reports have one time anyway."""

Reserved = Sequence[tuple[int, int]]
"""The epochs and slots whose tokens other drafts will spend, the one that was reserved first comes first."""


@dataclass(frozen=True)
class Drafted:
    """A recipe that is in no log yet, and the reasons for which a policy will refuse it (empty: it will accept it).
    ``series``: what is published in its place, if it is only the first round of that."""

    recipe: Recipe
    refusals: tuple[Refusal, ...] = ()
    series: Series | None = None

    @property
    def outlook(self) -> Outlook:
        """The expected cost and errors of the recipe."""
        return outlook(self.recipe)

    def document(self) -> dict[str, Any]:
        """As JSON: ``{hash, recipe, refusals: [{rule, detail}], ...}`` with the members of the outlook."""
        return {
            "hash": self.recipe.hash_text,
            "recipe": self.recipe.body(),
            **self.outlook.document(),
            "refusals": refusals_document(self.refusals),
        }


def choose_local_method(survey: Survey, policy: Policy) -> Survey:
    """The survey with a method whose single reports hide the answer, where it leaves the method open, ``policy`` asks
    for a local guarantee, and there is such a method."""
    is_open = survey.randomizer is None and survey.mechanism is None and not survey.form.watched
    if policy.allow_unbounded_local or not is_open or survey.aggregator_flips or survey.method.IS_LOCAL:
        return survey
    local = next((one for one in survey.methods if one.IS_LOCAL and one.NAME in policy.randomizers), None)
    return survey if local is None else survey.having(randomizer=local.NAME)


def draft_recipe(
    survey: Survey,
    parties: Parties,
    live: LiveLog,
    policy: Policy,
    epoch_seconds: int,
    now: float,
    pace: Pace = USUAL_PACE,
    reserved: Reserved = (),
) -> Drafted:
    """Make the survey's recipe, placed in the log ``live``, with the refusals of ``policy`` that it will meet when it
    is published. ``epoch_seconds``: the length of the issuer's token epochs; ``pace`` and ``reserved`` as in
    ``placed``. Raises ``FieldError`` and ``UsageError``."""
    survey = choose_local_method(survey, policy)
    recipe = propose(placed(survey, live, parties.issuer.name, epoch_seconds, now, pace, reserved), parties)
    context = draft_context(recipe, live, now)
    refusals = rules.check(recipe, policy, context)
    refusals += rules.check(recipe, policy, replace(context, stage=Stage.PUBLISH), only={"audience-floor"})
    return Drafted(recipe, tuple(refusals))


def refusals_document(refusals: Iterable[Refusal]) -> list[dict[str, Any]]:
    """Refusals as JSON; ``needed`` holds the numbers that would pass, if there are any."""
    found = ((one, needed_of(one.detail)) for one in refusals)
    return [{"rule": one.rule, "detail": one.detail, **({"needed": ways} if ways else {})} for one, ways in found]


def draft_context(recipe: Recipe, live: LiveLog, now: float) -> Context:
    """The context of a recipe that is in no log, as far as a verified log determines it."""
    directory = live.directory(recipe.token.issuer, recipe.token.epoch)
    return Context(Stage.DRAFT, now, directory=directory, censuses=live.censuses)


def watched_from(survey: Survey, now: float) -> Survey:
    """Fill in the period in which devices watch an event, if the survey has one."""
    encoder = survey.encoder
    return survey.having(encoder=encoder.from_now(now)) if isinstance(encoder, Watched) else survey


def placed(
    survey: Survey,
    live: LiveLog,
    issuer: str,
    epoch_seconds: int,
    now: float,
    pace: Pace = USUAL_PACE,
    reserved: Reserved = (),
) -> Survey:
    """Fill in the survey's interval, epoch and slot, unless it states them.

    The epoch is the next one, whose tokens devices fetch now, or the one after it if the next one begins before devices
    with this ``pace`` have seen the recipe. The slot is the first free one that is not ``reserved``, or else the one
    that was reserved first. If devices watch an event, reports begin after the watched period: in the epoch in which
    it ends if at least half of that epoch is left, otherwise in the one after.

    Raises ``UsageError`` if the log has no directory for the epoch, or every slot is taken.
    """
    survey = watched_from(survey, now)
    minute = math.gcd(PRECISION_SECONDS, epoch_seconds)
    over = -(-_watched_until(survey) // minute) * minute
    epoch = survey.epoch
    if epoch is None and survey.start is not None:
        epoch = survey.start // epoch_seconds
    if epoch is None:
        epoch = max(next_epoch(live, issuer, epoch_seconds, now, pace), (over + epoch_seconds // 2) // epoch_seconds)
    start = max(epoch * epoch_seconds, over) if survey.start is None else survey.start
    duration = (epoch + 1) * epoch_seconds - start if survey.duration is None else survey.duration
    directory = live.directory(issuer, epoch)
    if directory is None:
        advice = live.clock_trouble(issuer, epoch_seconds, now) or _other_epoch(survey, epoch_seconds, now)
        raise UsageError(f"the log shows no token keys for epoch {epoch}; {advice}")
    slot = free_slot(directory, live, reserved) if survey.slot is None else survey.slot
    return survey.having(start=start, duration=duration, epoch=epoch, slot=slot)


def _watched_until(survey: Survey) -> int:
    """The POSIX second at which the watched period ends; 0 if nothing is watched."""
    return survey.encoder.asked().end if isinstance(survey.encoder, Watched) else 0


def _other_epoch(survey: Survey, epoch_seconds: int, now: float) -> str:
    """Advice for when the log does not have the directory of an epoch yet."""
    over = _watched_until(survey)
    if not over:
        return "wait a moment, or choose another --epoch"
    minute = math.gcd(PRECISION_SECONDS, epoch_seconds)
    latest = ((int(now // epoch_seconds) + 2) * epoch_seconds - epoch_seconds // 2 - 1) // minute * minute
    return (
        f"the watched period ends at {format_utc(over)}; with epochs of {epoch_seconds} seconds, of which the "
        "log shows the "
        f"keys of this one and the next, it must end by {format_utc(latest)}: watch for fewer or shorter steps, "
        "or use an "
        "issuer with longer epochs (tacit up --epoch-seconds, with a new --state-dir)"
    )


def wanted_epoch(epoch_seconds: int, now: float, pace: Pace) -> int:
    """The next epoch, or the one after it if the next one begins before devices with this ``pace`` have seen what is
    published ``now``. No log has the token keys of later epochs."""
    following = int(now // epoch_seconds) + 1
    return following + (following * epoch_seconds - now < pace.lead_seconds(epoch_seconds))


def next_epoch(live: LiveLog, issuer: str, epoch_seconds: int, now: float, pace: Pace) -> int:
    """``wanted_epoch`` if the log has its directory, otherwise the next epoch."""
    wanted = wanted_epoch(epoch_seconds, now, pace)
    return int(now // epoch_seconds) + 1 if live.directory(issuer, wanted) is None else wanted


def directory_of(live: LiveLog, issuer: str, epoch: int, epoch_seconds: int, now: float) -> IssuerDirectory:
    """The issuer's directory of ``epoch``. Raises ``UsageError`` where the log does not show it, which says so where
    the clock is the reason."""
    directory = live.directory(issuer, epoch)
    if directory is None:
        advice = live.clock_trouble(issuer, epoch_seconds, now) or "wait a moment"
        raise UsageError(f"the log shows no token keys for epoch {epoch}; {advice}")
    return directory


def is_movable(recipe: Recipe, epoch_seconds: int) -> bool:
    """Whether the recipe may be published for another time: it begins with its epoch, as ``placed`` chooses if no start
    is stated, and neither a series nor a watched event fixes that time."""
    begins = recipe.token.epoch * epoch_seconds
    return recipe.interval.start == begins and not is_tied(recipe)


def is_tied(recipe: Recipe) -> bool:
    """Whether a series or a watched event fixes the recipe's time."""
    return recipe.series is not None or isinstance(recipe.question.encoder, Occurrences)


def move(recipe: Recipe, live: LiveLog, epoch_seconds: int, now: float, pace: Pace, reserved: Reserved = ()) -> Recipe:
    """Move ``recipe`` to the epoch in which it would be placed ``now``, from that epoch's beginning, with a free slot.
    Nothing else changes. Raises ``UsageError`` as ``placed``."""
    issuer = recipe.token.issuer
    epoch = next_epoch(live, issuer, epoch_seconds, now, pace)
    directory = directory_of(live, issuer, epoch, epoch_seconds, now)
    return at_place(recipe, epoch * epoch_seconds, epoch, free_slot(directory, live, reserved))


def soonest(
    recipe: Recipe, live: LiveLog, epoch_seconds: int, now: float, pace: Pace, reserved: Reserved = ()
) -> Recipe | None:
    """Move ``recipe`` to the earliest interval before which every device of ``pace`` can read it, wherever that lies in
    an epoch; None where the log does not show that epoch's token keys yet. It lasts as long as stated, or as the
    devices need if it was to last its whole epoch. A device holds or fetches the tokens of the current and of the next
    epoch, so the interval may begin in either. Raises ``UsageError`` if every slot of the epoch is taken."""
    step = math.gcd(QUICK_STEP, epoch_seconds)
    stated = recipe.interval.duration
    wanted = pace.quick_seconds(epoch_seconds) if stated == epoch_seconds else float(stated)
    lasts = math.ceil(wanted / step) * step
    begins = math.ceil((now + pace.lead_seconds(epoch_seconds) - DECIDING_SHARE * lasts) / step) * step
    epoch = begins // epoch_seconds
    if begins + lasts > (epoch + 1) * epoch_seconds:
        epoch += 1
        begins = epoch * epoch_seconds
    directory = live.directory(recipe.token.issuer, epoch)
    if directory is None:
        return None
    body = recipe.body()
    batch = {**body["batch"], "time_precision": math.gcd(PRECISION_SECONDS, begins, lasts)}
    timed = Recipe.from_body({**body, "batch": batch, "interval": {"start": begins, "duration": lasts}})
    return at_place(timed, begins, epoch, free_slot(directory, live, reserved))


def with_free_slot(recipe: Recipe, live: LiveLog, reserved: Reserved = ()) -> Recipe:
    """``recipe`` with a free slot of its epoch: its own, or another one if that is taken. A round of a series has the
    slot that the series assigns to it. Raises ``UsageError`` if all slots are taken."""
    token = recipe.token
    directory = live.directory(token.issuer, token.epoch)
    if directory is None or recipe.series is not None or token.slot not in _taken(directory, live):
        return recipe
    return at_place(recipe, recipe.interval.start, token.epoch, free_slot(directory, live, reserved))


def at_place(recipe: Recipe, start: int, epoch: int, slot: int) -> Recipe:
    """``recipe`` from POSIX second ``start`` on, with the tokens of this epoch and slot."""
    body = recipe.body()
    interval, token = {**body["interval"], "start": start}, {**body["token"], "epoch": epoch, "slot": slot}
    return Recipe.from_body({**body, "interval": interval, "token": token})


def free_slot(directory: IssuerDirectory, live: LiveLog, reserved: Reserved = ()) -> int:
    """The first slot of an epoch that no recipe in the log has, no series there assigns to a round, and that is not
    ``reserved``; if all free slots are reserved, the one that was reserved first. Raises ``UsageError`` if every slot
    is taken."""
    taken = _taken(directory, live)
    free = [key.slot for key in directory.keys if key.slot not in taken]
    if not free:
        raise UsageError(f"all {len(directory.keys)} slots of epoch {directory.epoch} are taken; wait for the next one")
    held = [slot for epoch, slot in reserved if epoch == directory.epoch]
    return min(free, key=lambda slot: held.index(slot) + 1 if slot in held else 0)


def _taken(directory: IssuerDirectory, live: LiveLog) -> set[int]:
    """The slots of an epoch that the log's recipes have, or that its series assign to rounds to come."""
    tokens = [item.recipe.token for item in live.recipes]
    held = {one.slot for one in tokens if (one.issuer, one.epoch) == (directory.issuer, directory.epoch)}
    places = (TokenSlot(issuer=directory.issuer, epoch=directory.epoch, slot=key.slot) for key in directory.keys)
    return held | {place.slot for place in places if any(one.assigns(place) for one in live.open_series)}
