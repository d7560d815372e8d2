"""The planners by the names of their methods. A new one needs a line in ``tacit.extension_points``."""

from __future__ import annotations

from typing import Any

from tacit.extension_points import PLANNERS as PLACES
from tacit.extension_points import ByName
from tacit.methods.planners.base import MethodT, Planner

PLANNERS: ByName[type[Planner[Any]]] = ByName(PLACES)


def planner_of(method: type[MethodT]) -> Planner[MethodT]:
    """The planner of this method. Raises ``KeyError`` and ``Unavailable`` (``ByName``)."""
    return PLANNERS[method.NAME](method)
