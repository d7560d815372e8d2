"""What a transaction finds in the log around a round of a series."""

from __future__ import annotations

from functools import lru_cache

from recipe_server.store import RecipeTx
from tacit.codec import unb64url
from tacit.errors import DecodeError, Fatal
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Ended, Series
from tacit.tlog.leaves import SignedLeaf


async def series_of(tx: RecipeTx, recipe: Recipe) -> Series | None:
    """The series that a recipe names, if the log holds it."""
    logged = None if recipe.series is None else await tx.series.find(unb64url(recipe.series.hash))
    if logged is None:
        return None
    return stored_series((await tx.leaves([logged.index]))[logged.index])


async def ended_of(tx: RecipeTx, series: Series | None) -> Ended | None:
    """How a series in the log was ended by a leaf of its own; None for a series that was not, or is not in the log."""
    logged = None if series is None else await tx.series.find(series.hash)
    if logged is None or logged.end_index is None:
        return None
    return await tx.series.ended_at(logged.hash, logged.end_index)


async def round_before(tx: RecipeTx, recipe: Recipe, series: Series | None) -> Recipe | None:
    """The recipe that holds the round before this one; None for a first round, for a recipe of no series, and where the
    log has no such round."""
    if series is None or recipe.series is None or not recipe.series.index:
        return None
    owner = await tx.series.round_owner(series.hash, recipe.series.index - 1)
    index = None if owner is None else await tx.recipe_index(owner)
    if index is None:
        return None
    return Recipe.from_body(SignedLeaf.decode((await tx.leaves([index]))[index]).body)


async def going_on(tx: RecipeTx, policy: Policy, now: float) -> list[Series]:
    """The series in the log whose rounds may still come at ``now`` (POSIX seconds), in its order."""
    places = [one.index for one in await tx.series.live(int(now), policy) if one.is_open]
    leaves = await tx.leaves(places)
    return [stored_series(leaves[place]) for place in places]


@lru_cache(maxsize=128)
def stored_series(data: bytes) -> Series:
    """The series of a stored leaf. Raises ``Fatal`` if the store holds something else."""
    try:
        return Series.from_body(SignedLeaf.decode(data).body)
    except DecodeError as error:
        raise Fatal("the store holds a series leaf that cannot be read") from error
