"""The device sides of the models that this version knows, by the models' names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.extension_points import DEVICE_SIDES, ByName
from tacit.models.forms import unsupported
from tacit.models.interfaces.device import DeviceSide

DEVICES: ByName[DeviceSide] = ByName(DEVICE_SIDES, lambda side: side())
"""The sides by the names under which devices store what they send (see ``DeviceSide.sends_as``)."""


def device_side(model: str) -> DeviceSide:
    """The device side of ``model``. Raises refusal ``model-unsupported``."""
    found = DEVICES.get(model)
    if found is None:
        raise Refusal("model-unsupported", unsupported(model))
    return found
