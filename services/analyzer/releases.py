"""Releases: once a recipe's interval and the grace after it are over, its sum is released, once, if it holds at least B
reports.

Before the release a sum is only in the database. After it, the collector can fetch the released sum until the recipe is
forgotten, and the running sum is gone.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from services.analyzer.chunks import count_chunks
from services.analyzer.config import AnalyzerConfig
from services.analyzer.store import AnalyzerStore, AnalyzerTx
from tacit.aggregator.one_server.records import Aggregate
from tacit.aggregator.parties import PartyTable
from tacit.errors import Abort, Fatal, Refusal
from tacit.roles.analyzer import AnalyzerParty
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM, RATE_FACTOR
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger

TOO_SMALL = "batch-too-small"
RATE_BOUND = "rate-bound"
VOID = "recipe-void"
UNSEARCHABLE = "search-empty"


class Releases:
    """Releases each recipe's sum, at most once, when others vouch that its interval and ``release_grace`` are over."""

    def __init__(
        self,
        store: AnalyzerStore,
        parties: PartyTable[AnalyzerParty],
        deps: ServiceEnv,
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
        return self._deps.vouched.is_past(party.task.end_seconds + self._grace)

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

    async def _count(self, tx: AnalyzerTx, party: AnalyzerParty) -> tuple[int, Aggregate | None]:
        """How many reports count, by their tokens, and their sum. Bundles were counted by the shuffler; their sum is
        complete with its last chunk."""
        task_id = party.task.task_id
        if party.bundling is None:
            return await tx.accepted_count(task_id), await tx.running(task_id)
        aggregate = await count_chunks(tx, party, party.bundling)
        if aggregate is None:
            raise self._still_open(party)
        return aggregate.report_count, aggregate

    async def _releasable(self, tx: AnalyzerTx, party: AnalyzerParty) -> Aggregate:
        task = party.task
        count, running = await self._count(tx, party)
        if running is None or count < task.min_batch_size:
            least = task.min_batch_size
            raise Refusal(TOO_SMALL, f"fewer than the recipe's minimum of {least} contributions were counted")
        if running.report_count != count:
            raise Fatal("a recipe's sum and its count are of different reports")
        most = RATE_FACTOR * task.expected_contributions
        if count > most:
            raise Refusal(RATE_BOUND, f"{count} contributions were counted; at most {most} are released")
        if party.bundling is not None:
            await tx.add(task.task_id, running)
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
            outcome = await asyncio.to_thread(party.reading.search, records)
        except ValueError as error:
            raise Refusal(UNSEARCHABLE, str(error)) from error
        return size, json.dumps(outcome).encode()

    def _still_open(self, party: AnalyzerParty) -> Abort:
        left = party.task.end_seconds + self._grace - self._deps.clock.now()
        return Abort(
            INTERVAL_OPEN_PROBLEM,
            "the recipe's interval is not over",
            status=503,
            title="The sum is not complete.",
            headers={"Retry-After": str(max(1, int(left) + 1))},
        )
