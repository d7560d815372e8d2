"""Reads a stack's log, and finds recipes by name, by hash or in a file, for commands."""

from __future__ import annotations

from infra.layout import Layout
from infra.terminal import notes
from tacit.errors import DecodeError, UsageError
from tacit.operations import services
from tacit.operations.services import recipes_of
from tacit.ports import Transport
from tacit.recipe.live import LiveLog
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.canonical import parse_json
from tacit.tlog.checkpoint import NoteKey

SHORTEST_PREFIX = 6


async def verified_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log as of now, with checkpoint, inclusion and signatures checked. Raises ``Refusal``."""
    return await services.verified_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def whole_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log with every leaf since its beginning. Raises ``Refusal`` or ``TransportError``."""
    return await services.whole_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def hash_of(transport: Transport, server: str, name: str) -> str:
    """Return the hash of the recipe ``name``, which is a name, a hash or the beginning of a hash. Of several recipes
    with one name, the newest counts, and a note says so. Raises ``UsageError`` unless one recipe matches."""
    recipes = await recipes_of(transport, server)
    named = [one["hash"] for one in recipes if one["name"] == name]
    if len(named) > 1:
        others = f"{len(named) - 1} older with this name"
        notes().print(f"{name}: using the newest recipe, {named[-1][:8]}; {others} can be named by hash")
    if named:
        return str(named[-1])
    meant = [one["hash"] for one in recipes if len(name) >= SHORTEST_PREFIX and one["hash"].startswith(name)]
    if len(meant) == 1:
        return str(meant[0])
    if meant:
        raise UsageError(f"{len(meant)} recipes begin with {name}; give more of the hash")
    raise UsageError(f"the log shows no recipe called {name}; see: tacit recipe list")


def read_recipe(data: bytes, name: str) -> Recipe:
    """Parse the recipe in a file's ``data``, canonical JSON or not; ``name`` is for errors. Raises ``UsageError``."""
    try:
        body = parse_json(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return Recipe.from_body(body)
    except DecodeError as error:
        text = str(error)
        raise UsageError(text if text.startswith(name) else f"{name}: {text}") from error
