"""Makes a recipe from a completed survey, checks it against the stack's policy, and writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import typer

from infra.authoring.devices_at_work import crowd_of
from infra.authoring.publishing_time import log_with_keys, tell_crowd
from infra.authoring.slot_reservations import reservations
from infra.stacks.command_options import layout_of, policy_of, read_file, write_file
from infra.stacks.layout import Layout
from infra.views.policy_words import for_authors
from infra.views.recipe_outlook import asked_words, outlook_lines, tell_warnings
from infra.views.terminal import json_text, notes, print_json, span
from tacit.adapters.system import SystemClock
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.models.form import Form
from tacit.models.parties import Parties
from tacit.operations.drafting import Drafted, draft_recipe, watched_from
from tacit.recipe.encoder_specs import Prefixes
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.tlog.canonical import parse_json, validate


def write_recipe(
    survey: Survey, parties: Path | None, state_dir: Path | None, out: Path | None, *, as_json: bool
) -> None:
    """Make the survey's recipe, for a local stack or with parties from a file, and write it to ``out`` or stdout.
    Raises ``UsageError``, and exits with 1 if the stack's policy will refuse the recipe."""
    if parties is not None:
        if state_dir is not None:
            raise typer.BadParameter("give either --parties or --state-dir")
        found = Drafted(propose(_with_time(survey), _parties(parties, survey.form)))
    else:
        found = asyncio.run(_new_in_stack(survey, layout_of(state_dir)))
    stack = "" if state_dir is None else f" --state-dir {state_dir}"
    _deliver(found, out, stack, in_stack=parties is None, as_json=as_json)
    if found.refusals:
        raise typer.Exit(1)


async def _new_in_stack(survey: Survey, layout: Layout) -> Drafted:
    """Draft the recipe for a local stack, with the reasons for which its policy will refuse it."""
    policy, crowd, clock = policy_of(layout.policy_path), crowd_of(layout), SystemClock()
    live = await log_with_keys(layout, clock)
    parties, seconds = layout.parties_of(survey.model), layout.options.epoch_seconds
    with reservations(layout.state_dir, clock.now()) as held:
        found = draft_recipe(survey, parties, live, policy, seconds, clock.now(), crowd.pace, held.slots)
        if not found.refusals:
            held.add(found.recipe)
    tell_refusals(found.refusals)
    tell_crowd(found.recipe, crowd)
    return found


def _with_time(survey: Survey) -> Survey:
    """The survey, which must state its time, token epoch and slot."""
    if None in (survey.start, survey.duration, survey.epoch, survey.slot):
        raise typer.BadParameter("with --parties also give --start, --duration, --epoch and --slot")
    return watched_from(survey, SystemClock().now())


def tell_refusals(refusals: Sequence[Refusal]) -> None:
    """Print what the stack's policy will refuse about a draft."""
    for refusal in refusals:
        words = for_authors(refusal.detail)
        notes().print(f"the stack's policy will refuse this: {refusal.rule}: {words}", style="yellow")


def _parties(path: Path, form: Form) -> Parties:
    try:
        body = parse_json(read_file(path), str(path))
        return validate(form.parties, body, str(path))
    except DecodeError as error:
        raise UsageError(str(error)) from error


def _deliver(found: Drafted, out: Path | None, stack: str, *, in_stack: bool, as_json: bool) -> None:
    recipe = found.recipe
    body = json_text(recipe.body())
    if out is not None:
        write_file(out, body.encode())
    if as_json:
        print_json({"hash": recipe.hash_text, "file": None if out is None else str(out), **found.document()})
    elif out is None:
        print(body, end="")
    interval = span(recipe.interval.start, recipe.interval.end)
    notes().print(f"recipe {recipe.name}, hash {recipe.hash_text}, reports {interval}", style="dim")
    for line in [asked_words(recipe.interval, SystemClock().now()), *outlook_lines(recipe, found.outlook)]:
        notes().print(line, style="dim")
    tell_warnings(recipe)
    if out is not None and found.refusals:
        notes().print(f"next: make {out} again without what is refused", style="dim")
    elif out is not None:
        stage = f" --stage publish{stack}" if in_stack else stack
        then = f"recipe check {out}{stage}; tacit recipe publish {out}{stack}"
        if isinstance(recipe.question.encoder, Prefixes):
            then = f"series new{stack} --from {out} --out search.json"
        notes().print(f"next: tacit {then}", style="dim")
