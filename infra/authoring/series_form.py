"""Shapes a series from a recipe and a few flags, so that its rounds fit the issuer's epochs."""

from __future__ import annotations

import asyncio
from decimal import Decimal, InvalidOperation
from pathlib import Path

from infra.base.recipe_files import read_body
from infra.stacks.api import verified_log
from infra.stacks.command_options import STATE_DIR, layout_of, policy_of
from infra.stacks.layout import Layout
from tacit.errors import UsageError
from tacit.logview.live import LiveLog, LiveSeries
from tacit.operations import series_drafting
from tacit.operations.series_rounds import series_called
from tacit.ports import TransportError
from tacit.recipe.encoder_specs import Prefixes
from tacit.recipe.model import Recipe
from tacit.recipe.series import MAX_PER_EPOCH, Series
from tacit.recipe.writing.series_builder import Shape


def read_series(data: bytes, name: str) -> Series:
    """Parse the series in a file's ``data``, canonical JSON or not; ``name`` is for errors. Raises ``UsageError``."""
    return read_body(data, name, Series.from_body)


async def logged_series(name: str, state_dir: Path | None) -> LiveSeries:
    """The series in the log of a stack that ``name`` or the beginning of its hash names. Raises ``UsageError``."""
    found = series_called(await _log_of(layout_of(state_dir)), name)
    if found is None:
        raise UsageError(f"the log shows no live series called {name}")
    return found


def total_of(text: str | None) -> Decimal | None:
    """The total epsilon that a flag states, if it does. Raises ``UsageError``."""
    if text is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    if not number.is_finite() or number <= 0:
        raise UsageError("--total-epsilon takes a number above 0 such as 1 or 0.5")
    return number


def stack_if_any(state_dir: Path | None) -> Layout | None:
    """Return the local stack if one is named or exists in the default folder, otherwise None."""
    return layout_of(state_dir) if state_dir is not None or STATE_DIR.is_dir() else None


def shape_of(
    recipe: Recipe,
    layout: Layout | None,
    counts: tuple[int | None, int | None],
    window: int | None,
    pause: int,
    per_epoch: int | None,
) -> Shape:
    """Return the shape of a series whose rounds begin with the recipe's interval; ``counts``: how many rounds and
    donation slots there are (default: for a search of prefixes as many as it has levels). Each lasts ``window`` seconds
    (default: as long as the recipe). With a local stack, raises ``UsageError`` if a round is not inside the epoch of
    its tokens."""
    rounds, slots = _counts(recipe, *counts)
    seconds = window or recipe.interval.duration
    if layout is None:
        return Shape(rounds, slots, recipe.interval.start, seconds, per_epoch or 1, pause)
    epoch_seconds = layout.options.epoch_seconds
    usual = max(1, min(rounds, (epoch_seconds + pause) // (seconds + pause), MAX_PER_EPOCH))
    shape = Shape(rounds, slots, recipe.interval.start, seconds, per_epoch or usual, pause)
    series_drafting.require_inside(shape, recipe.token.epoch, epoch_seconds)
    return shape


def on_free_slots(recipe: Recipe, shape: Shape, layout: Layout | None) -> Recipe:
    """``recipe``, or where its slot or one of another round is taken, as it is once published itself, with other slots
    that are free in the stack's log. While the stack is down, no slot counts as taken. Raises ``UsageError``."""
    if layout is None:
        return recipe
    try:
        live = asyncio.run(_log_of(layout))
    except TransportError:
        live = LiveLog()
    return series_drafting.on_free_slots(recipe, shape, live, layout.options.slots_per_epoch)


async def _log_of(layout: Layout) -> LiveLog:
    async with layout.transport() as transport:
        return await verified_log(transport, layout, policy_of(layout.policy_path))


def _counts(recipe: Recipe, rounds: int | None, slots: int | None) -> tuple[int, int | None]:
    """How many rounds and donation slots there are. Raises ``UsageError`` where nothing says it."""
    spec = recipe.question.encoder
    if isinstance(spec, Prefixes):
        return rounds or len(spec.levels), slots or len(spec.levels)
    if rounds is None:
        raise UsageError("--rounds is needed: how many rounds there may be")
    return rounds, slots
