"""The expected accuracy of a search for frequent items of a large domain."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.model import Recipe
from tacit.succinct.engines import engine_of


@dataclass(frozen=True)
class RankedOutlook:
    """The outlook for frequent items of a large domain, at the expected contributions: ``stderr`` of a rare item's
    estimate, ``listed_from``, the estimate from which on an item is listed, both in devices; ``report_bits`` of an
    answer and ``domain_bits`` of an item."""

    stderr: float
    listed_from: float
    report_bits: int
    domain_bits: int


def search_outlook(recipe: Recipe) -> RankedOutlook | None:
    """The outlook of ``recipe``; None if its reports are not searched."""
    engine = engine_of(randomizer_of(recipe))
    if engine is None:
        return None
    least, stderr = engine.expected(recipe.batch.expected_contributions, design_of(recipe))
    return RankedOutlook(stderr, least, engine.report_bits, engine.domain_bits)
