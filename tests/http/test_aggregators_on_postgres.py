"""Leader and Helper on PostgreSQL, whose server dies at every point where the Leader stores something: each
acknowledged report is counted exactly once, and the services go on without a restart of their own.

Measurements are one-hot and every bucket's count is known, so that a report lost or counted twice shows in the sum.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.backing.postgres import PostgresServer
from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.store import HelperStore
from services.leader import app as leader_app
from services.leader.store import LeaderStore
from tacit.errors import Fatal
from tacit.messages import Report, Role, UploadRequest
from tacit.ports import HttpResponse
from tacit.service.app import DRIVERS
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators, reports_of
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=7)
AT_B = make_task_kit(min_batch_size=7, batch_close=BatchClose.AT_B)
EXPECTED = (3, 2, 1, 1)
LIMIT = 40
POINTS = 8


class Crash:
    """SIGKILLs the server inside, or right after, the ``number``-th write transaction of the Leader, and starts it."""

    def __init__(self, server: PostgresServer, number: int, *, committed: bool) -> None:
        self.server = server
        self.left = number
        self.committed = committed
        self.happened = False

    def install(self, pair: AggregatorPair) -> None:
        """Stand between the Leader and its database."""
        store: Any = pair.apps[Role.LEADER][leader_app.STORE]
        real = store.transaction

        @asynccontextmanager
        async def transaction(**options: Any) -> AsyncIterator[Any]:
            due = self.left == 0
            self.left -= 1
            async with real(**options) as tx:
                yield tx
                if due and not self.committed:
                    await self._restart()
            if due and self.committed:
                await self._restart()
                raise Fatal("the answer to the commit was lost")

        store.transaction = transaction

    async def _restart(self) -> None:
        self.happened = True
        await asyncio.to_thread(self.server.crash)
        await asyncio.to_thread(self.server.start)


def pair_of(folder: Path, kit: TaskKit, make_url: MakeDatabase) -> AggregatorPair:
    return both_aggregators(
        kit,
        folder,
        limits={"job_size": 5},
        databases={Role.LEADER: make_url(LeaderStore), Role.HELPER: make_url(HelperStore)},
    )


async def finish(pair: AggregatorPair, reports: list[Report]) -> HttpResponse:
    """Upload, aggregate and collect, each again until it is answered; returns the result's answer."""
    body = UploadRequest(tuple(reports)).encode()
    for _ in range(LIMIT):
        if (await pair.post_reports(body)).status == 200:
            break
    await pair.end_interval()
    for _ in range(LIMIT):
        created = await pair.create_collection()
        if created.status == 201:
            break
    for _ in range(LIMIT):
        for driver in pair.apps[Role.LEADER][DRIVERS][1:]:
            try:
                await driver.step()
            except Fatal:
                continue
        await pair.clock.advance(61)
        answer = await pair.poll(created)
        if answer.status == 200 and answer.body:
            return answer
        assert answer.status in {200, 500}, json.loads(answer.body)
    raise AssertionError("it never ended")


@pytest.mark.parametrize("kit", [KIT, pytest.param(AT_B, marks=pytest.mark.slow)], ids=["interval-end", "at-b"])
@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("points", [(1, 3), pytest.param(range(POINTS), marks=pytest.mark.slow)], ids=["two", "every"])
async def test_server_killed_at_a_commit_loses_and_repeats_nothing(
    tmp_path: Path,
    postgres: PostgresServer,
    make_postgres_url: MakeDatabase,
    kit: TaskKit,
    points: Sequence[int],
    *,
    committed: bool,
) -> None:
    happened = 0
    for number in points:
        crash = Crash(postgres, number, committed=committed)
        async with pair_of(tmp_path / str(number), kit, make_postgres_url) as pair:
            crash.install(pair)
            answer = await finish(pair, reports_of(kit))
            assert pair.opened(answer).values == EXPECTED, f"killed at {number}, committed={committed}"
            counts = await pair.status(Role.LEADER)
            assert (counts["aggregated"], counts["pending"]) == (7, 0)
        happened += crash.happened
    assert happened >= min(3, len(points)), "a run has fewer commits than it should"
