"""Finds a recipe in the log by its name, its hash or the beginning of its hash."""

from __future__ import annotations

from infra.views.terminal import notes
from tacit.errors import UsageError
from tacit.operations.calls import recipes_of
from tacit.ports import Transport

SHORTEST_PREFIX = 6


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
