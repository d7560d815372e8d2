"""The methods by their names in a recipe. A new method needs one line in ``tacit.extension_points``."""

from __future__ import annotations

from tacit.extension_points import METHODS as PLACES
from tacit.extension_points import ByName
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import Shape, Statistic

METHODS: ByName[type[Method]] = ByName(PLACES)


def method_named(name: str) -> type[Method]:
    """Return the method that a recipe names. ``ValueError`` for an unknown name."""
    method = METHODS.get(name)
    if method is None:
        raise ValueError(f"randomizer {name!r} is not known, expected one of {', '.join(METHODS)}")
    return method


def methods_of(statistic: Statistic) -> tuple[type[Method], ...]:
    """The methods for questions with this statistic, the default first."""
    return tuple(one for one in METHODS.values() if statistic.name in one.STATISTICS)


def methods_for(shape: Shape) -> tuple[type[Method], ...]:
    """The methods that can answer exactly this question, the default first."""
    return tuple(one for one in METHODS.values() if one.fits(shape))
