"""The next round of a series that searches for frequent texts: what it asks follows from the log and from the releases
of the rounds before it, and from nothing that anybody writes.

So its draft cannot be edited, only deleted, and an approval covers the whole recipe. When it is published, it is
derived once more, from the log and the releases of that moment, and refused if it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.admin.base.problems import Problem, not_found, refuse
from services.admin.questions.log import Log
from services.admin.questions.releases import Releases
from services.admin.storage.records import Question
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.operations.prefix_rounds import Progress, next_round, progress, rounds_of
from tacit.operations.series_rounds import Asked
from tacit.ports import Clock
from tacit.recipe.model import Recipe
from tacit.recipe.series import Ended, Series
from tacit.time_format import format_utc
from tacit.tlog.canonical import canonical_bytes


@dataclass(frozen=True, slots=True)
class Search:
    """Where the search of ``series`` is, after its published ``recipes``; ``ended``: how it was ended, if it was."""

    series: Series
    recipes: Sequence[Recipe]
    found: Progress
    ended: Ended | None = None

    def next(self, now: float) -> Recipe:
        """The recipe of the next round. Raises ``Abort`` (409) with the reason, if there is none at ``now``."""
        if reason := self.waits_for(now):
            raise refuse(Problem.ROUND_WAITS, reason)
        recipe = next_round(self.series, self.found, now, self.ended)
        if recipe is None:
            raise refuse(Problem.ROUND_WAITS, "nothing is left to ask")
        return recipe

    def waits_for(self, now: float) -> str:
        """Why the next round cannot be drafted at ``now`` (POSIX seconds), as a clause; empty if it can be."""
        if self.found.ranked is not None:
            return "the search is over: every round is released, or no prefix stood out"
        if self.found.following is None:
            last = self.recipes[-1]
            ends = f"; its reports come until {format_utc(last.interval.end)}" if now < last.interval.end else ""
            return f"round {len(self.recipes)} is published and not released yet{ends}"
        try:
            next_round(self.series, self.found, now, self.ended)
        except UsageError as error:
            return str(error)
        return ""


async def search_at(live: LiveLog, releases: Releases | None, series_hash: str) -> Search:
    """The search of a series in the log ``live``, with the collector's ``releases``. Raises ``Abort``: 404 for an
    unknown series, and as ``Releases`` does; ``UsageError`` for a series that searches for nothing, and for releases
    that are not those of its rounds."""
    if all(one.series.hash_text != series_hash for one in live.series):
        raise not_found("series")
    series, recipes = rounds_of(live, series_hash)
    rounds: list[Asked] = [(one, await _documents(releases, one.hash_text)) for one in recipes]
    return Search(series, recipes, progress(series, rounds), live.ended(series.hash))


async def _documents(releases: Releases | None, recipe_hash: str) -> Sequence[dict[str, Any]]:
    if releases is None:
        return ()
    listed = await releases.listed(recipe_hash)
    return await releases.documents(listed) if listed else ()


class Rounds:
    """Derives the next rounds of series from the log as of now and from the collector's releases."""

    def __init__(self, log: Log, releases: Releases | None, clock: Clock) -> None:
        self._log = log
        self._releases = releases
        self._clock = clock

    async def next(self, series_hash: str) -> Recipe:
        """The recipe of the series' next round. Raises ``Abort``: 404 for an unknown series, 409 if there is no next
        round now, and if log or collector cannot be read; ``UsageError`` for a series that searches for nothing."""
        search = await search_at(await self._log.live(), self._releases, series_hash)
        return search.next(self._clock.now())

    async def require(self, question: Question, recipe: Recipe) -> None:
        """Check that ``recipe``, the text of ``question``, is the round that follows now. Raises as ``next``, and
        ``Abort`` (409) if another one follows."""
        following = await self.next(str(question.series_hash))
        if canonical_bytes(following.body()) != canonical_bytes(recipe.body()):
            raise refuse(Problem.ROUND_FIXED, "another round follows from the log and the releases; draft it anew")
