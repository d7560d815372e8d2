"""What a transaction finds in the log around a round of a series."""

from __future__ import annotations

from recipe_server.store import RecipeTx
from tacit.codec import unb64url
from tacit.errors import DecodeError, Fatal, Refusal
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.tlog.leaves import SignedLeaf


async def series_of(tx: RecipeTx, recipe: Recipe) -> Series | None:
    """The series that a recipe names, if the log holds it."""
    logged = None if recipe.series is None else await tx.series.find(unb64url(recipe.series.hash))
    if logged is None:
        return None
    return stored_series((await tx.leaves([logged.index]))[logged.index])


async def round_before(tx: RecipeTx, recipe: Recipe, series: Series | None) -> Recipe | None:
    """The recipe that holds the round before this one, if the log has it."""
    if series is None or recipe.series is None or not recipe.series.index:
        return None
    owner = await tx.series.round_owner(series.hash, recipe.series.index - 1)
    index = None if owner is None else await tx.recipe_index(owner)
    if index is None:
        return None
    return Recipe.from_body(SignedLeaf.decode((await tx.leaves([index]))[index]).body)


async def slot_owner(tx: RecipeTx, recipe: Recipe, now: float) -> bytes | None:
    """Hash of the recipe that has the recipe's slot; without one, that of another series, not over at ``now`` (POSIX
    seconds), which assigns the slot to a round: the first in the log. The log keeps its slots free for it."""
    token = recipe.token
    owner = await tx.slot_owner(token.issuer, token.epoch, token.slot)
    if owner is not None:
        return owner
    series = next((one for one in await _going_on(tx, now) if one.assigns(token)), None)
    return None if series is None or series.mismatch(recipe) is None else series.hash


async def require_free_slots(tx: RecipeTx, series: Series, now: float) -> None:
    """Raise ``Refusal`` ``slot-taken`` if a recipe in the log, or a series there that is not over at ``now``, has the
    slot of one of the rounds of ``series``."""
    tokens = [series.token(index) for index in range(series.rounds)]
    held = await tx.series.taken_slots(series.slots.issuer, tokens[0].epoch, tokens[-1].epoch)
    others = await _going_on(tx, now)
    for index, token in enumerate(tokens):
        if (token.epoch, token.slot) in held or any(one.assigns(token) for one in others):
            words = (
                f"slot {token.slot} of epoch {token.epoch}, that of round {index}, belongs to another recipe or series"
            )
            raise Refusal("slot-taken", f"{words}; take free ones")


async def _going_on(tx: RecipeTx, now: float) -> list[Series]:
    """The series in the log that are not over, in its order."""
    places = [one.index for one in await tx.series.ending_after(int(now))]
    leaves = await tx.leaves(places)
    return [stored_series(leaves[place]) for place in places]


def stored_series(data: bytes) -> Series:
    """The series of a stored leaf. Raises ``Fatal`` if the store holds something else."""
    try:
        return Series.from_body(SignedLeaf.decode(data).body)
    except DecodeError as error:
        raise Fatal("the store holds a series leaf that cannot be read") from error
