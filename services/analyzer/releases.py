"""Releases: once a recipe's interval and the grace after it are over, its sum is released, once, if it holds at least B
reports.

Before the release a sum is only in the database. After it, the collector can fetch the released sum until the recipe is
forgotten, and the running sum is gone.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from services.analyzer.config import AnalyzerConfig
from services.analyzer.records import Aggregate
from services.analyzer.store import AnalyzerStore, AnalyzerTx
from tacit.aggregator.parties import PartyTable
from tacit.aggregator.records import recipe_status
from tacit.errors import Abort, Fatal, Refusal
from tacit.roles.analyzer import AnalyzerParty
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM, RATE_FACTOR
from tacit.service.app import Deps
from tacit.service.log import get_logger

TOO_SMALL = "batch-too-small"
RATE_BOUND = "rate-bound"
VOID = "recipe-void"
UNSEARCHABLE = "search-empty"


class Releases:
    """Releases the sums that are due."""

    def __init__(
        self,
        store: AnalyzerStore,
        parties: PartyTable[AnalyzerParty],
        deps: Deps,
        config: AnalyzerConfig,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._grace = config.release_grace
        self._settled: set[bytes] = set()
        """Task ids of recipes for which this process has nothing more to release: their reports are no longer taken."""
        self._log = get_logger("analyzer")

    async def step(self) -> int:
        """Release every sum that is due; returns how many were released."""
        due = [party for party in self._parties.active() if party.task.task_id not in self._settled]
        released = 0
        for party in due:
            if self._is_over(party):
                try:
                    await self.released(party)
                    released += 1
                except Refusal as refusal:
                    self._log.info("not_released", recipe=party.task.task_id_text, rule=refusal.rule)
                except Abort:
                    continue
                self._settled.add(party.task.task_id)
        return released

    def _is_over(self, party: AnalyzerParty) -> bool:
        return self._deps.clock.now() >= party.task.end_seconds + self._grace

    async def released(self, party: AnalyzerParty) -> Aggregate:
        """The sum of a recipe; it is released now if that is due and not yet done. Raises ``Refusal``
        (``batch-too-small``, ``rate-bound`` or ``recipe-void``, all final), and ``Abort``: 503 while the interval and
        grace are not over, 404 if the recipe has ended."""
        task = party.task
        async with self._store.read() as tx:
            known = await tx.released(task.task_id)
        if known is not None:
            return known
        if not self._is_over(party):
            raise self._still_open(party)
        size, search = await self._search(party)
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            known = await tx.released(task.task_id)
            if known is not None:
                return known
            if await tx.is_closed(task.task_id):
                raise Refusal(VOID, "the recipe was closed for good without a release")
            aggregate = replace(await self._releasable(tx, party), search=search)
            if size != party.reading.record_size * aggregate.report_count:
                raise self._still_open(party)  # a report came in between: search again
            await tx.keep_released(task.task_id, aggregate)
        await self._store.checkpoint()
        self._deps.saw("analyzer", recipe=task.task_id_text, report_count=aggregate.report_count)
        self._log.info("released", recipe=task.task_id_text, report_count=aggregate.report_count)
        return aggregate

    async def _releasable(self, tx: AnalyzerTx, party: AnalyzerParty) -> Aggregate:
        task = party.task
        count = await tx.accepted_count(task.task_id)
        running = await tx.running(task.task_id)
        if running is None or count < task.min_batch_size:
            least = task.min_batch_size
            raise Refusal(TOO_SMALL, f"fewer than the recipe's minimum of {least} contributions were counted")
        if running.report_count != count:
            raise Fatal("a recipe's sum and its count are of different reports")
        most = RATE_FACTOR * task.expected_contributions
        if count > most:
            raise Refusal(RATE_BOUND, f"{count} contributions were counted; at most {most} are released")
        return running

    async def _search(self, party: AnalyzerParty) -> tuple[int, bytes]:
        """What is found in the kept reports, as JSON, and their bytes, in a recipe whose reports are searched; found
        before the release's transaction, which would keep uploads of other recipes waiting. Raises ``Refusal`` where
        there is nothing to find."""
        if not party.reading.record_size:
            return 0, b""
        async with self._store.read() as tx:
            records = await tx.kept_records(party.task.task_id)
        size = sum(map(len, records))
        if size < party.task.min_batch_size * party.reading.record_size:
            return size, b""  # it will be refused for that
        try:
            found = await asyncio.to_thread(party.reading.search, records)
        except ValueError as error:
            raise Refusal(UNSEARCHABLE, str(error)) from error
        return size, json.dumps(found).encode()

    def _still_open(self, party: AnalyzerParty) -> Abort:
        left = party.task.end_seconds + self._grace - self._deps.clock.now()
        return Abort(
            INTERVAL_OPEN_PROBLEM,
            "the recipe's interval is not over",
            status=503,
            title="The sum is not complete.",
            headers={"Retry-After": str(max(1, int(left) + 1))},
        )

    async def status(self, party: AnalyzerParty) -> dict[str, object]:
        """Counts of one recipe, with nothing about any single report. No report is ever ``pending``."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            rejections, counted = await tx.rejections(task_id), await tx.counted(task_id)
            rejected = sum(rejections.values())
            return {
                "task_id": party.task.task_id_text,
                "uploaded": counted + rejected,
                "pending": 0,
                "aggregated": counted,
                "rejected": rejected,
                "rejected_by_cause": rejections,
                "distinct_nullifiers": await tx.accepted_count(task_id),
                "released": await tx.release_count(task_id),
            }

    async def recipes(self) -> list[dict[str, str]]:
        """Every recipe that names this analyzer, with its state and the rule that refused it, if any."""
        async with self._store.read() as tx:
            return recipe_status(await tx.tasks())
