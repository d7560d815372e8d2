"""The device sides of the models that this version knows, by the models' names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.models.forms import unsupported
from tacit.models.interfaces.device import DeviceSide
from tacit.models.interfaces.mixed import MixedDevice
from tacit.models.local.device import LocalDevice
from tacit.models.pan_private.device import PanPrivateDevice
from tacit.models.pan_private_single.device import PanPrivateSingleDevice
from tacit.models.secure_aggregation.device import Dap19Device, SecureAggregationDevice
from tacit.models.shuffled.device import ShuffledDevice

DEVICES: dict[str, DeviceSide] = {
    SecureAggregationDevice.name: SecureAggregationDevice(),
    PanPrivateDevice.name: PanPrivateDevice(),
    PanPrivateSingleDevice.name: PanPrivateSingleDevice(),
    LocalDevice.name: LocalDevice(),
    ShuffledDevice.name: ShuffledDevice(),
    MixedDevice.name: MixedDevice(),
    Dap19Device.name: Dap19Device(),
}
"""The sides by the names under which devices store what they send: ``MixedDevice`` and ``Dap19Device`` are of no model
of their own (see ``DeviceSide.sends_as``)."""


def device_side(model: str) -> DeviceSide:
    """The device side of ``model``. Raises refusal ``model-unsupported``."""
    found = DEVICES.get(model)
    if found is None:
        raise Refusal("model-unsupported", unsupported(model))
    return found
