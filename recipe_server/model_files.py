"""The model files of rounds, which devices fetch in pieces: taken from anybody, because the log says what they are.

A file is taken while a live round in the log names its SHA-256 and length, and stored whole in one transaction. What
can be known without the body is checked before it is read. All stored files together have at most ``model_bytes``,
shared out evenly between the analysts that the policy names; where an analyst's would have more, those of its rounds
that are over give way to those of rounds that are not.
Bodies that are arriving count among the listener's ``receiving_bytes``, so a slow sender keeps nobody out; those that
have arrived are at most ``_AT_ONCE`` of the largest.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from recipe_server.config import RecipeServerConfig
from recipe_server.models import MOST_BYTES, Named, with_room
from recipe_server.store import RecipeStore, RecipeTx
from tacit.codec import b64url
from tacit.errors import Abort, Refusal
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.limits import ByteBudget

MODEL_UNKNOWN: Final = "urn:tacit:problem:model-unknown"
MODELS_FULL: Final = "urn:tacit:problem:models-full"
FORGET_SECONDS: Final = 60.0
"""Seconds between two looks for files that are no longer live."""
_AT_ONCE = 4


class ModelFiles:
    """The model files of one store. As a ``Driver`` it deletes those that are no longer live, by others' clocks too."""

    def __init__(self, config: RecipeServerConfig, deps: ServiceEnv, store: RecipeStore) -> None:
        self._clock = deps.clock
        self._vouched = deps.vouched
        self._store = store
        self._ended_seconds = config.ended_seconds
        self._most = config.model_bytes
        self._analysts = config.policy.weights
        self._arrived = ByteBudget(_AT_ONCE * MOST_BYTES, deps.entropy)
        self._log = get_logger("recipe_server")

    async def require(self, model: bytes, length: int) -> None:
        """Check that a file of ``length`` bytes with the SHA-256 ``model`` would be taken.

        Raises ``Abort``: 404 ``model-unknown`` if no live round names it, 507 ``models-full`` if there is no room; and
        ``Refusal`` ``model-length`` if the rounds state another length.
        """
        async with self._store.read() as tx:
            await self._is_new(tx, model, length)

    async def put(self, model: bytes, file: bytes) -> bool:
        """Store ``file``; False if it is stored already. Raises what ``require`` raises, ``Refusal`` ``model-hash`` if
        ``model`` is not its SHA-256, and ``Abort`` (503) if too many have arrived at once."""
        with self._arrived.reserve(len(file)):
            digest = await asyncio.to_thread(hashlib.sha256, file)
            if not hmac.compare_digest(digest.digest(), model):
                raise Refusal("model-hash", "the body has another SHA-256; send the file that the round names")
            async with self._store.transaction() as tx:
                await tx.models.forget(self._gone_for_good())
                is_new = await self._is_new(tx, model, len(file))
                if is_new:
                    await tx.models.keep(self._with_room(await tx.models.named(self._gone_for_good())))
                    await tx.models.put(model, file)
        if is_new:
            self._log.info("model_stored", model=b64url(model), bytes=len(file))
        return is_new

    async def piece(self, model: bytes, number: int) -> bytes | None:
        """Piece ``number`` (from 0) of a stored file, at most ``MODEL_PIECE`` bytes; None if the file is not stored or
        has fewer pieces."""
        async with self._store.read() as tx:
            return await tx.models.piece(model, number)

    async def taken(self) -> int:
        """Bytes of all stored files of live models."""
        async with self._store.read() as tx:
            return await tx.models.taken(self._gone())

    async def step(self) -> int:
        """Delete the files of models that are no longer live; returns the number of their pieces."""
        async with self._store.transaction() as tx:
            return await tx.models.forget(self._gone_for_good())

    def _now(self) -> int:
        return int(self._clock.now())

    def _gone(self) -> int:
        return self._now() - self._ended_seconds

    def _gone_for_good(self) -> int:
        """``_gone``, as far as others vouch for it: 0 or less while nobody does."""
        return int(max(self._vouched.past(), 0.0)) - self._ended_seconds

    def _with_room(self, named: Iterable[Named]) -> dict[bytes, set[int]]:
        return with_room(named, self._analysts, self._most, self._now())

    async def _is_new(self, tx: RecipeTx, model: bytes, length: int) -> bool:
        """Whether an acceptable file is not stored yet. Raises what ``require`` raises."""
        named = await tx.models.named(self._gone())
        stated = {one.length for one in named if one.model == model}
        if not stated:
            detail = "publish the recipe of the round first, and send its file before the round is over"
            raise Abort(MODEL_UNKNOWN, detail, status=404, title="No live round in the log names this model.")
        if length not in stated:
            words = " or ".join(map(str, sorted(stated)))
            raise Refusal("model-length", f"the round's model has {words} bytes, not {length}")
        if await tx.models.holds(model):
            return False
        if length not in self._with_room(named).get(model, ()):
            detail = (
                "the analyst's share is taken by earlier rounds; send the file again when they are over, or have the "
                "operator raise model_bytes"
            )
            raise Abort(MODELS_FULL, detail, status=507, title="There is no room for another model file.")
        return True
