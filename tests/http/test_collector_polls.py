"""The collector's polls, which wait at the Leader in the background while collections move on beside them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from infra.lab.kit.reports import issuer_key
from services.collector.exchanges import MOST_WAITING, WAIT_SECONDS
from services.collector.records import Collection, CollectionState
from services.collector.service import STEP_LIMIT, Collector
from services.collector.store import CollectorStore
from tacit.messages import Role
from tacit.models.secure_aggregation.collector import DapSource
from tacit.ports import HttpResponse
from tacit.recipe.derive import task_of
from tacit.roles.collector import AggregateResult, collection_request
from tacit.service.app import ServiceEnv
from tacit.service.http.live_tokens import NO_TOKEN
from tacit.task import Task
from tests.http.collector_stage import LeaderStub

KIT = RecipeKit()
TASK = task_of(KIT.recipe(), issuer_key().token_key.spki)
RUNNING, NEXT = bytes([1]) * 32, bytes([2]) * 32


AT_B = task_of(
    changed(changed(KIT.recipe(), "batch.mode", "leader_selected"), "batch.close", "at_B"), issuer_key().token_key.spki
)


class EveryHash:
    """A stand-in that knows every recipe hash, and takes all of them for one task's."""

    name = "every"

    def __init__(self, task: Task = TASK) -> None:
        self._task = task

    def find(self, recipe_hash: bytes, /) -> EveryHash:
        return self

    async def step(self) -> int:
        return 0

    def active(self) -> DapSource:
        return DapSource(self._task, KIT.key_pairs[Role.COLLECTOR])

    def document(self, row: Collection, aggregate: AggregateResult, now: float) -> dict[str, Any]:
        return {"count": aggregate.report_count}


class Pace:
    """The collector's delays, in seconds."""

    retry_delay = 1.0
    poll_seconds = 5.0
    max_poll_seconds = 60.0


class SlowLeader:
    """Answers a poll when it is let, and takes a new job only once that poll has ended."""

    def __init__(self) -> None:
        self.polls = 0
        self.poll_ended = asyncio.Event()
        self.ready = asyncio.Event()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if method == "GET":
            self.polls += 1
            await self.ready.wait()
            return HttpResponse(200, {}, LeaderStub(TASK).response(collection_request(TASK).encode()))
        self.ready.set()
        await self.poll_ended.wait()
        return HttpResponse(201, {"location": f"{url}/next"}, b"")


async def test_a_poll_that_ends_while_a_step_is_under_way_is_not_begun_again_from_what_the_step_had_read() -> None:
    store = CollectorStore("sqlite+aiosqlite:///:memory:")
    await store.open()
    leader, clock = SlowLeader(), SimClock(float(NOW))
    collector = Collector(store, EveryHash(), Pace(), ServiceEnv(clock, SeededEntropy(1), leader), NO_TOKEN)
    leader.poll_ended = collector.wake
    request = collection_request(TASK).encode()
    async with store.transaction() as tx:
        await tx.add_collection(Collection("running", RUNNING, 0, CollectionState.REQUESTED, request))
        await tx.put_collection(
            Collection("running", RUNNING, 0, CollectionState.COLLECTING, request, job="job", next_attempt=1.0)
        )
    await collector.step()
    async with store.transaction() as tx:
        await tx.add_collection(Collection("AAAA", NEXT, 0, CollectionState.REQUESTED, request))
    await collector.step()
    for _ in range(10):
        await asyncio.sleep(0)
    await collector.close()
    assert (await collector.show("running")).state is CollectionState.RELEASED
    assert leader.polls == 1
    await store.close()


class UnhurriedLeader:
    """Asks to be polled again after half a minute."""

    def __init__(self) -> None:
        self.polls: list[str] = []

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if method == "GET":
            self.polls.append((headers or {}).get("Prefer", ""))
        return HttpResponse(201 if body else 200, {"location": f"{url}/job", "retry-after": "30"}, b"")


@pytest.mark.parametrize(("task", "polls"), [(TASK, []), (AT_B, ["wait=10"])], ids=["interval end", "at B"])
async def test_a_batch_that_fills_is_waited_for_at_the_leader_at_once_and_another_later(
    task: Task, polls: list[str]
) -> None:
    store = CollectorStore("sqlite+aiosqlite:///:memory:")
    await store.open()
    leader = UnhurriedLeader()
    deps = ServiceEnv(SimClock(float(NOW)), SeededEntropy(1), leader)
    collector = Collector(store, EveryHash(task), Pace(), deps, NO_TOKEN)
    async with store.transaction() as tx:
        request = collection_request(task).encode()
        await tx.add_collection(Collection("AAAA", RUNNING, 0, CollectionState.REQUESTED, request))
    for _ in range(3):
        await collector.step()
        for _ in range(10):
            await asyncio.sleep(0)
    await collector.close()
    await store.close()
    assert leader.polls == polls


class SilentLeader:
    """Takes every job, and answers no poll."""

    def __init__(self) -> None:
        self.waiting = Counter[str]()
        self.jobs: list[str] = []

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if method == "GET":
            self.waiting[(headers or {}).get("Prefer", "")] += 1
            await asyncio.Event().wait()
        self.jobs.append(url)
        return HttpResponse(201, {"location": f"{url}/job", "retry-after": "30"}, b"")


async def test_polls_under_way_take_no_other_collections_place_and_only_so_many_wait_at_one_leader() -> None:
    store, leader = CollectorStore("sqlite+aiosqlite:///:memory:"), SilentLeader()
    await store.open()
    collector = Collector(
        store, EveryHash(), Pace(), ServiceEnv(SimClock(float(NOW)), SeededEntropy(1), leader), NO_TOKEN
    )
    request, count = collection_request(TASK).encode(), 2 * STEP_LIMIT + 3

    async def add(name: str, number: int) -> Collection:
        row = Collection(name, bytes([1, number]) * 16, 0, CollectionState.REQUESTED, request)
        async with store.transaction() as tx:
            await tx.add_collection(row)
        return row

    for number in range(count):
        row = await add(f"row-{number}", number)
        async with store.transaction() as tx:
            await tx.put_collection(replace(row, state=CollectionState.COLLECTING, job="job", next_attempt=1.0))
    new = await add("new", 255)
    async with store.transaction() as tx:
        await tx.put_collection(replace(new, next_attempt=2.0))
    for _ in range(3):
        await collector.step()
    for _ in range(6000):
        if leader.waiting.total() >= count:
            break
        await asyncio.sleep(0.01)
    assert len(leader.jobs) == 1, "the new collection was asked for beside all polls"
    assert leader.waiting == {f"wait={WAIT_SECONDS}": MOST_WAITING, "": count - MOST_WAITING}
    await collector.close()
    await store.close()
