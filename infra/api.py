"""How commands name a stack's log and its recipes, and recipes in files."""

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
    """The stack's log as of now: checkpoint, inclusion and signatures checked. Raises ``Refusal``."""
    return await services.verified_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def whole_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Every leaf of the stack's log since its beginning. Raises ``Refusal`` or ``TransportError``."""
    return await services.whole_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def hash_of(transport: Transport, server: str, name: str) -> str:
    """The hash of the recipe that ``name`` means: a hash, the beginning of one, or the name of the newest recipe that
    is called so; a person is told which where there are several. Raises ``UsageError``."""
    recipes = await recipes_of(transport, server)
    named = [one["hash"] for one in recipes if one["name"] == name]
    if len(named) > 1:
        others = f"{len(named) - 1} older with this name"
        notes().print(f"{name}: the newest recipe, {named[-1][:8]}; there are {others}, to be named by their hashes")
    if named:
        return str(named[-1])
    meant = [one["hash"] for one in recipes if len(name) >= SHORTEST_PREFIX and one["hash"].startswith(name)]
    if len(meant) == 1:
        return str(meant[0])
    if meant:
        raise UsageError(f"{len(meant)} recipes begin with {name}; give more of the hash")
    raise UsageError(f"the log shows no recipe called {name}; see: tacit recipe list")


def read_recipe(data: bytes, name: str) -> Recipe:
    """The recipe in a file, canonical or not. Raises ``UsageError``."""
    try:
        body = parse_json(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return Recipe.from_body(body)
    except DecodeError as error:
        text = str(error)
        raise UsageError(text if text.startswith(name) else f"{name}: {text}") from error
