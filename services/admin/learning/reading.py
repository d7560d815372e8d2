"""Where a training run is, from the log and the collector's releases; its newest model too, where the plan is here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from services.admin.base.fair_threads import FairThreads
from services.admin.base.problems import away, not_found
from services.admin.questions.learning import plan_of, require_numbers
from services.admin.questions.releases import Release, Releases
from services.admin.storage.records import Question
from services.admin.storage.store import AdminStore
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog, LiveSeries
from tacit.operations.learning.documents import Row
from tacit.operations.series_rounds import index_of, published_rounds
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe

KEPT: Final = 8
"""How many models are remembered."""


@dataclass(frozen=True, slots=True)
class RunShown:
    """A run: its ``series``, a row for each published round, and the question whose plan it follows, if it is one of
    this service."""

    series: LiveSeries
    rows: tuple[Row, ...]
    question: Question | None
    released: tuple[tuple[Release, ...], ...] = field(repr=False)
    """The releases of each round."""


class RunReader:
    """Reads training runs with the collector's ``releases``; models are computed in ``turns``."""

    def __init__(self, store: AdminStore, releases: Releases | None, turns: FairThreads) -> None:
        self._store = store
        self._releases = releases
        self._turns = turns
        self._models: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    async def read(self, live: LiveLog, series_hash: str) -> RunShown:
        """Where the run with this series is. Raises ``Abort``: 404 if the log has no such training run, 503 if this
        service published it and the log does not show it yet, and as ``Releases``."""
        async with self._store.read() as tx:
            question = await tx.question_of_series(series_hash)
        series = next((one for one in live.series if one.series.hash_text == series_hash), None)
        if series is None and question is not None:
            raise away("log", "it does not show this series yet")
        if series is None or not isinstance(series.series.probe.question.encoder, Update):
            raise not_found("training run")
        rounds, rows, released = published_rounds(live, series.series), list[Row](), list[tuple[Release, ...]]()
        several: dict[str, list[Release]] = {one.recipe.hash_text: [] for one in rounds}
        for release in () if self._releases is None else await self._releases.listed():
            if release.recipe in several:
                several[release.recipe].append(release)
        for one in rounds:
            found = tuple(several[one.recipe.hash_text])
            count = sum(each.report_count for each in found) if found else None
            waits = count is None and one is rounds[-1]
            rows.append(Row(index_of(one.recipe), one.recipe, one.index, count, waits=waits))
            released.append(found)
        return RunShown(series, tuple(rows), question, tuple(released))

    async def model(self, who: str, shown: RunShown) -> bytes | None:
        """The file of the newest model, for the person ``who``; None where the plan is not here. Raises ``UsageError``
        where log and releases are not of the plan, and ``Abort``: 501 without NumPy, 503 if too many wait."""
        if shown.question is None:
            return None
        require_numbers()
        plan = plan_of(shown.question)
        known = (shown.question.text, *(row.recipe.hash for row in shown.rows), *_digests(shown.released))
        if (found := self._models.pop(known, None)) is None:
            found = await self._newest(who, plan, shown)
        self._models[known] = found
        while len(self._models) > KEPT:
            self._models.popitem(last=False)
        return found

    async def _newest(self, who: str, plan: Plan, shown: RunShown) -> bytes:
        """The newest model, found round by round, so that other people's work has its turn in between."""
        from tacit.operations.learning.run import follow

        released = {row.recipe.hash: found for row, found in zip(shown.rows, shown.released, strict=True)}

        async def release_of(recipe: Recipe) -> Sequence[Mapping[str, Any]]:
            releases = released[recipe.hash]
            return await self._releases.documents(releases) if self._releases is not None and releases else ()

        recipes = [row.recipe for row in shown.rows]
        run = await follow(plan, shown.series.series, recipes, release_of, partial(self._turns.do, who))
        return run.model


def _digests(released: Sequence[Sequence[Release]]) -> tuple[bytes, ...]:
    return tuple(one.digest for several in released for one in several)
