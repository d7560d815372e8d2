"""The server sides of the models with one server that opens reports, and of shufflers, by the models' names in recipes.
Two aggregators need none: their part follows from the DAP task (``tacit.roles``)."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.extension_points import SERVER_SIDES, SHUFFLER_SIDES, ByName
from tacit.models.interfaces.server import ServerSide

SERVERS: ByName[ServerSide] = ByName(SERVER_SIDES, lambda side: side())
"""Model name -> what the analyzer does for it."""
SHUFFLERS: ByName[ServerSide] = ByName(SHUFFLER_SIDES, lambda side: side())


def server_side(model: str) -> ServerSide:
    """The server side of ``model``. Raises refusal ``model-unsupported``."""
    found = SERVERS.get(model)
    if found is None:
        raise Refusal("model-unsupported", f"model {model} does not have a single server that takes reports")
    return found


def shuffler_side(model: str) -> ServerSide:
    """The shuffler's side of ``model``. Raises refusal ``model-unsupported``."""
    found = SHUFFLERS.get(model)
    if found is None:
        raise Refusal("model-unsupported", f"model {model} does not have a shuffler")
    return found
