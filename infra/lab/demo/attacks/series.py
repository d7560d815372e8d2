"""Series, and rounds of them, that nobody accepts, as the analyst who signs them could publish them."""

from __future__ import annotations

from dataclasses import dataclass

from infra.lab.demo.attacks.common import halved
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series

UNDERSTATED_SERIES = "a series that understates the epsilon of all its rounds"


@dataclass(frozen=True, slots=True)
class BadRound:
    """What is tried, the rule that refuses it, and whether the log holds its series."""

    what: str
    rule: str
    recipe: Recipe
    has_series: bool = True


def understated_series(series: Series) -> Series:
    """The same series with every total claim but the local one divided by two."""
    body = series.body()
    claim = {**body["claim"], "epsilon": halved(body["claim"]["epsilon"], series.probe.model)}
    return Series.from_body({**body, "name": "understated", "claim": claim})
