"""Metrics that devices are known to hold: what recipes of the log asked for, and of which something was released."""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.admin.core.calls import Admin
from services.admin.pages.views.published import listed_of
from tacit.errors import Abort
from tacit.recipe.model import Attributes, Occurrences

MOST = 100
"""Metrics that are offered, those that were asked for last."""


@dataclass(frozen=True)
class KnownMetric:
    """``asked``: recipes of the log that ask for it; ``answered``: contributions to the largest of their releases, 0
    where none is known; ``event``: whether it is an event that devices watch."""

    name: str
    asked: int = 0
    answered: int = 0
    event: bool = False

    @property
    def words(self) -> str:
        """In words, how the metric is known."""
        recipes = "1 recipe of the log" if self.asked == 1 else f"{self.asked:,} recipes of the log"
        answered = f", answered by {self.answered:,}" if self.answered else ", no known release"
        return f"{'event, ' if self.event else ''}asked for by {recipes}{answered}"


async def known_metrics(admin: Admin) -> list[KnownMetric]:
    """Those that were asked for last come first. Empty while the log cannot be read: one may be typed all the same."""
    try:
        recipes = (await admin.whole.live()).recipes
    except Abort:
        return []
    listed, _ = await listed_of(admin)
    counted: dict[str, int] = {}
    for one in listed:
        counted[one.recipe] = max(one.report_count, counted.get(one.recipe, 0))
    found: dict[str, KnownMetric] = {}
    for item in recipes:
        question = item.recipe.question
        if isinstance(question.encoder, Attributes):
            continue  # a census asks for attributes, which are no field of the data
        known = found.pop(question.metric, KnownMetric(question.metric))
        answered = max(known.answered, counted.get(item.recipe.hash_text, 0))
        event = isinstance(question.encoder, Occurrences)
        found[question.metric] = replace(known, asked=known.asked + 1, answered=answered, event=event)
    return list(reversed(found.values()))[:MOST]
