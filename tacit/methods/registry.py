"""Local randomizers by the name that a recipe uses; ``tacit.methods.flips`` is made from a statistic."""

from __future__ import annotations

from decimal import Decimal

from tacit.methods.draws import epsilon0_from
from tacit.methods.krr import Krr
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.methods.types import LocalRandomizer

NAMES = ("krr", "rappor", "rr")


def randomizer_from(
    name: str, epsilon0: Decimal | float | str, categories: int, max_weight: int | None = None
) -> LocalRandomizer:
    """The randomizer that a recipe describes; ``ValueError`` names the parameter that does not fit.

    ``categories`` is 2 for ``rr`` (false, true); ``max_weight`` belongs to ``rappor`` and only to it.
    """
    if name not in NAMES:
        raise ValueError(f"randomizer {name!r} is not known, expected one of {', '.join(NAMES)}")
    if (max_weight is not None) != (name == "rappor"):
        raise ValueError("max_weight must be given for rappor and only for rappor")
    exact = epsilon0_from(epsilon0)
    if name == "krr":
        return Krr(exact, categories)
    if name == "rr":
        if categories != 2:
            raise ValueError("categories must be 2 for rr")
        return Rr(exact)
    return Rappor(exact, categories, max_weight or 0)
