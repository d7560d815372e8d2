"""A recipe from a survey, placed among a log's token keys and checked as a draft: nothing is written or sent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import Refusal, UsageError
from tacit.models.forms.parties import Parties
from tacit.moments import when
from tacit.operations.outlook import Outlook, outlook
from tacit.recipe.builder import PRECISION_SECONDS, propose
from tacit.recipe.context import Context, Stage
from tacit.recipe.live import LiveLog
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.survey import Survey, Watched
from tacit.rules import table as rules
from tacit.rules.detail import needed_of
from tacit.tlog.leaves import IssuerDirectory

SETTLE_SECONDS, SETTLE_SHARE = 20.0, 0.25
"""How long before its beginning a recipe is written at least: so many seconds, or this share of an epoch."""


@dataclass(frozen=True)
class Drafted:
    """A recipe that is in no log, what it will cost and give, and why a policy will refuse it (empty: it will not)."""

    recipe: Recipe
    refusals: tuple[Refusal, ...] = ()

    @property
    def outlook(self) -> Outlook:
        """What it will cost and give."""
        return outlook(self.recipe)

    def document(self) -> dict[str, Any]:
        """As JSON: ``{hash, recipe, refusals: [{rule, detail}], ...}`` with the members of the outlook."""
        return {
            "hash": self.recipe.hash_text,
            "recipe": self.recipe.body(),
            **self.outlook.document(),
            "refusals": refusals_document(self.refusals),
        }


def drafted(survey: Survey, parties: Parties, live: LiveLog, policy: Policy, epoch_seconds: int, now: float) -> Drafted:
    """The survey's recipe among what ``live`` holds, with whatever ``policy`` will refuse of it by the time it is
    published. ``epoch_seconds``: of the issuer's tokens. Raises ``FieldError`` and ``UsageError``."""
    recipe = propose(placed(survey, live, parties.issuer.name, epoch_seconds, now), parties)
    context = draft_context(recipe, live, now)
    refusals = rules.check(recipe, policy, context)
    refusals += rules.check(recipe, policy, replace(context, stage=Stage.PUBLISH), only={"audience-floor"})
    return Drafted(recipe, tuple(refusals))


def refusals_document(refusals: Iterable[Refusal]) -> list[dict[str, Any]]:
    """As JSON; with ``needed`` where numbers say what would pass."""
    found = ((one, needed_of(one.detail)) for one in refusals)
    return [{"rule": one.rule, "detail": one.detail, **({"needed": ways} if ways else {})} for one, ways in found]


def draft_context(recipe: Recipe, live: LiveLog, now: float) -> Context:
    """The surroundings of a recipe that is in no log, as far as a verified log tells them."""
    directory = live.directory(recipe.token.issuer, recipe.token.epoch)
    return Context(Stage.DRAFT, now, directory=directory, censuses=live.censuses)


def watched_from(survey: Survey, now: float) -> Survey:
    """The survey with the period in which devices watch an event, where it asks for one."""
    encoder = survey.encoder
    return survey.having(encoder=encoder.from_now(now)) if isinstance(encoder, Watched) else survey


def placed(survey: Survey, live: LiveLog, issuer: str, epoch_seconds: int, now: float) -> Survey:
    """The survey in the next epoch (whose tokens devices fetch now; the one after, where the next is about to begin)
    and its first free slot, where it says nothing else. Where devices watch an event, reports begin when that is over:
    in the epoch in which it ends, if at least half of it is left, else in the one after.

    Raises ``UsageError`` where the log has no directory of the epoch, or every slot is taken.
    """
    survey = watched_from(survey, now)
    minute = math.gcd(PRECISION_SECONDS, epoch_seconds)
    over = -(-_watched_until(survey) // minute) * minute
    epoch = survey.epoch
    if epoch is None and survey.start is not None:
        epoch = survey.start // epoch_seconds
    if epoch is None:
        epoch = max(_next_epoch(live, issuer, epoch_seconds, now), (over + epoch_seconds // 2) // epoch_seconds)
    start = max(epoch * epoch_seconds, over) if survey.start is None else survey.start
    duration = (epoch + 1) * epoch_seconds - start if survey.duration is None else survey.duration
    directory = live.directory(issuer, epoch)
    if directory is None:
        raise UsageError(f"the log shows no token keys for epoch {epoch}; {_other_epoch(survey, epoch_seconds, now)}")
    slot = _free_slot(directory, live) if survey.slot is None else survey.slot
    return survey.having(start=start, duration=duration, epoch=epoch, slot=slot)


def _watched_until(survey: Survey) -> int:
    """The POSIX second at which a watched period is over; 0 where nothing is watched."""
    return survey.encoder.asked().end if isinstance(survey.encoder, Watched) else 0


def _other_epoch(survey: Survey, epoch_seconds: int, now: float) -> str:
    """What to do where the log does not know an epoch yet."""
    over = _watched_until(survey)
    if not over:
        return "wait a moment, or choose another --epoch"
    minute = math.gcd(PRECISION_SECONDS, epoch_seconds)
    latest = ((int(now // epoch_seconds) + 2) * epoch_seconds - epoch_seconds // 2 - 1) // minute * minute
    return (
        f"the watched period ends at {when(over)}, and to be reported in an epoch of {epoch_seconds} seconds whose "
        f"keys the log shows, this one or the next, it would have to end by {when(latest)}: watch for fewer or shorter "
        "steps, or use an issuer with longer epochs (tacit up --epoch-seconds, with a new --state-dir)"
    )


def _next_epoch(live: LiveLog, issuer: str, epoch_seconds: int, now: float) -> int:
    """The next epoch; where it begins so soon that devices could hardly read the recipe and fetch a token in time, the
    one after it, if the log has its directory."""
    following = int(now // epoch_seconds) + 1
    soon = following * epoch_seconds - now < min(SETTLE_SECONDS, SETTLE_SHARE * epoch_seconds)
    return following + 1 if soon and live.directory(issuer, following + 1) is not None else following


def _free_slot(directory: IssuerDirectory, live: LiveLog) -> int:
    taken = {
        item.recipe.token.slot
        for item in live.recipes
        if (item.recipe.token.issuer, item.recipe.token.epoch) == (directory.issuer, directory.epoch)
    }
    free = [key.slot for key in directory.keys if key.slot not in taken]
    if not free:
        raise UsageError(f"all {len(directory.keys)} slots of epoch {directory.epoch} are taken; wait for the next one")
    return free[0]
