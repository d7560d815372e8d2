"""The behaviour of devices and collectors in the models that this version knows, by the models' names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.models.forms.registry import unsupported
from tacit.models.model import Model
from tacit.models.pan_private import PanPrivateModel
from tacit.models.pan_private_single import PanPrivateSingleModel
from tacit.models.secure_aggregation import SecureAggregationModel

MODELS: dict[str, Model] = {
    SecureAggregationModel.name: SecureAggregationModel(),
    PanPrivateModel.name: PanPrivateModel(),
    PanPrivateSingleModel.name: PanPrivateSingleModel(),
}


def model_of(name: str) -> Model:
    """The model of this name. Raises refusal ``model-unsupported``."""
    found = MODELS.get(name)
    if found is None:
        raise Refusal("model-unsupported", unsupported(name))
    return found
