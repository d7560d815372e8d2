"""Collecting from a Leader (DAP-18, collection): create a job, poll it, open the shares, delete the job; and from the
one server of a model without a Leader: ask for the sum until it is released.

In leader-selected mode the Leader is told to delete the job once the result is stored, which frees the same request for
the next batch.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from services.collector.progress import Progress, Subject
from services.collector.records import Collection, CollectionState
from tacit import media_types
from tacit.adapters.network.origins import origin_of
from tacit.aggregator.work import creation
from tacit.codec import unb64url
from tacit.errors import Refusal
from tacit.messages import BatchMode
from tacit.models.interfaces.one_server_collector import OneServerSource
from tacit.models.secure_aggregation.collector import DapSource
from tacit.ports import HttpResponse
from tacit.problem import problem_type
from tacit.retry_after import retry_after
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM
from tacit.service.app import ServiceEnv
from tacit.service.http.live_tokens import ShownToken

WAIT_SECONDS = 10
"""Seconds that a poll asks the Leader to wait (RFC 7240): less than any timeout between the two."""
MOST_WAITING = 64
"""How many polls wait at one Leader at once; further ones are answered at once. Most of the connections to it stay free
for what does not wait."""
LOST = "leader-lost-job"
_JOB = re.compile(r"[A-Za-z0-9_-]{1,128}")


class LeaderExchange:
    """One exchange with the Leader for each call. ``token`` is presented to it."""

    def __init__(self, rows: Progress, deps: ServiceEnv, token: ShownToken) -> None:
        self._rows = rows
        self._deps = deps
        self._token = token
        self._waiting = Counter[str]()
        """By the origin of a Leader, how many polls wait there."""

    async def advance(self, known: Subject, source: DapSource, row: Collection) -> int:
        """Do what the row's state calls for; returns 1 if the state changed. Raises ``TransportError``."""
        if row.state is CollectionState.REQUESTED:
            return await self._ask(source, row)
        if row.state is CollectionState.COLLECTING:
            return await self._poll(known, source, row)
        url = f"{source.jobs_url}/{row.job}"
        answer = await self._deps.transport.request("DELETE", url, headers=self._token.headers())
        unknown = answer.status == 404 and problem_type(answer.body)  # the Leader's word; a proxy's page has no type
        if 200 <= answer.status < 300 or unknown:
            return await self._rows.move(row, CollectionState.RELEASED)
        asked = retry_after(answer.headers, self._deps.clock.now())
        why = f"the Leader answered with status {answer.status}"
        return await self._rows.later(row, "leader-answer", why, asked)

    async def _ask(self, source: DapSource, row: Collection) -> int:
        headers = {**self._token.headers(), "Content-Type": media_types.dap("collection-job-req")}
        method, url = creation(source.task.version, source.jobs_url, unb64url(row.id))
        answer = await self._deps.transport.request(method, url, headers=headers, body=row.request)
        if not 200 <= answer.status < 300:
            return await self._rows.said_no(row, answer, source.party)
        job = row.id if method == "PUT" else answer.headers.get("location", "").rpartition("/")[2]
        if not _JOB.fullmatch(job):
            return await self._rows.later(row, "leader-answer", "the Leader named no collection job")
        if row.rule == LOST:  # it may lose this one too: the next pause is longer, until it answers a poll
            due = self._deps.clock.now() + self._rows.pause(answer)
            kept = {"attempts": row.attempts, "rule": row.rule, "detail": row.detail}
            return await self._rows.move(row, CollectionState.COLLECTING, job=job, next_attempt=due, **kept)
        # a poll for a batch that fills waits at the Leader, so the first one follows at once
        waits = self._deps.background and source.task.batch_mode is BatchMode.LEADER_SELECTED
        due = self._deps.clock.now() + (0.0 if answer.body or waits else self._rows.pause(answer))
        return await self._rows.move(row, CollectionState.COLLECTING, job=job, next_attempt=due)

    async def _poll(self, known: Subject, source: DapSource, row: Collection) -> int:
        url = f"{source.jobs_url}/{row.job}"
        asked = self._deps.clock.now()
        answer = await self._asked(url)
        if answer.status == 404 and problem_type(answer.body) == "about:blank":
            lost = replace(row, state=CollectionState.REQUESTED, job="")
            return await self._rows.later(lost, LOST, "the Leader does not know the job that it took")
        if not 200 <= answer.status < 300:
            return await self._rows.said_no(row, answer, source.party)
        if not answer.body:
            now = self._deps.clock.now()
            waited = source.task.batch_mode is BatchMode.LEADER_SELECTED and now - asked >= WAIT_SECONDS / 2
            due = now + (0.0 if waited else self._rows.pause(answer))
            return await self._rows.wait(row, due)
        try:
            aggregate = source.opened(row.request, answer.body)
            selected = source.task.batch_mode is BatchMode.LEADER_SELECTED
            state = CollectionState.FINISHING if selected else CollectionState.RELEASED
            return await self._rows.keep(known, row, aggregate, state)
        except Refusal as refusal:
            return await self._rows.refuse(row, refusal.rule, refusal.detail)

    async def _asked(self, url: str) -> HttpResponse:
        """The answer to a poll, which waits at the Leader in the background, unless enough polls do."""
        leader, headers = origin_of(url), self._token.headers()
        if not self._deps.background or self._waiting[leader] >= MOST_WAITING:
            return await self._deps.transport.request("GET", url, headers=headers)
        self._waiting[leader] += 1
        try:
            waits = {**headers, "Prefer": f"wait={WAIT_SECONDS}"}
            return await self._deps.transport.request("GET", url, headers=waits)
        finally:
            self._waiting[leader] -= 1


class OneServerExchange:
    """One exchange with the server for each call. ``token`` is presented to it."""

    def __init__(self, rows: Progress, deps: ServiceEnv, token: ShownToken) -> None:
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
