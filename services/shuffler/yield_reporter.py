"""Tells analyzers and leaders how far the recipes are filled whose bundles only the shuffler can count.

It tells the looks of ``tacit.aggregator.yield_looks``: at times that follow from the recipe, in tenths of B, with noise
that is drawn here, once. A request has the same form for every count, and is repeated until the receiver has it; so
neither its time nor its size tells anything that the look does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from services.shuffler.store import ShufflerStore
from tacit import media_types
from tacit.aggregator.batch_yield import LOOKS, Look, look_document
from tacit.aggregator.parties import PartyTable
from tacit.aggregator.yield_looks import YieldLooks, looks_due
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.errors import Abort
from tacit.ports import TransportError
from tacit.retry_after import retry_after
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.task.onward import Onward

PAUSES = Backoff(5.0, LONGEST_PAUSE)


class YieldReporter:
    """Tells each look once it is due."""

    def __init__(
        self,
        store: ShufflerStore,
        parties: PartyTable[AnalyzerParty],
        deps: ServiceEnv,
        tokens: Mapping[str, ShownToken],
    ) -> None:
        """``tokens``: what this shuffler authenticates with to analyzers and to leaders, by the receiver's role."""
        self._yield_looks = YieldLooks(store, deps.clock, deps.entropy)
        self._parties = parties
        self._deps = deps
        self._tokens = tokens
        self._told: dict[bytes, int] = {}
        """The number of the newest look that the receiver has, by task id."""
        self._again: dict[bytes, tuple[int, float]] = {}
        """Failures in a row, and when the receiver is told again, by task id."""
        self._log = get_logger("shuffler")

    async def step(self) -> int:
        """Tell what is due; returns how many looks the receivers took."""
        sent, now = 0, self._deps.clock.now()
        for party in self._parties.active():
            task, before = party.task, self._told.get(party.task.task_id, 0)
            onward = party.onward
            if onward is None or before >= looks_due(task.start_seconds, task.end_seconds, now):
                continue
            if now < self._again.get(task.task_id, (0, 0.0))[1]:
                continue
            try:
                looks = (await self._yield_looks.of(party)).looks
            except Abort:  # the recipe has ended, or its B is above what looks are given for
                self._told[task.task_id] = LOOKS
                continue
            for look in looks:
                if look.number > before and not await self._tell(party, onward, look):
                    break
                sent += look.number > before
        return sent

    async def _tell(self, party: AnalyzerParty, onward: Onward, look: Look) -> bool:
        """Tell one look; returns whether the receiver has it."""
        headers = {**self._tokens[onward.receiver].headers(), "content-type": media_types.JSON}
        body = json.dumps(look_document(look)).encode()
        try:
            answer = await self._deps.transport.request("POST", onward.looks, headers=headers, body=body)
        except TransportError as error:
            self._log.info("look_not_told", recipe=party.task.task_id_text, why=str(error))
            self._put_off(party.task.task_id, error.retry_after)
            return False
        if not 200 <= answer.status < 300:
            self._log.info("look_not_told", recipe=party.task.task_id_text, why=f"status {answer.status}")
            self._put_off(party.task.task_id, retry_after(answer.headers, self._deps.clock.now()))
            return False
        self._told[party.task.task_id] = look.number
        self._again.pop(party.task.task_id, None)
        return True

    def _put_off(self, task_id: bytes, asked: float) -> None:
        failures, _ = self._again.get(task_id, (0, 0.0))
        self._again[task_id] = failures + 1, self._deps.clock.now() + PAUSES.pause(failures, self._deps.entropy, asked)
