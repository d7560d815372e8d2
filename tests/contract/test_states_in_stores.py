"""Stores move what they hold along the tables of states, on every backend, whatever they are asked for."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from client_agent.journal import ENTRY_STATES, AgentStore, Entry, MemoryAgentStore
from client_agent.journal import State as EntryState
from client_agent.store import SqlAgentStore
from services.collector.records import COLLECTION_STATES as COLLECTOR_STATES
from services.collector.records import Collection
from services.collector.store import CollectorStore
from services.helper.records import JOB_STATES as HELPER_JOB_STATES
from services.helper.records import JobState as HelperJobState
from services.helper.store import HelperStore
from services.leader.records import (
    BATCH_STATES,
    COLLECTION_STATES,
    JOB_STATES,
    BatchState,
    CollectionRow,
    CollectionState,
    JobRow,
    JobState,
)
from services.leader.store import LeaderStore
from tacit.aggregator.records import TASK_STATES, TaskRow
from tacit.errors import Fatal
from tacit.states import States
from tests.contract.conftest import Opening

ID, TASK = bytes(16), bytes(range(32))
STEPS = 80

Machine = tuple[States[Any], Callable[[Any], Awaitable[bool]], Callable[[], Awaitable[Any]]]
"""A table, what tries to move the one thing there is (False or ``Fatal``: it did not), and what says its state."""


@pytest.fixture
async def leader(opening: Opening[LeaderStore]) -> AsyncIterator[LeaderStore]:
    async with opening(LeaderStore) as found:
        yield found


@pytest.fixture
async def helper(opening: Opening[HelperStore]) -> AsyncIterator[HelperStore]:
    async with opening(HelperStore) as found:
        yield found


async def assert_keeps_to_table(
    machine: Machine, states: list[Any], forget: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Try moves at random: exactly those of the table happen. ``forget``: begins anew, where the walk has come to an
    end from which nothing goes on."""
    table, go, state_of = machine
    choice = random.Random(table.name)
    for _ in range(STEPS):
        before, after = await state_of(), choice.choice(states)
        try:
            moved = await go(after)
        except Fatal:
            moved = False
        assert moved == table.allows(before, after), (before, after)
        assert await state_of() == (after if moved else before)
        if forget is not None and moved and after is not None and _is_end(table, after) and choice.random() < 0.5:
            await forget()


async def _forget(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.forget(TASK)


def _is_end(table: States[Any], state: Any) -> bool:
    return all(move.after == state for move in table.moves if move.before == state)


async def test_aggregation_jobs_of_the_leader(leader: LeaderStore) -> None:
    job = JobRow(ID, TASK, None, JobState.FORMED, (1, 2))

    async def go(after: JobState | None) -> bool:
        async with leader.transaction() as tx:
            if await tx.job_counts(TASK) == {}:
                if after is JobState.FORMED:
                    await tx.add_jobs([job])
                return after is JobState.FORMED
            if after is JobState.SENT:
                return await tx.job_to_send(job, b"request", (1,))
            return await (tx.drop_job(job) if after is None else tx.end_job(ID, after))

    async def state() -> JobState | None:
        async with leader.read() as tx:
            return next(map(JobState, await tx.job_counts(TASK)), None)

    await assert_keeps_to_table((JOB_STATES, go, state), [None, *JobState], lambda: _forget(leader))


async def test_jobs_that_are_split_are_formed_ones(leader: LeaderStore) -> None:
    job = JobRow(ID, TASK, None, JobState.FORMED, (1, 2))
    async with leader.transaction() as tx:
        await tx.add_jobs([job])
        assert await tx.job_to_send(job, b"request", (1,))
    with pytest.raises(Fatal, match="not formed"):
        async with leader.transaction() as tx:
            await tx.remove_jobs([job])
    async with leader.read() as tx:
        assert await tx.job_counts(TASK) == {"sent": 1}


async def test_leader_selected_batches(leader: LeaderStore) -> None:
    async def go(after: BatchState) -> bool:
        async with leader.transaction() as tx:
            if await tx.batch_counts(TASK):
                await tx.set_batch(ID, after)
            elif after is BatchState.OPEN:
                await tx.add_batch(TASK, ID)
            else:
                return False
        return True

    async def state() -> BatchState | None:
        async with leader.read() as tx:
            return next(map(BatchState, await tx.batch_counts(TASK)), None)

    await assert_keeps_to_table((BATCH_STATES, go, state), [*BatchState])


async def test_collection_jobs_of_the_leader(leader: LeaderStore) -> None:
    async def go(after: CollectionState) -> bool:
        row = CollectionRow(ID, TASK, after, b"request")
        async with leader.transaction() as tx:
            await (tx.put_collection(row) if await tx.collection(ID) else tx.add_collection(row))
        return True

    async def state() -> CollectionState | None:
        async with leader.read() as tx:
            row = await tx.collection(ID)
        return None if row is None else row.state

    await assert_keeps_to_table((COLLECTION_STATES, go, state), [*CollectionState], lambda: _forget(leader))


async def test_aggregation_jobs_of_the_helper(helper: HelperStore) -> None:
    async def go(after: HelperJobState | None) -> bool:
        async with helper.transaction() as tx:
            return await (tx.drop_job(TASK, ID) if after is None else tx.add_job(TASK, ID, b"response"))

    async def state() -> HelperJobState | None:
        async with helper.read() as tx:
            response = await tx.job_response(TASK, ID)
        return None if response is None else HelperJobState.ANSWERED

    await assert_keeps_to_table((HELPER_JOB_STATES, go, state), [None, *HelperJobState])


async def test_tasks_of_an_aggregator(helper: HelperStore) -> None:
    async def go(after: Any) -> bool:
        async with helper.transaction() as tx:
            return await tx.put_task(TaskRow(TASK, after, b"recipe"))

    async def state() -> Any:
        async with helper.read() as tx:
            return await tx.task_state(TASK)

    async def forget() -> None:
        async with helper.transaction() as tx:
            await tx.connection.execute(delete(tx.common.tasks))

    await assert_keeps_to_table((TASK_STATES, go, state), [*TASK_STATES.states], forget)


@pytest.mark.parametrize("backend", ["memory", "postgres"])
async def test_collections_of_the_collector(backend: str, request: pytest.FixtureRequest) -> None:
    is_postgres = backend == "postgres"
    url = request.getfixturevalue("make_postgres_url")() if is_postgres else "sqlite+aiosqlite:///:memory:"
    store = CollectorStore(url)
    await store.open()

    async def go(after: Any) -> bool:
        row = Collection("id", TASK, 0, after, b"request")
        async with store.transaction() as tx:
            await (tx.put_collection(row) if await tx.collection("id") else tx.add_collection(row))
        return True

    async def state() -> Any:
        async with store.read() as tx:
            row = await tx.collection("id")
        return None if row is None else row.state

    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await assert_keeps_to_table((COLLECTOR_STATES, go, state), [*COLLECTOR_STATES.states])


@pytest.mark.parametrize("backend", ["memory", "file"])
async def test_entries_of_a_devices_journal(backend: str, tmp_path: Path) -> None:
    for seed in range(4):
        store: AgentStore = MemoryAgentStore()
        if backend == "file":
            store = await SqlAgentStore.open(tmp_path / f"agent-{seed}.sqlite3")
        choice = random.Random(seed)
        known: EntryState | None = None
        for _ in range(STEPS // 4):
            after = choice.choice([*EntryState])
            entry = Entry(TASK, "visits", after, 1.0)
            try:
                moved = True
                if known is None:
                    moved = await store.decide(entry)
                else:
                    await store.update(entry)
            except Fatal:
                moved = False
            assert moved == ENTRY_STATES.allows(known, after)
            known = after if moved else known
            assert [one.state for one in await store.entries()] == ([] if known is None else [known])
        if isinstance(store, SqlAgentStore):
            await store.close()
