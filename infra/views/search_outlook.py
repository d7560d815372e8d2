"""Describes in a sentence what a search for frequent items will yield."""

from __future__ import annotations

from tacit.operations.search_outlook import RankedOutlook
from tacit.recipe.model import Recipe


def search_lines(recipe: Recipe, found: RankedOutlook) -> list[str]:
    """From how many devices on an answer is listed, and how much a report tells of it."""
    asked = recipe.batch.expected_contributions / float(recipe.rate)
    bits = "1 bit" if found.report_bits == 1 else f"{found.report_bits} bits"
    return [
        f"an answer is listed from about {found.listed_from:,.0f} devices on, {found.listed_from / asked:.1%} of those "
        f"asked (standard error about {found.stderr:,.0f}); a report has {bits} about a text of "
        f"{found.domain_bits}"
    ]
