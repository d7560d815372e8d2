"""Local methods, described in a few words as tests need them."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from tacit.methods.base.draws import epsilon0_from
from tacit.methods.base.method import LocalMethod
from tacit.methods.base.statistics import STATISTICS, Shape
from tacit.methods.registry import method_named


def randomizer_from(
    name: str, epsilon0: Decimal | float | str, categories: int, max_weight: int | None = None
) -> LocalMethod:
    """The local method of this name; ``ValueError`` names the parameter that does not fit."""
    method = method_named(name)
    shape = Shape(STATISTICS[method.STATISTICS[0]], categories)
    members = {"epsilon0": epsilon0_from(epsilon0), "categories": categories, "max_weight": max_weight}
    stated = {key: value for key, value in members.items() if value is not None}
    wrong = method.stated_wrongly(stated)
    if wrong is not None:
        raise ValueError(wrong)
    return cast("LocalMethod", method.of(shape, stated))
