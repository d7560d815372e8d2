"""What a recipe server tells: one recipe, or the whole log, each checked against hashes and signatures."""

from __future__ import annotations

from typing import Any

from tacit.codec import unb64url
from tacit.errors import DecodeError
from tacit.logview.contents import LogContents, RememberedLog
from tacit.logview.live import LiveLog
from tacit.logview.whole import WholeLog
from tacit.operations.calls import NoAnswerError, call, get_bytes
from tacit.ports import Transport, TransportError
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.leaves import SignedLeaf


async def logged_recipe(transport: Transport, server: str, recipe_hash: str) -> tuple[dict[str, Any], Recipe]:
    """What the recipe server reports about a recipe, and the recipe itself. Its hash and its analyst's signature are
    checked. Raises ``CryptoError`` and ``DecodeError``, and as ``call`` does."""
    document = await call(transport, "GET", f"{server}/v1/recipes/{recipe_hash}")
    leaf = SignedLeaf.decode(unb64url(document["leaf"]))
    recipe = Recipe.from_body(leaf.body)
    leaf.verify(unb64url(recipe.parties.analyst.signing_key))
    if recipe.hash_text != recipe_hash:
        raise DecodeError("the recipe server answered with another recipe")
    return document, recipe


async def verified_log(transport: Transport, server: str, key: NoteKey, policy: Policy) -> LiveLog:
    """Read the current log of the recipe server at ``server``, and check checkpoint, inclusion and signatures. Raises
    ``Refusal``, and as ``call`` does."""

    async def get(path: str) -> bytes:
        return await get_bytes(transport, f"{server}{path}")

    return await RememberedLog(get, LogPolicy(key), policy).read()


async def whole_log(transport: Transport, server: str, key: NoteKey, policy: Policy) -> LiveLog:
    """Read every leaf of the log at ``server`` since its beginning, and check the leaves against the checkpoint and
    their signatures. Raises ``Refusal`` and ``NoAnswerError``."""
    log = WholeLog(transport, server, key)
    try:
        await log.read(await log.checkpoint(), 0)
    except TransportError as error:
        raise NoAnswerError(server, error) from error
    contents = LogContents(policy, key.public)
    contents.add(log.tree.entries)
    return contents.live()
