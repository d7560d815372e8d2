"""The rounds of a series that somebody takes from release to release: what the log holds of them, the release of the
newest one, and the publication of the next. Nothing is remembered, so anybody who reads log and releases can go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.logview.live import LiveLog, LiveRecipe, LiveSeries
from tacit.operations.publishing import send_leaf, signed_leaf
from tacit.operations.results import CollectorAccess, collected, read_results
from tacit.ports import Clock, Transport
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.signing import Signer

Asked = tuple[Recipe, Sequence[Mapping[str, Any]]]
"""A round in the log, and the documents of its releases (none yet: empty)."""


def series_called(log: LiveLog, name: str) -> LiveSeries | None:
    """The newest series of ``log`` that is called ``name`` or, if none is, whose hash begins with it."""
    named = [one for one in log.series if one.series.name == name]
    found = named or [one for one in log.series if one.series.hash_text.startswith(name)]
    return found[-1] if found else None


def published_rounds(log: LiveLog, series: Series) -> list[LiveRecipe]:
    """The rounds of ``series`` in ``log``, in the order of their indices, of which some may be missing."""
    own = [one for one in log.recipes if log.round_of(one.recipe) is series]
    return sorted(own, key=lambda one: index_of(one.recipe))


def index_of(recipe: Recipe) -> int:
    """The index of a round in its series. Raises ``ValueError`` for a recipe that is no round."""
    if recipe.series is None:
        raise ValueError(f"{recipe.name} is no round of a series")
    return recipe.series.index


async def await_releases(
    transport: Transport, at: CollectorAccess, recipe: Recipe, clock: Clock, wait: float
) -> list[dict[str, Any]]:
    """The releases of a round, which is collected, and awaited until its reports are over and ``wait`` seconds longer;
    empty where there are none by then. Raises as ``tacit.operations.results.collected``."""
    found = await read_results(transport, at, recipe.hash_text)
    if found:
        return found
    await clock.sleep(max(0.0, recipe.interval.end - clock.now()))
    await collected(transport, at, recipe.hash_text, clock, wait=wait, asked=None)
    return await read_results(transport, at, recipe.hash_text)


async def publish_round(transport: Transport, server: str, recipe: Recipe, key: Signer) -> int:
    """Sign a round as its analyst and put it into the log at ``server``; returns the index of its entry. Raises as
    ``tacit.operations.publishing``."""
    return await send_leaf(transport, server, signed_leaf(recipe, key))
