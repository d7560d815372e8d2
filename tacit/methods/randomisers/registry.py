"""The randomisers by the names of their methods. A new one needs a line in ``tacit.extension_points``."""

from __future__ import annotations

from typing import Any

from tacit.extension_points import RANDOMISERS as PLACES
from tacit.extension_points import ByName
from tacit.methods.base.method import Method
from tacit.methods.randomisers.base import Randomiser

RANDOMISERS: ByName[type[Randomiser[Any]]] = ByName(PLACES)


def device_randomiser_of(method: Method) -> Randomiser[Any]:
    """What draws by this method. Raises ``KeyError`` and ``Unavailable`` (``ByName``)."""
    return RANDOMISERS[method.NAME](method)
