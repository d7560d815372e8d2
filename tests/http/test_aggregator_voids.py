"""What an aggregator has closed without a release it never releases, whoever asks."""

from __future__ import annotations

import json
from pathlib import Path

from services.helper.app import STORE as HELPER_STORE
from services.leader.app import STORE as LEADER_STORE
from tacit.errors import DAP_ERROR_PREFIX
from tacit.messages import Role
from tacit.ports import HttpResponse
from tests.http.test_helper import KIT, pair_of

OVERLAP = DAP_ERROR_PREFIX + "batchOverlap"
ENOUGH = KIT.task.min_batch_size


def problem(answer: HttpResponse) -> str:
    return str(json.loads(answer.body)["type"])


async def test_a_leader_that_closed_a_task_fails_the_collection_that_waited(tmp_path: Path) -> None:
    async with pair_of(tmp_path, storage="file") as pair:
        reports = KIT.reports(30)
        await pair.upload(reports.valid(1) for _ in range(ENOUGH))
        await pair.work()
        created = await pair.create_collection()
        async with pair.apps[Role.LEADER][LEADER_STORE].transaction() as tx:
            assert await tx.close_unreleased(KIT.task.task_id)
        await pair.end_interval()
        await pair.work()
        assert problem(await pair.poll(created)) == OVERLAP
        assert (await pair.status(Role.HELPER))["released"] == 0
        assert (await pair.status(Role.LEADER))["released"] == 0
        await pair.start(Role.LEADER)
        await pair.work()
        assert problem(await pair.poll(created)) == OVERLAP


async def test_a_helper_that_closed_a_task_gives_no_share_and_the_leader_stays_charged(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        reports = KIT.reports(31)
        await pair.upload(reports.valid(1) for _ in range(ENOUGH))
        await pair.work()
        async with pair.apps[Role.HELPER][HELPER_STORE].transaction() as tx:
            assert await tx.close_unreleased(KIT.task.task_id)
        await pair.end_interval()
        assert problem(await pair.collect()) == OVERLAP
        async with pair.apps[Role.LEADER][LEADER_STORE].transaction() as tx:
            assert not await tx.close_unreleased(KIT.task.task_id), "its own side of the batch was released"


async def test_what_both_released_neither_closes(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        reports = KIT.reports(32)
        await pair.upload(reports.valid(1) for _ in range(ENOUGH))
        await pair.work()
        await pair.end_interval()
        assert pair.opened(await pair.collect()).report_count == ENOUGH
        for role, key in ((Role.LEADER, LEADER_STORE), (Role.HELPER, HELPER_STORE)):
            async with pair.apps[role][key].transaction() as tx:
                assert not await tx.close_unreleased(KIT.task.task_id)
