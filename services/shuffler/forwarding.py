"""Once a recipe's interval and the grace after it are over, the messages of all bundles are permuted together and
forwarded, if there are at least B bundles; otherwise nothing is (P25).

The order is drawn once: the requests that carry it are stored in the transaction that deletes the bundles, before the
first is sent. A request is repeated with identical bytes until the analyzer has it.
"""

from __future__ import annotations

import asyncio

from services.shuffler.config import ShufflerConfig
from services.shuffler.records import Outgoing
from services.shuffler.store import ShufflerStore
from tacit import media_types
from tacit.aggregator.parties import PartyTable
from tacit.messages.chunk import MessageChunk
from tacit.ports import TransportError
from tacit.roles.analyzer import AnalyzerParty
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.shuffled import chunks, shuffled
from tacit.service.app import Deps
from tacit.service.live_tokens import ShownToken
from tacit.service.log import get_logger
from tacit.task.shuffled import Bundling

TOO_SMALL, RATE_BOUND, TOO_MANY = "batch-too-small", "rate-bound", "messages-too-many"
REFUSED = 422
"""With this the analyzer refuses messages for good: others came first, or the recipe is over."""
TURN_SECONDS = 5.0
"""After so long the next recipe has its turn, so that an analyzer that answers slowly holds up its own recipes only."""
NOTHING = Outgoing(0, MessageChunk(0, 0, b"").encode())
"""Tells the analyzer that no messages of the recipe will come."""


class Forwarding:
    """Permutes and forwards what is due."""

    def __init__(
        self,
        store: ShufflerStore,
        parties: PartyTable[AnalyzerParty],
        deps: Deps,
        config: ShufflerConfig,
        token: ShownToken,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._config = config
        self._token = token
        self._settled: set[bytes] = set()
        """Task ids of recipes of which nothing is left to send."""
        self._log = get_logger("shuffler")

    async def step(self) -> int:
        """Permute the messages of every recipe that is due, and send what is left; returns how many requests the
        analyzers took."""
        sent = 0
        for party in self._parties.active():
            task = party.task
            bundling, over = party.bundling, task.end_seconds + self._config.release_grace
            if bundling is None or task.task_id in self._settled or self._deps.clock.now() < over:
                continue
            if await self._fixed(party, bundling):
                sent += await self._send(party, bundling)
        return sent

    async def _fixed(self, party: AnalyzerParty, bundling: Bundling) -> bool:
        """Fix the order of the recipe's messages, unless that is done; False if a bundle came in meanwhile, or another
        process has done it."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            if await tx.is_closed(task_id):
                return True
            running = await tx.running(task_id)
            count = 0 if running is None else running.report_count
            why = self._refusal(party, bundling, count)
            records = [] if why else await tx.kept_records(task_id)
        outgoing = [NOTHING] if why else await asyncio.to_thread(self._permuted, records)
        async with self._store.transaction() as tx:
            if not await tx.is_open(party, self._deps.clock.now()) or await tx.is_closed(task_id):
                return False
            now = await tx.running(task_id)
            if count != (0 if now is None else now.report_count):
                return False
            if why:
                await tx.count_rejections(task_id, {why: count} if count else {})
                await tx.drop(task_id, NOTHING)
            else:
                await tx.fix(task_id, outgoing)
        await self._store.checkpoint()
        self._log.info("shuffled", recipe=party.task.task_id_text, rule=why, chunks=0 if why else len(outgoing))
        return True

    def _refusal(self, party: AnalyzerParty, bundling: Bundling, count: int) -> str:
        """The rule because of which nothing is forwarded of ``count`` bundles, or an empty text."""
        if count < party.task.min_batch_size:
            return TOO_SMALL
        if count > RATE_FACTOR * party.task.expected_contributions:
            return RATE_BOUND
        return TOO_MANY if count * bundling.messages > self._config.most_messages else ""

    def _permuted(self, records: list[bytes]) -> list[Outgoing]:
        parts = list(chunks(shuffled(records, self._deps.entropy), self._config.chunk_messages))
        return [Outgoing(at, MessageChunk(at, len(parts), part).encode()) for at, part in enumerate(parts)]

    async def _send(self, party: AnalyzerParty, bundling: Bundling) -> int:
        """Send chunk after chunk, until all are sent, one is not taken, or the turn is over."""
        task, sent, turn_ends = party.task, 0, self._deps.clock.now() + TURN_SECONDS
        url = bundling.task.url("chunks")
        headers = {**self._token.headers(), "content-type": media_types.MESSAGE_CHUNK}
        while not sent or self._deps.clock.now() < turn_ends:
            async with self._store.read() as tx:
                left = await tx.next_outgoing(task.task_id)
            if left is None:
                self._settled.add(task.task_id)
                return sent
            try:
                answer = await self._deps.transport.request("POST", url, headers=headers, body=left.body)
            except TransportError as error:
                self._log.info("not_forwarded", recipe=task.task_id_text, why=str(error))
                return sent
            if not 200 <= answer.status < 300:
                self._log.warning(
                    "not_forwarded", recipe=task.task_id_text, why=f"the analyzer answered {answer.status}"
                )
                if answer.status == REFUSED:
                    self._settled.add(task.task_id)
                return sent
            async with self._store.transaction() as tx:
                await tx.sent(task.task_id, left.index)
            sent += 1
        return sent
