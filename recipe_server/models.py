"""The recipe server's records of models: which file each round names, and the pieces of the files that it holds.

A model is *live* while a round that names it is live: it has not ended, or ended less than a grace ago (``gone``: now
minus that grace, in POSIX seconds). The log decides what a file is: its SHA-256, and its length. Two rounds may state
different lengths for one hash, of which one file at most has both.

Every analyst has its share of the room (``with_room``). It is taken by what the log names and not by what is
stored, so nobody takes that of another: not by files, and not by naming another's models, which then count twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.schema import MODEL_PIECES, RECIPES, ROUND_MODELS
from tacit.codec import unb64url
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import share_of
from tacit.recipe.training import FILE_ENTRY, FILE_HEADER, MAX_ENTRIES, MODEL_PIECE, RoundModel, read_round_model

MOST_BYTES: Final = FILE_HEADER + FILE_ENTRY * MAX_ENTRIES
"""Most bytes of a model file."""
_MOST_PIECES = -(-MOST_BYTES // MODEL_PIECE)


class Named(NamedTuple):
    """A live round's file: SHA-256, stated length, the round's analyst, and its end (POSIX seconds)."""

    model: bytes
    length: int
    analyst: str
    ends_at: int


def with_room(named: Iterable[Named], analysts: Mapping[str, int], most: int, now: int) -> dict[bytes, set[int]]:
    """The files, with their lengths, that may be stored at ``now`` of those ``named`` in the log's order: at most
    ``most`` bytes in all, of each analyst its share. First come the rounds that are not over, then the others; one
    that does not fit leaves its room to the next. ``analysts``: the weights of those who may publish; others whose
    rounds are not over have 1."""
    rounds = sorted(named, key=lambda one: one.ends_at <= now)
    weights = dict.fromkeys((one.analyst for one in rounds), 1) | dict(analysts)
    taken, found, counted = dict[str, int](), dict[bytes, set[int]](), set[tuple[str, bytes, int]]()
    for one in rounds:
        size, own = taken.get(one.analyst, 0) + one.length, (one.analyst, one.model, one.length)
        if own not in counted and size <= share_of(one.analyst, weights, most):
            counted.add(own)
            taken[one.analyst] = size
            found.setdefault(one.model, set()).add(one.length)
    return found


def model_of(recipe: Recipe) -> RoundModel | None:
    """The model that a recipe in the log names; None if it trains none. Raises ``DecodeError``."""
    spec, text = recipe.question.encoder, recipe.question.round_input
    if not isinstance(spec, Update) or text is None:
        return None
    return read_round_model(text, spec.training)


def pieces_of(file: bytes) -> list[bytes]:
    """The pieces of a model file, in order: MODEL_PIECE bytes each, the last one what is left."""
    return [file[start : start + MODEL_PIECE] for start in range(0, len(file), MODEL_PIECE)]


class ModelRows:
    """The models as one transaction sees them; ``model`` is the SHA-256 of a file."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, recipe: Recipe) -> None:
        """Record the model that ``recipe``, which is in the log, names; nothing if it trains none."""
        model = model_of(recipe)
        if model is not None:
            stated = {"model": unb64url(model.model), "bytes": model.bytes}
            own = {"recipe_hash": recipe.hash, "analyst": recipe.parties.analyst.operator}
            await self._connection.execute(sa.insert(ROUND_MODELS).values(**own, **stated))

    async def named(self, gone: int) -> list[Named]:
        """The files that live rounds name, in the order of the log."""
        columns = (ROUND_MODELS.c.model, ROUND_MODELS.c.bytes, ROUND_MODELS.c.analyst, RECIPES.c.ends_at)
        rows = await self._connection.execute(_live(gone, *columns).order_by(RECIPES.c.position))
        return [Named(bytes(row.model), row.bytes, row.analyst, row.ends_at) for row in rows]

    async def put(self, model: bytes, file: bytes) -> None:
        """Store ``file``, unchecked, as pieces. Raises ``IntegrityError`` if it is stored already."""
        rows = [{"model": model, "number": number, "body": body} for number, body in enumerate(pieces_of(file))]
        await self._connection.execute(sa.insert(MODEL_PIECES), rows)

    async def holds(self, model: bytes) -> bool:
        """Whether the file is stored."""
        first = (MODEL_PIECES.c.model == model, MODEL_PIECES.c.number == 0)
        return await self._connection.scalar(sa.select(MODEL_PIECES.c.number).where(*first)) is not None

    async def piece(self, model: bytes, number: int) -> bytes | None:
        """Piece ``number`` (from 0) of a stored file; None if the file is not stored or has fewer pieces."""
        if number >= _MOST_PIECES:
            return None
        at = (MODEL_PIECES.c.model == model, MODEL_PIECES.c.number == number)
        body: bytes | None = await self._connection.scalar(sa.select(MODEL_PIECES.c.body).where(*at))
        return body

    async def taken(self, gone: int) -> int:
        """Bytes of the stored files of live models."""
        size = sa.select(sa.func.sum(sa.func.length(MODEL_PIECES.c.body)))
        live = MODEL_PIECES.c.model.in_(_live(gone, ROUND_MODELS.c.model))
        return int(await self._connection.scalar(size.where(live)) or 0)

    async def forget(self, gone: int) -> int:
        """Delete the files of models that are no longer live; returns the number of pieces."""
        live = MODEL_PIECES.c.model.in_(_live(gone, ROUND_MODELS.c.model))
        return (await self._connection.execute(sa.delete(MODEL_PIECES).where(~live))).rowcount

    async def keep(self, models: Collection[bytes]) -> None:
        """Delete the files of all other models."""
        stored = await self._connection.execute(sa.select(MODEL_PIECES.c.model).where(MODEL_PIECES.c.number == 0))
        others = {bytes(model) for model in stored.scalars()}.difference(models)
        for model in others:
            await self._connection.execute(sa.delete(MODEL_PIECES).where(MODEL_PIECES.c.model == model))


def _live(gone: int, *columns: sa.Column[Any]) -> sa.Select[Any]:
    """``columns`` of the rounds that name a model and end after ``gone`` (POSIX seconds)."""
    joined = sa.select(*columns).join(RECIPES, RECIPES.c.hash == ROUND_MODELS.c.recipe_hash)
    return joined.where(RECIPES.c.ends_at > gone)
