"""The server sides of the models with one server that opens reports, and of shufflers, by the models' names in recipes.
Two aggregators need none: their part follows from the DAP task (``tacit.roles``)."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.models.interfaces.server import ServerSide
from tacit.models.local.form import Local
from tacit.models.local.server import LocalServer
from tacit.models.pan_private.form import PanPrivate
from tacit.models.pan_private_single.form import PanPrivateSingle
from tacit.models.pan_private_single.server import PanPrivateSingleServer
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.models.secure_aggregation.server import MixingServer
from tacit.models.shuffled.form import Shuffled
from tacit.models.shuffled.server import ShuffledServer, ShufflerServer

SERVERS: dict[str, ServerSide] = {
    PanPrivateSingle.name: PanPrivateSingleServer(),
    Local.name: LocalServer(),
    Shuffled.name: ShuffledServer(),
}
"""Model name -> what the analyzer does for it."""
SHUFFLERS: dict[str, ServerSide] = {
    Shuffled.name: ShufflerServer(),
    SecureAggregation.name: MixingServer(),
    PanPrivate.name: MixingServer(),
}


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
