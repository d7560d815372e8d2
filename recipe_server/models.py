"""The recipe server's records of models: which file each round names, and the pieces of the files that it holds.

A model is *live* while a round that names it is live: it has not ended, or ended less than a grace ago (``gone``: now
minus that grace, in POSIX seconds). The log decides what a file is: its SHA-256, and its length. Two rounds may state
different lengths for one hash, of which one file at most has both.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.schema import MODEL_PIECES, RECIPES, ROUND_MODELS
from tacit.codec import unb64url
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.training import FILE_ENTRY, FILE_HEADER, MAX_ENTRIES, MODEL_PIECE, RoundModel, read_round_model

MOST_BYTES: Final = FILE_HEADER + FILE_ENTRY * MAX_ENTRIES
"""Most bytes of a model file."""
_MOST_PIECES = -(-MOST_BYTES // MODEL_PIECE)


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
        found = model_of(recipe)
        if found is not None:
            values = {"recipe_hash": recipe.hash, "model": unb64url(found.model), "bytes": found.bytes}
            await self._connection.execute(sa.insert(ROUND_MODELS).values(**values))

    async def lengths(self, model: bytes, gone: int) -> set[int]:
        """The lengths in bytes that live rounds state for ``model``; empty if none names it."""
        named = _live(ROUND_MODELS.c.bytes, gone).where(ROUND_MODELS.c.model == model)
        return set((await self._connection.execute(named)).scalars())

    async def put(self, model: bytes, file: bytes) -> None:
        """Store a file whose SHA-256 is ``model``."""
        rows = [{"model": model, "number": number, "body": body} for number, body in enumerate(pieces_of(file))]
        await self._connection.execute(sa.insert(MODEL_PIECES), rows)

    async def holds(self, model: bytes) -> bool:
        """Whether the file is stored."""
        first = (MODEL_PIECES.c.model == model, MODEL_PIECES.c.number == 0)
        return await self._connection.scalar(sa.select(MODEL_PIECES.c.number).where(*first)) is not None

    async def piece(self, model: bytes, number: int) -> bytes | None:
        """Piece ``number`` (from 0) of a stored file, or None."""
        if number >= _MOST_PIECES:
            return None
        at = (MODEL_PIECES.c.model == model, MODEL_PIECES.c.number == number)
        found: bytes | None = await self._connection.scalar(sa.select(MODEL_PIECES.c.body).where(*at))
        return found

    async def taken(self, gone: int) -> int:
        """Bytes of the stored files of live models."""
        size = sa.select(sa.func.sum(sa.func.length(MODEL_PIECES.c.body)))
        live = MODEL_PIECES.c.model.in_(_live(ROUND_MODELS.c.model, gone))
        return int(await self._connection.scalar(size.where(live)) or 0)

    async def forget(self, gone: int) -> int:
        """Delete the files of models that are no longer live; returns the number of pieces."""
        live = MODEL_PIECES.c.model.in_(_live(ROUND_MODELS.c.model, gone))
        return (await self._connection.execute(sa.delete(MODEL_PIECES).where(~live))).rowcount


def _live(column: sa.Column[Any], gone: int) -> sa.Select[Any]:
    """``column`` of the live rounds that name a model."""
    joined = sa.select(column).join(RECIPES, RECIPES.c.hash == ROUND_MODELS.c.recipe_hash)
    return joined.where(RECIPES.c.ends_at > gone)
