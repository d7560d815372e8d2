"""A task that has ended never does anything again: requests that were begun before, other processes, other clocks (P9).

The attacker is a leader that kept its reports: what the helper would release a second time, together with what it
released before, tells the difference between the two batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, GATEWAY_TOKEN, PEER_TOKEN, AggregatorPair
from infra.lab.kit.network import HalfSent
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.app import STORE as HELPER_STORE
from services.helper.store import HelperStore
from services.leader.app import STORE as LEADER_STORE
from tacit.dap_errors import ReportError
from tacit.messages import Report, Role, UploadErrors, UploadRequest
from tacit.ports import HttpResponse
from tacit.task import BatchClose
from tests.http.test_helper import job_of, pair_of, post_job, post_share, problem, share_request
from tests.http.test_helper_processes import running
from tests.http.test_leader_processes import leaders_of
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=3)
AT_B = make_task_kit(min_batch_size=3, batch_close=BatchClose.AT_B)
FIRST, SECOND = bytes(32), bytes([1]) * 32
ENDED = "unrecognizedTask"


def made(kit: TaskKit, seed: int, count: int) -> list[Report]:
    factory = kit.reports(seed)
    return [factory.valid(at) for at in range(count)]


async def half_job(pair: AggregatorPair, reports: Sequence[Report], batch_id: bytes | None) -> HalfSent:
    body = job_of(reports, pair.kit, batch_id).encode()
    message = "aggregation-job-init-req"
    return await pair.half_send(Role.HELPER, "/aggregation_jobs", token=PEER_TOKEN, message=message, body=body)


async def half_share(pair: AggregatorPair, reports: Sequence[Report], batch_id: bytes | None) -> HalfSent:
    body = share_request(reports, pair.kit, batch_id).encode()
    message = "aggregate-share-req"
    return await pair.half_send(Role.HELPER, "/aggregate_shares", token=PEER_TOKEN, message=message, body=body)


async def releases_of(pair: AggregatorPair, role: Role) -> int:
    store = pair.apps[role][HELPER_STORE if role is Role.HELPER else LEADER_STORE]
    async with store.read() as tx:
        return await tx.release_count(pair.task.task_id)


def refused(answer: HttpResponse) -> bool:
    return answer.status == 404 and problem(answer) == ENDED


@pytest.mark.parametrize(("kit", "first", "second"), [(KIT, None, None), (AT_B, FIRST, SECOND)], ids=["interval", "B"])
async def test_requests_begun_before_the_end_release_nothing_a_second_time_at_the_helper(
    tmp_path: Path, kit: TaskKit, first: bytes | None, second: bytes | None
) -> None:
    reports = made(kit, 1, 4)
    async with pair_of(tmp_path, kit) as pair:
        await pair.end_interval()
        await post_job(pair, job_of(reports, kit, first))
        assert (await post_share(pair, share_request(reports, kit, first))).status == 201
        job = await half_job(pair, reports[:3], second)
        share = await half_share(pair, reports[:3], second)
        await pair.end_retention(Role.HELPER)
        assert refused(await job.finish())
        assert refused(await share.finish())
        assert await releases_of(pair, Role.HELPER) == 1


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not yet noticed"])
async def test_a_helper_whose_clock_is_past_the_retention_counts_and_releases_nothing(
    tmp_path: Path, noticed: bool
) -> None:
    reports = made(KIT, 2, 3)
    async with pair_of(tmp_path, KIT) as pair:
        await post_job(pair, job_of(reports, KIT))
        job = await half_job(pair, [KIT.reports(3).valid(1)], None)
        share = await half_share(pair, reports, None)
        await pair.end_retention(*([Role.HELPER] if noticed else []))
        assert refused(await share.finish())
        assert refused(await job.finish())
        assert await releases_of(pair, Role.HELPER) == 0


async def test_a_clock_that_jumps_back_opens_no_task_that_has_ended(tmp_path: Path) -> None:
    reports = made(KIT, 4, 3)
    async with pair_of(tmp_path, KIT) as pair:
        await pair.end_interval()
        before = pair.clock.now()
        half = await half_job(pair, reports, None)
        body = UploadRequest(tuple(reports)).encode()
        upload = await pair.half_send(Role.LEADER, "/reports", token=GATEWAY_TOKEN, message="upload-req", body=body)
        await pair.end_retention(Role.HELPER, Role.LEADER)
        pair.clock.jump(before - pair.clock.now())
        assert refused(await half.finish())
        assert refused(await upload.finish())
        assert refused(await post_job(pair, job_of(reports, KIT)))
        assert refused(await post_share(pair, share_request(reports, KIT)))


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not yet noticed"])
async def test_requests_begun_before_the_end_store_and_collect_nothing_at_the_leader(
    tmp_path: Path, noticed: bool
) -> None:
    reports = KIT.reports(5)
    async with pair_of(tmp_path, KIT) as pair:
        assert await pair.upload([reports.valid(at) for at in (0, 1, 2)]) is None
        await pair.work()
        await pair.end_interval()
        body = UploadRequest((reports.valid(1),)).encode()
        upload = await pair.half_send(Role.LEADER, "/reports", token=GATEWAY_TOKEN, message="upload-req", body=body)
        collection = await pair.half_send(
            Role.LEADER,
            "/collection_jobs",
            token=COLLECTOR_TOKEN,
            message="collection-job-req",
            body=pair.request.encode(),
        )
        await pair.end_retention(*([Role.LEADER] if noticed else []))
        stored = await upload.finish()
        assert refused(stored) or [one.error for one in UploadErrors.decode(stored.body).status] == [
            ReportError.TASK_EXPIRED
        ]
        assert refused(await collection.finish())
        await pair.work()
        async with pair.apps[Role.LEADER][LEADER_STORE].read() as tx:
            assert (await tx.pending_summary(KIT.task.task_id))[0] == 0
            assert await tx.unfinished_jobs(KIT.task.task_id) == 0
        assert await releases_of(pair, Role.LEADER) == 0


async def test_a_collection_that_waited_past_the_end_is_not_released(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT) as pair:
        assert await pair.upload(made(KIT, 6, 3)) is None
        await pair.work()
        await pair.end_interval()
        assert (await pair.create_collection()).status == 201
        await pair.end_retention()
        await pair.work()
        assert await releases_of(pair, Role.LEADER) == 0
        assert await releases_of(pair, Role.HELPER) == 0


async def test_reports_that_waited_past_the_end_go_into_no_job(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT) as pair:
        assert await pair.upload([KIT.reports(7).valid(1)]) is None
        await pair.end_retention()
        await pair.work()
        async with pair.apps[Role.LEADER][LEADER_STORE].read() as tx:
            assert await tx.unfinished_jobs(KIT.task.task_id) == 0
            assert (await tx.pending_summary(KIT.task.task_id))[0] > 0


async def test_what_was_released_is_known_for_ever(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        assert await pair.upload(made(KIT, 8, 3)) is None
        await pair.work()
        await pair.end_interval()
        assert pair.opened(await pair.collect()).report_count == 3
        await pair.end_retention(Role.LEADER, Role.HELPER)
        for role in (Role.LEADER, Role.HELPER):
            await pair.start(role)
            assert await releases_of(pair, role) == 1


async def test_a_process_that_has_not_noticed_the_end_counts_and_releases_nothing(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    reports = made(AT_B, 9, 4)
    async with running(AT_B, tmp_path, make_postgres_url(HelperStore)) as helpers:
        await helpers.jobs_at_once([job_of(reports, AT_B, FIRST)])
        assert (await helpers.share(0, share_request(reports, AT_B, FIRST))).status == 201
        await helpers.end_task(0)
        for process in (1, 2):
            (job,) = await helpers.jobs_at_once([job_of(reports[:3], AT_B, SECOND)], first=process)
            assert refused(job)
            assert refused(await helpers.share(process, share_request(reports[:3], AT_B, SECOND)))
        async with helpers.apps[2][HELPER_STORE].read() as tx:
            assert await tx.release_count(AT_B.task.task_id) == 1
            assert await tx.accepted_count(AT_B.task.task_id) == 0


async def test_a_leader_process_that_has_not_noticed_the_end_stores_nothing(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    reports = AT_B.reports(10)
    async with leaders_of(tmp_path, make_postgres_url, AT_B) as leaders:
        assert (await leaders.upload(True, [reports.valid(1)])).body == b""
        now = leaders.pair.clock.now()
        await leaders.pair.end_retention(Role.LEADER)
        leaders.pair.clock.jump(now - leaders.pair.clock.now())
        answer = await leaders.upload(True, [reports.valid(1)])
        assert [one.error for one in UploadErrors.decode(answer.body).status] == [ReportError.TASK_EXPIRED]
        async with leaders.apps[1][LEADER_STORE].read() as tx:
            assert (await tx.pending_summary(AT_B.task.task_id))[0] == 0
