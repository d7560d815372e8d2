"""The metrics that recipes in the log have asked for, and how many devices have answered: suggestions for the form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.admin.api.calls import Admin
from services.admin.pages.views.published import listed_of
from tacit.errors import Abort
from tacit.recipe.encoder_specs import Attributes, Occurrences

MOST = 100
"""How many metrics are suggested, the most recently used ones."""


@dataclass(frozen=True)
class KnownMetric:
    """A metric. ``asked``: how many recipes in the log ask for it; ``answered``: the contributions to the largest of
    their releases, 0 if none is known; ``event``: whether it is an event that devices watch."""

    name: str
    asked: int = 0
    answered: int = 0
    event: bool = False

    @property
    def words(self) -> str:
        """How often the metric was used, in words."""
        recipes = "1 recipe in the log" if self.asked == 1 else f"{self.asked:,} recipes in the log"
        answered = f", answered by {self.answered:,}" if self.answered else ", no known release"
        return f"{'event, ' if self.event else ''}asked for by {recipes}{answered}"


async def known_metrics(admin: Admin) -> list[KnownMetric]:
    """The known metrics, the most recently used first. The list is empty while the log cannot be read; a metric can
    still be typed."""
    try:
        recipes = (await admin.followed_log.live()).recipes
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
            continue  # a census asks for attributes, which are not fields of the data
        known = found.pop(question.metric, KnownMetric(question.metric))
        answered = max(known.answered, counted.get(item.recipe.hash_text, 0))
        event = isinstance(question.encoder, Occurrences)
        found[question.metric] = replace(known, asked=known.asked + 1, answered=answered, event=event)
    return list(reversed(found.values()))[:MOST]
