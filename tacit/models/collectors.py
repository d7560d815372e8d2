"""The collector sides of the models that this version knows, by the models' names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.extension_points import COLLECTOR_SIDES, ByName
from tacit.models.forms import unsupported
from tacit.models.interfaces.collector import CollectorSide

COLLECTORS: ByName[CollectorSide] = ByName(COLLECTOR_SIDES, lambda side: side())


def collector_side(model: str) -> CollectorSide:
    """The collector side of ``model``. Raises refusal ``model-unsupported``."""
    found = COLLECTORS.get(model)
    if found is None:
        raise Refusal("model-unsupported", unsupported(model))
    return found
