"""The Helper's store keeps its promises on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from infra.lab.kit.reports import make_task_kit
from services.helper.store import HelperStore
from tacit.aggregator.records import ACCEPTED, OutcomeRow
from tacit.errors import Fatal
from tacit.roles.aggregator import Tally
from tacit.task import BatchClose
from tests.contract.conftest import Opening

TASK = make_task_kit().task
AT_B = make_task_kit(batch_close=BatchClose.AT_B).task
JOB, SHARE = bytes(16), bytes(range(16))


@pytest.fixture
async def helper(opening: Opening[HelperStore]) -> AsyncIterator[HelperStore]:
    async with opening(HelperStore) as found:
        yield found


async def test_a_job_is_answered_once_and_its_response_kept(helper: HelperStore) -> None:
    async with helper.transaction(shared=True) as tx:
        assert await tx.job_response(TASK.task_id, JOB) is None
        assert await tx.add_job(TASK.task_id, JOB, b"response")
    async with helper.transaction(shared=True) as tx:
        assert not await tx.add_job(TASK.task_id, JOB, b"another")
        assert await tx.job_response(TASK.task_id, JOB) == b"response"
        assert await tx.job_response(AT_B.task_id, JOB) is None
        assert await tx.job_count(TASK.task_id) == 1


async def test_a_job_whose_commit_failed_can_be_answered_again(helper: HelperStore) -> None:
    with contextlib.suppress(Fatal):
        async with helper.transaction(shared=True) as tx:
            assert await tx.add_job(TASK.task_id, JOB, b"lost")
            raise Fatal("the commit failed")
    async with helper.transaction(shared=True) as tx:
        assert await tx.add_job(TASK.task_id, JOB, b"response")


async def test_a_job_of_one_task_is_not_dropped_by_another(helper: HelperStore) -> None:
    async with helper.transaction() as tx:
        await tx.add_job(TASK.task_id, JOB, b"response")
        assert not await tx.drop_job(AT_B.task_id, JOB)
        assert await tx.drop_job(TASK.task_id, JOB)
        assert not await tx.drop_job(TASK.task_id, JOB)
        assert await tx.job_response(TASK.task_id, JOB) is None


async def test_aggregate_shares_are_kept_and_dropped(helper: HelperStore) -> None:
    async with helper.transaction() as tx:
        await tx.put_share(TASK.task_id, SHARE, b"share")
        assert await tx.share_response(TASK.task_id, SHARE) == b"share"
        assert not await tx.drop_share(AT_B.task_id, SHARE)
        assert await tx.drop_share(TASK.task_id, SHARE)
        assert await tx.share_response(TASK.task_id, SHARE) is None


async def test_reports_are_counted_by_what_became_of_them(helper: HelperStore) -> None:
    share = TASK.vdaf.encode_agg_share([1, 0, 0, 0])
    async with helper.transaction(shared=True) as tx:
        await tx.record(TASK.task_id, [OutcomeRow(JOB, bytes(32), ACCEPTED), OutcomeRow(SHARE, None, 6, "proof")])
        await tx.add_tallies(TASK, {b"bucket": Tally(1, bytes(32), 1000, 1000, share)})
        await tx.count_rejections(TASK.task_id, {"proof": 1})
    async with helper.read() as tx:
        assert await tx.report_counts(TASK.task_id) == {"aggregated": 1, "rejected": 1}
        assert await tx.report_counts(AT_B.task_id) == {"aggregated": 0, "rejected": 0}
