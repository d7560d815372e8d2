"""Once a recipe's interval and the grace after it are over, the messages of all bundles are permuted together and
forwarded, if there are at least B bundles; otherwise nothing is (P25). What is forwarded, and to whom, depends on the
recipe (``tacit.task.onward``): single messages to the analyzer, or whole reports to the leader.

The order is drawn once: the requests that carry it are stored in the transaction that deletes the bundles, before the
first is sent. A request is repeated with identical bytes, after pauses that grow, until the receiver has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from services.shuffler.config import ShufflerConfig
from services.shuffler.records import Outgoing
from services.shuffler.store import ShufflerStore
from tacit.aggregator.parties import PartyTable
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.errors import RolledBack
from tacit.ports import TransportError
from tacit.retry_after import retry_after
from tacit.roles.analyzer import AnalyzerParty
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.shuffled import shuffle
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.task.one_server import OneServerTask
from tacit.task.onward import Onward, Receipt

TOO_SMALL, RATE_BOUND, TOO_MANY = "batch-too-small", "rate-bound", "messages-too-many"
REFUSED = "refused-by-receiver"
"""Cause of what was forwarded and not taken."""
TURN_SECONDS = 5.0
"""After so long the next recipe has its turn, so that a server that answers slowly holds up its own recipes only."""


class Forwarding:
    """Fixes a random order of each recipe's messages, once, when others vouch that its interval and ``release_grace``
    are over, and sends them in this order until the receiver has all."""

    def __init__(
        self,
        store: ShufflerStore,
        parties: PartyTable[AnalyzerParty],
        deps: ServiceEnv,
        config: ShufflerConfig,
        tokens: Mapping[str, ShownToken],
    ) -> None:
        """``tokens``: what this shuffler authenticates with to analyzers and to leaders, by the receiver's role."""
        self._store = store
        self._parties = parties
        self._deps = deps
        self._config = config
        self._tokens = tokens
        self._settled: set[bytes] = set()
        """Task ids of recipes of which nothing is left to send."""
        self._why: dict[bytes, str] = {}
        """Why the last request was not taken, by task id; none where it was."""
        self._again: dict[bytes, tuple[int, float]] = {}
        """How often in a row nothing was taken, and when the next request is due, by task id; none where it was."""
        self._pauses = Backoff(2.0 * config.idle_seconds, LONGEST_PAUSE)
        self._log = get_logger("shuffler")

    async def waiting(self, task_id: bytes) -> dict[str, object]:
        """For the operator: how many requests of a recipe are left to send, and why the last one that this process sent
        was not taken."""
        async with self._store.read() as tx:
            return {"requests_left": await tx.left(task_id), "not_forwarded": self._why.get(task_id)}

    async def step(self) -> int:
        """Permute the messages of every recipe that is due, and send what is left; returns how many requests the
        receivers took. Raises ``RolledBack`` once a receiver has shown that the database is from the past."""
        if self._store.doubtful:
            raise RolledBack(self._store.doubtful)
        sent = 0
        for party in self._parties.active():
            task = party.task
            onward, over = party.onward, task.end_seconds + self._config.release_grace
            _, due = self._again.get(task.task_id, (0, over))
            if onward is None or task.task_id in self._settled or self._deps.clock.now() < due:
                continue
            if not self._deps.vouched.is_past(over):  # the order is fixed once, and later messages are lost
                continue
            if await self._fix_order(party, onward):
                sent += await self._send(party, onward)
        return sent

    async def _fix_order(self, party: AnalyzerParty, onward: Onward) -> bool:
        """Fix the order of the recipe's messages, unless that is done; False if a bundle came in meanwhile, or another
        process has done it."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            if await tx.is_closed(task_id):
                return True
            running = await tx.running(task_id)
            count = 0 if running is None else running.report_count
            why = self._refusal(party, onward, count)
            bundles = bytearray() if why else await tx.kept_together(task_id)
        bodies = iter(onward.nothing) if why else await asyncio.to_thread(self._permute, onward, bundles)
        outgoing = (Outgoing(at, body) for at, body in enumerate(bodies))
        async with self._store.transaction() as tx:
            if not await tx.is_open(party, self._deps.clock.now()) or await tx.is_closed(task_id):
                return False
            now = await tx.running(task_id)
            if count != (0 if now is None else now.report_count):
                return False
            if why:
                await tx.count_rejections(task_id, {why: count} if count else {})
                requests = await tx.drop(task_id, outgoing)
            else:
                requests = await tx.fix(task_id, outgoing)
        await self._store.checkpoint()
        self._log.info("shuffled", recipe=party.task.task_id_text, rule=why, chunks=0 if why else requests)
        return True

    def _refusal(self, party: AnalyzerParty, onward: Onward, count: int) -> str:
        """The rule because of which nothing is forwarded of ``count`` bundles, or an empty text."""
        if count < party.task.min_batch_size:
            return TOO_SMALL
        if count > RATE_FACTOR * party.task.expected_contributions:
            return RATE_BOUND
        return TOO_MANY if count * onward.pieces > onward.pieces_like(self._config.most_messages) else ""

    def _permute(self, onward: Onward, bundles: bytearray) -> Iterator[bytes]:
        """The requests that carry the pieces of all ``bundles`` in one random order, which is drawn here."""
        most = onward.pieces_like(self._config.chunk_messages)
        parts = shuffle(bundles, onward.size, most, self._deps.entropy)
        return onward.requests(parts, -(-len(bundles) // (onward.size * most)))

    async def _send(self, party: AnalyzerParty, onward: Onward) -> int:
        """Send request after request, until all are sent, one is not taken, or the turn is over."""
        task, sent, turn_ends = party.task, 0, self._deps.clock.now() + TURN_SECONDS
        headers = {**self._tokens[onward.receiver].headers(), "content-type": onward.media_type}
        while not sent or self._deps.clock.now() < turn_ends:
            async with self._store.read() as tx:
                left = await tx.next_outgoing(task.task_id)
            if left is None:
                self._settled.add(task.task_id)
                return sent
            receipt, asked = await self._exchange(task, onward, headers, left.body)
            if receipt.is_replayed:
                await self._doubt(task, onward, left.index)
            if receipt.is_last:
                self._settled.add(task.task_id)
            refused = receipt.refused
            if receipt.is_refused and left.body:  # the empty last one says no more than that it is the last
                refused = len(left.body) // onward.size
            elif not receipt.is_taken:
                self._put_off(task.task_id, asked)
                return sent
            self._again.pop(task.task_id, None)
            # deleted only now that the receiver has it: one that a crash leaves is sent again, and counts once there
            async with self._store.transaction() as tx:
                if await tx.sent(task.task_id, left.index) and refused:
                    await tx.count_rejections(task.task_id, {REFUSED: refused})
            sent += 1
        return sent

    async def _doubt(self, task: OneServerTask, onward: Onward, index: int) -> None:
        """Stop, unless another process has sent the request meanwhile: a later state of this database has sent the
        recipe before, in another order, and the mark was restored with it (P32). Raises ``RolledBack``."""
        async with self._store.transaction() as tx:
            if not await tx.is_left(task.task_id, index):
                return
            await tx.doubt()
        self._store.doubtful = (
            f"the {onward.receiver} has messages of recipe {task.task_id_text} that this database has not sent, so the "
            "database is from the past; restart the service to see what to do"
        )
        raise RolledBack(self._store.doubtful)

    def _put_off(self, task_id: bytes, asked: float) -> None:
        """Send nothing of the recipe for a pause, which grows with each failure in a row, whatever its cause, and is at
        least the ``asked`` seconds."""
        failures, _ = self._again.get(task_id, (0, 0.0))
        due = self._deps.clock.now() + self._pauses.pause(failures, self._deps.entropy, asked)
        self._again[task_id] = failures + 1, due

    async def _exchange(
        self, task: OneServerTask, onward: Onward, headers: Mapping[str, str], body: bytes
    ) -> tuple[Receipt, float]:
        """Send one request; what is not taken now is sent again, after the seconds for which the receiver asks, and log
        and status say why."""
        try:
            answer = await self._deps.transport.request("POST", onward.url, headers=headers, body=body)
        except TransportError as error:
            self._log.info("not_forwarded", recipe=task.task_id_text, why=str(error))
            self._why[task.task_id] = f"the {onward.receiver} was not reached"
            return Receipt(False), error.retry_after
        receipt = onward.receipt(answer.status, answer.body)
        self._why.pop(task.task_id, None)
        if not receipt.is_taken:
            why = self._why[task.task_id] = f"the {onward.receiver} answered {answer.status}"
            self._log.warning("not_forwarded", recipe=task.task_id_text, why=why)
        return receipt, retry_after(answer.headers, self._deps.clock.now())
