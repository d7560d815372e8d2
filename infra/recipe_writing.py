"""A recipe from a completed form: made, checked against the stack that is meant, and delivered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from infra.api import verified_log
from infra.layout import Layout
from infra.places import layout_of, policy_of, read_file, write_file
from infra.recipe_form import Form, place_by_hand, place_in_stack, recipe_of
from infra.recipe_outlook import asked_words, outlook_lines, tell_coarse
from infra.terminal import notes, print_json, span
from tacit.adapters.system import SystemClock
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.models.forms.secure_aggregation import SecureAggregationParties
from tacit.operations.outlook import outlook
from tacit.recipe.context import Context, Stage
from tacit.recipe.live import LiveLog
from tacit.recipe.model import Recipe
from tacit.rules import table as rules
from tacit.tlog.canonical import parse_json, validated


def write_recipe(form: Form, parties: Path | None, state_dir: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Make the form's recipe, in a local stack or with parties from a file, and deliver it. Raises ``UsageError``, and
    exits with 1 where the stack's policy will refuse it."""
    refusals: list[Refusal] = []
    if parties is not None:
        if state_dir is not None:
            raise typer.BadParameter("give either --parties or --state-dir")
        recipe = recipe_of(form, _parties(parties), place_by_hand(form))
    else:
        recipe, refusals = asyncio.run(_new_in_stack(form, layout_of(state_dir)))
    stack = "" if state_dir is None else f" --state-dir {state_dir}"
    _deliver(recipe, out, stack, refusals, in_stack=parties is None, as_json=as_json)
    if refusals:
        raise typer.Exit(1)


async def _new_in_stack(form: Form, layout: Layout) -> tuple[Recipe, list[Refusal]]:
    """The recipe, and why the stack's policy will refuse it."""
    policy, now = policy_of(layout.policy_path), SystemClock().now()
    async with layout.transport() as transport:
        live = await verified_log(transport, layout, policy)
    issuer = layout.parties.issuer.name
    recipe = recipe_of(form, layout.parties, place_in_stack(form, live, issuer, layout.options.epoch_seconds, now))
    drafted = draft_context(recipe, live, now)
    refusals = rules.check(recipe, policy, drafted)
    refusals += rules.check(recipe, policy, replace(drafted, stage=Stage.PUBLISH), only={"audience-floor"})
    tell_refusals(refusals)
    return recipe, refusals


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
