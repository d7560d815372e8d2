"""The estimators by the names of their methods. A new one needs a line in ``tacit.extension_points``."""

from __future__ import annotations

from typing import Any

from tacit.extension_points import ESTIMATORS as PLACES
from tacit.extension_points import ByName
from tacit.methods.base.method import Method
from tacit.methods.estimators.base import Estimator

ESTIMATORS: ByName[type[Estimator[Any]]] = ByName(PLACES)


def estimator_of(method: Method) -> Estimator[Any]:
    """What estimates from the reports of this method. Raises ``KeyError`` and ``Unavailable`` (``ByName``)."""
    return ESTIMATORS[method.NAME](method)
