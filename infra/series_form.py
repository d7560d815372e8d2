"""From a recipe and a few flags to a series whose rounds fit the issuer's epochs."""

from __future__ import annotations

from pathlib import Path

from infra.command_options import STATE_DIR, layout_of
from infra.layout import Layout
from tacit.errors import DecodeError, UsageError
from tacit.moments import moment
from tacit.recipe.model import Recipe
from tacit.recipe.series import MAX_PER_EPOCH, Series
from tacit.recipe.series_builder import Shape
from tacit.tlog.canonical import parse_json


def read_series(data: bytes, name: str) -> Series:
    """The series in a file, canonical or not. Raises ``UsageError``."""
    try:
        body = parse_json(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return Series.from_body(body)
    except DecodeError as error:
        text = str(error)
        raise UsageError(text if text.startswith(name) else f"{name}: {text}") from error


def stack_if_any(state_dir: Path | None) -> Layout | None:
    """The local stack, where one is named or stands in the usual place."""
    return layout_of(state_dir) if state_dir is not None or STATE_DIR.is_dir() else None


def shape_of(
    recipe: Recipe, layout: Layout | None, rounds: int, slots: int | None, window: int | None, per_epoch: int | None
) -> Shape:
    """Rounds from the recipe's beginning on, each as long as ``window`` (default: the recipe), in the epochs of a local
    stack where there is one. Raises ``UsageError`` where a round would not lie inside the epoch of its tokens."""
    seconds = window or recipe.interval.duration
    if layout is None:
        return Shape(rounds, slots, recipe.interval.start, seconds, per_epoch or 1)
    epoch_seconds, first = layout.options.epoch_seconds, recipe.token.slot
    usual = max(1, min(rounds, epoch_seconds // seconds, MAX_PER_EPOCH))
    shape = Shape(rounds, slots, recipe.interval.start, seconds, per_epoch or usual)
    if first + shape.per_epoch > layout.options.slots_per_epoch:
        raise UsageError(
            f"{shape.per_epoch} slots per epoch from slot {first} on are more than the issuer's "
            f"{layout.options.slots_per_epoch}; take a longer --window, or a recipe with a lower --slot"
        )
    for index in range(rounds):
        begin = shape.start + index * seconds
        epoch = recipe.token.epoch + index // shape.per_epoch
        if not epoch * epoch_seconds <= begin <= begin + seconds <= (epoch + 1) * epoch_seconds:
            raise UsageError(
                f"round {index}, {moment(begin)} to {moment(begin + seconds)}, is not inside epoch {epoch}, "
                f"{moment(epoch * epoch_seconds)} to {moment((epoch + 1) * epoch_seconds)}: begin with an epoch, and "
                "let --window times --slots-per-epoch be its length"
            )
    return shape
