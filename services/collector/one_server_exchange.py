"""Collecting from the one server of a model without a Leader: ask for the sum until it is released."""

from __future__ import annotations

from services.collector.progress import Progress, Subject
from services.collector.records import Collection, CollectionState
from tacit.errors import Refusal
from tacit.models.faces.one_server_collector import OneServerSource
from tacit.problem import problem_type
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM
from tacit.service.app import Deps
from tacit.service.http.live_tokens import ShownToken


class OneServerExchange:
    """One exchange with the server for each call. ``token`` is presented to it."""

    def __init__(self, rows: Progress, deps: Deps, token: ShownToken) -> None:
        self._rows = rows
        self._deps = deps
        self._token = token

    async def advance(self, known: Subject, source: OneServerSource, row: Collection) -> int:
        """Ask the server; returns 1 if the row's state changed. The collection is under way once that server knows the
        recipe. Raises ``TransportError``."""
        answer = await self._deps.transport.request("GET", source.aggregate_url, headers=self._token.headers())
        is_there = 200 <= answer.status < 300
        if not is_there and problem_type(answer.body) != INTERVAL_OPEN_PROBLEM:
            return await self._rows.said_no(row, answer, source.party)
        if not is_there or row.state is CollectionState.REQUESTED:
            due = 0.0 if is_there else self._deps.clock.now() + self._rows.pause(answer)
            return await self._rows.move(row, CollectionState.COLLECTING, next_attempt=due)
        try:
            return await self._rows.keep(known, row, source.opened(answer.body), CollectionState.RELEASED)
        except Refusal as refusal:
            return await self._rows.refuse(row, refusal.rule, refusal.detail)
