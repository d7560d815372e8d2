"""The analyzer's store keeps its promises on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.exc import IntegrityError

from services.analyzer.store import AnalyzerStore
from tacit.aggregator.batch_yield import Look
from tacit.aggregator.one_server.records import Aggregate, pack, unpack
from tacit.aggregator.records import ACCEPTED, OutcomeRow, TaskRow, TaskState
from tacit.errors import Fatal
from tests.contract.conftest import Opening

TASK, OTHER = bytes(32), bytes(range(32))


@pytest.fixture
async def analyzer(opening: Opening[AnalyzerStore]) -> AsyncIterator[AnalyzerStore]:
    async with opening(AnalyzerStore) as found:
        yield found


def test_numbers_are_packed_and_unpacked() -> None:
    assert unpack(pack((0, 1, 2**63 - 1))) == (0, 1, 2**63 - 1)
    assert unpack(b"") == ()


async def test_sums_of_recipes_grow_apart(analyzer: AnalyzerStore) -> None:
    async with analyzer.transaction() as tx:
        assert await tx.running(TASK) is None
        await tx.add(TASK, Aggregate(2, (1, 0, 2)))
        await tx.add(OTHER, Aggregate(1, (7,)))
    async with analyzer.transaction() as tx:
        await tx.add(TASK, Aggregate(1, (1, 1, 0)))
    async with analyzer.read() as tx:
        assert await tx.running(TASK) == Aggregate(3, (2, 1, 2))
        assert await tx.running(OTHER) == Aggregate(1, (7,))
        assert await tx.counted(TASK) == 3


async def test_a_sum_is_released_once_and_gone_then(analyzer: AnalyzerStore) -> None:
    async with analyzer.transaction() as tx:
        await tx.add(TASK, Aggregate(3, (2, 1)))
        assert not await tx.is_closed(TASK)
        await tx.keep_released(TASK, Aggregate(3, (2, 1)))
    with pytest.raises(IntegrityError):
        async with analyzer.transaction() as tx:
            await tx.keep_released(TASK, Aggregate(3, (2, 1)))
    with pytest.raises(Fatal, match="is gone"):
        async with analyzer.transaction() as tx:
            await tx.add(TASK, Aggregate(1, (1, 1)))
    async with analyzer.read() as tx:
        assert await tx.is_closed(TASK)
        assert await tx.released(TASK) == Aggregate(3, (2, 1))
        assert await tx.running(TASK) == Aggregate(3, ())
        assert await tx.release_count(TASK) == 1
        assert not await tx.is_closed(OTHER)


async def test_a_recipe_that_was_closed_without_a_release_is_closed(analyzer: AnalyzerStore) -> None:
    async with analyzer.transaction() as tx:
        await tx.add(TASK, Aggregate(1, (1,)))
        assert await tx.close_unreleased(TASK)
    async with analyzer.read() as tx:
        assert await tx.is_closed(TASK)
        assert await tx.released(TASK) is None
        assert await tx.release_count(TASK) == 0
        assert await tx.running(TASK) == Aggregate(1, ())


async def test_of_a_forgotten_recipe_only_its_end_and_its_release_are_known(analyzer: AnalyzerStore) -> None:
    row = TaskRow(TASK, TaskState.ACTIVE, b"", task_id=TASK)
    async with analyzer.transaction() as tx:
        await tx.put_task(row)
        await tx.record(TASK, [OutcomeRow(bytes(16), bytes(32), ACCEPTED, digest=bytes(32))])
        await tx.count_rejections(TASK, {"token-key": 2})
        await tx.add(TASK, Aggregate(1, (1,)))
        await tx.keep_released(TASK, Aggregate(1, (1,)))
    async with analyzer.transaction() as tx:
        await tx.put_task(TaskRow(TASK, TaskState.ENDED, b"", task_id=TASK))
        await tx.forget(TASK)
    async with analyzer.read() as tx:
        assert await tx.released(TASK) is None
        assert await tx.running(TASK) is None
        assert await tx.known(TASK, [bytes(16)]) == {}
        assert await tx.rejections(TASK) == {}
        assert await tx.is_closed(TASK)
        assert await tx.task_state(TASK) is TaskState.ENDED


async def test_a_look_at_a_count_is_noted_once_and_goes_with_its_task(analyzer: AnalyzerStore) -> None:
    first, again, second = Look(1, 1_700_000_000, 4), Look(1, 1_700_000_009, 9), Look(3, 1_700_000_500, 10)
    for look in (second, first, again):
        async with analyzer.transaction() as tx:
            await tx.keep_look(bytes(32), look)
    async with analyzer.read() as tx:
        assert await tx.looks(bytes(32)) == [first, second]
        assert await tx.looks(bytes(range(32))) == []
    async with analyzer.transaction() as tx:
        await tx.forget(bytes(32))
    async with analyzer.read() as tx:
        assert await tx.looks(bytes(32)) == []


async def test_kept_reports_are_read_apart_and_go_with_the_release(analyzer: AnalyzerStore) -> None:
    async with analyzer.transaction() as tx:
        await tx.add(TASK, Aggregate(3, (3,)))
        await tx.keep_records(TASK, bytes(16), b"one two")
        await tx.keep_records(TASK, bytes([1] * 16), b"three")
        await tx.keep_records(OTHER, bytes(16), b"another")
    async with analyzer.transaction() as tx:
        assert sorted(await tx.kept_records(TASK)) == [b"one two", b"three"]
        await tx.keep_released(TASK, Aggregate(3, (3,), b"{}"))
    async with analyzer.read() as tx:
        assert await tx.kept_records(TASK) == []
        assert await tx.kept_records(OTHER) == [b"another"]
        assert await tx.released(TASK) == Aggregate(3, (3,), b"{}")


async def test_a_group_of_reports_is_kept_once(analyzer: AnalyzerStore) -> None:
    async with analyzer.transaction() as tx:
        await tx.keep_records(TASK, bytes(16), b"one")
    with pytest.raises(IntegrityError):
        async with analyzer.transaction() as tx:
            await tx.keep_records(TASK, bytes(16), b"one")


@pytest.mark.parametrize("end", ["close_unreleased", "forget"])
async def test_kept_reports_go_when_a_recipe_ends_without_a_release(analyzer: AnalyzerStore, end: str) -> None:
    async with analyzer.transaction() as tx:
        await tx.put_task(TaskRow(TASK, TaskState.ACTIVE, b"", task_id=TASK))
        await tx.add(TASK, Aggregate(1, (1,)))
        await tx.keep_records(TASK, bytes(16), b"one")
    async with analyzer.transaction() as tx:
        if end == "forget":
            await tx.put_task(TaskRow(TASK, TaskState.ENDED, b"", task_id=TASK))
        await getattr(tx, end)(TASK)
    async with analyzer.read() as tx:
        assert await tx.kept_records(TASK) == []
