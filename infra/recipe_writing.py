"""A recipe from a completed survey: made, checked against the stack that is meant, and delivered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from infra.api import verified_log
from infra.command_options import layout_of, policy_of, read_file, write_file
from infra.layout import Layout
from infra.recipe_outlook import asked_words, outlook_lines, tell_coarse
from infra.terminal import notes, print_json, span
from tacit.adapters.system import SystemClock
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.models.forms.secure_aggregation import SecureAggregationParties
from tacit.operations.outlook import outlook
from tacit.recipe.builder import propose
from tacit.recipe.context import Context, Stage
from tacit.recipe.live import LiveLog
from tacit.recipe.model import Recipe
from tacit.recipe.survey import Survey
from tacit.rules import table as rules
from tacit.tlog.canonical import parse_json, validated
from tacit.tlog.leaves import IssuerDirectory

SETTLE_SECONDS, SETTLE_SHARE = 20.0, 0.25
"""How long before its beginning a recipe is written at least: so many seconds, or this share of an epoch."""

PartiesFile = Annotated[
    Path | None, typer.Option("--parties", help="JSON file with the recipe's parties, instead of a local stack.")
]
OutFile = Annotated[Path | None, typer.Option("--out", help="Write the recipe here (default: stdout).")]


def write_recipe(
    survey: Survey, parties: Path | None, state_dir: Path | None, out: Path | None, *, as_json: bool
) -> None:
    """Make the survey's recipe, in a local stack or with parties from a file, and deliver it. Raises ``UsageError``,
    and exits with 1 where the stack's policy will refuse it."""
    refusals: list[Refusal] = []
    if parties is not None:
        if state_dir is not None:
            raise typer.BadParameter("give either --parties or --state-dir")
        recipe = propose(_with_time(survey), _parties(parties))
    else:
        recipe, refusals = asyncio.run(_new_in_stack(survey, layout_of(state_dir)))
    stack = "" if state_dir is None else f" --state-dir {state_dir}"
    _deliver(recipe, out, stack, refusals, in_stack=parties is None, as_json=as_json)
    if refusals:
        raise typer.Exit(1)


async def _new_in_stack(survey: Survey, layout: Layout) -> tuple[Recipe, list[Refusal]]:
    """The recipe, and why the stack's policy will refuse it."""
    policy, now = policy_of(layout.policy_path), SystemClock().now()
    async with layout.transport() as transport:
        live = await verified_log(transport, layout, policy)
    issuer = layout.parties.issuer.name
    recipe = propose(placed(survey, live, issuer, layout.options.epoch_seconds, now), layout.parties)
    drafted = draft_context(recipe, live, now)
    refusals = rules.check(recipe, policy, drafted)
    refusals += rules.check(recipe, policy, replace(drafted, stage=Stage.PUBLISH), only={"audience-floor"})
    tell_refusals(refusals)
    return recipe, refusals


def _with_time(survey: Survey) -> Survey:
    """The survey, which has to say when it asks and which tokens it spends."""
    if None in (survey.start, survey.duration, survey.epoch, survey.slot):
        raise typer.BadParameter("with --parties also give --start, --duration, --epoch and --slot")
    return survey


def placed(survey: Survey, live: LiveLog, issuer: str, epoch_seconds: int, now: float) -> Survey:
    """The survey in the next epoch (whose tokens devices fetch now; the one after, where the next is about to begin)
    and its first free slot, where it says nothing else.

    Raises ``UsageError`` where the log has no directory of the epoch, or every slot is taken.
    """
    epoch = survey.epoch
    if epoch is None:
        epoch = _next_epoch(live, issuer, epoch_seconds, now) if survey.start is None else survey.start // epoch_seconds
    start = epoch * epoch_seconds if survey.start is None else survey.start
    duration = (epoch + 1) * epoch_seconds - start if survey.duration is None else survey.duration
    directory = live.directory(issuer, epoch)
    if directory is None:
        raise UsageError(f"the log shows no token keys for epoch {epoch}; wait a moment, or choose another --epoch")
    slot = _free_slot(directory, live) if survey.slot is None else survey.slot
    return survey.having(start=start, duration=duration, epoch=epoch, slot=slot)


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


def tell_refusals(refusals: Sequence[Refusal]) -> None:
    """Say of a draft what the stack's policy will refuse."""
    for refusal in refusals:
        notes().print(f"the stack's policy will refuse this: {refusal.rule}: {refusal.detail}", style="yellow")


def refusals_document(refusals: Sequence[Refusal]) -> list[dict[str, str]]:
    """As JSON."""
    return [{"rule": one.rule, "detail": one.detail} for one in refusals]


def draft_context(recipe: Recipe, live: LiveLog, now: float) -> Context:
    """The surroundings of a recipe that is in no log, as far as a verified log tells them."""
    directory = live.directory(recipe.token.issuer, recipe.token.epoch)
    return Context(Stage.DRAFT, now, directory=directory, censuses=live.censuses)


def _parties(path: Path) -> SecureAggregationParties:
    try:
        body = parse_json(read_file(path), str(path))
        return validated(SecureAggregationParties, body, str(path))
    except DecodeError as error:
        raise UsageError(str(error)) from error


def _deliver(
    recipe: Recipe, out: Path | None, stack: str, refusals: Sequence[Refusal], *, in_stack: bool, as_json: bool
) -> None:
    found, body = outlook(recipe), json.dumps(recipe.body(), indent=2, ensure_ascii=False) + "\n"
    if out is not None:
        write_file(out, body.encode())
    if as_json:
        document = {"hash": recipe.hash_text, "file": None if out is None else str(out), "recipe": recipe.body()}
        print_json({**document, **found.document(), "refusals": refusals_document(refusals)})
    elif out is None:
        print(body, end="")
    interval = span(recipe.interval.start, recipe.interval.end)
    notes().print(f"recipe {recipe.name}, hash {recipe.hash_text}, reports {interval}", style="dim")
    for line in [asked_words(recipe.interval, SystemClock().now()), *outlook_lines(recipe, found)]:
        notes().print(line, style="dim")
    tell_coarse(recipe)
    if out is not None and refusals:
        notes().print(f"next: make {out} anew without what is refused", style="dim")
    elif out is not None:
        stage = f" --stage publish{stack}" if in_stack else stack
        notes().print(f"next: tacit recipe check {out}{stage}; tacit recipe publish {out}{stack}", style="dim")
