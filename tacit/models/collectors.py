"""The collector sides of the models that this version knows, by the models' names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.models.forms import unsupported
from tacit.models.interfaces.collector import CollectorSide
from tacit.models.local.collector import LocalCollector
from tacit.models.local.form import Local
from tacit.models.pan_private.form import PanPrivate
from tacit.models.pan_private_single.collector import PanPrivateSingleCollector
from tacit.models.pan_private_single.form import PanPrivateSingle
from tacit.models.secure_aggregation.collector import SecureAggregationCollector
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.models.shuffled.collector import ShuffledCollector
from tacit.models.shuffled.form import Shuffled

COLLECTORS: dict[str, CollectorSide] = {
    SecureAggregation.name: SecureAggregationCollector(),
    PanPrivate.name: SecureAggregationCollector(),
    PanPrivateSingle.name: PanPrivateSingleCollector(),
    Local.name: LocalCollector(),
    Shuffled.name: ShuffledCollector(),
}


def collector_side(model: str) -> CollectorSide:
    """The collector side of ``model``. Raises refusal ``model-unsupported``."""
    found = COLLECTORS.get(model)
    if found is None:
        raise Refusal("model-unsupported", unsupported(model))
    return found
