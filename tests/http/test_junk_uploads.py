"""Reports that nobody was given a token for: they are counted, leave no row, and do not crowd out what waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, OPERATOR_TOKEN, PEER_TOKEN, AggregatorPair, settings_of
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.app import STORE as HELPER_STORE
from services.helper.schema import COMMON as HELPER_TABLES
from services.leader.app import STORE as LEADER_STORE
from services.leader.app import UPLOAD
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from services.leader.schema import COMMON as LEADER_TABLES
from services.leader.schema import PENDING, REPORTS
from tacit import media_types
from tacit.errors import UsageError
from tacit.messages import Role, UploadRequest
from tacit.service.app import ServiceEnv
from tacit.service.http.limits import BUSY
from tests.http.aggregator_pair import both_aggregators

KIT = make_task_kit()


def pair_of(tmp_path: Path, kit: TaskKit = KIT, storage: str = "memory", **limits: Any) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, limits=limits, storage=storage)


async def rows(app: web.Application, role: Role, *tables: sa.Table) -> list[int]:
    """How many rows each table of an aggregator has."""
    store: Any = app[LEADER_STORE if role is Role.LEADER else HELPER_STORE]
    async with store.read() as tx:
        return [
            (await tx.connection.execute(sa.select(sa.func.count()).select_from(one))).scalar_one() for one in tables
        ]


async def test_reports_without_a_token_leave_a_count_and_no_row(tmp_path: Path) -> None:
    forged = KIT.reports(1)
    async with pair_of(tmp_path) as pair:
        await pair.upload([forged.without_token(1) for _ in range(30)] + [forged.wrong_slot(1) for _ in range(10)])
        await pair.work()
        assert await rows(pair.apps[Role.LEADER], Role.LEADER, LEADER_TABLES.outcomes, REPORTS, PENDING) == [0, 0, 0]
        found = await pair.status(Role.LEADER)
        assert found["rejected_by_cause"] == {"token-challenge": 10, "token-missing": 30}
        assert (await pair.status(Role.HELPER))["rejected"] == 0, "the helper is not asked about them"


async def test_a_report_whose_token_only_the_helper_misses_leaves_no_row_at_the_helper(tmp_path: Path) -> None:
    half = KIT.reports(2)
    async with pair_of(tmp_path) as pair:
        await pair.upload([half.without_token(1, roles={Role.HELPER}) for _ in range(5)])
        await pair.work()
        assert await rows(pair.apps[Role.HELPER], Role.HELPER, HELPER_TABLES.outcomes) == [0]
        assert (await pair.status(Role.HELPER))["rejected_by_cause"] == {"token-missing": 5}
        assert await rows(pair.apps[Role.LEADER], Role.LEADER, LEADER_TABLES.outcomes) == [5], "five tokens are spent"


async def test_one_token_in_a_hundred_reports_leaves_one_row_at_either_aggregator(tmp_path: Path) -> None:
    reports = KIT.reports(3)
    token = reports.token()
    async with pair_of(tmp_path) as pair:
        await pair.upload([reports.valid(1, token=token) for _ in range(40)])
        await pair.work()
        await pair.upload([reports.valid(1, token=token) for _ in range(20)])
        await pair.work()
        for role, tables in ((Role.LEADER, LEADER_TABLES), (Role.HELPER, HELPER_TABLES)):
            assert await rows(pair.apps[role], role, tables.outcomes) == [1]
        found = await pair.status(Role.LEADER)
        assert (found["aggregated"], found["rejected_by_cause"]) == (1, {"token-spent": 59})


async def test_an_honest_report_with_the_id_of_a_rejected_forgery_still_counts(tmp_path: Path) -> None:
    forged = KIT.reports(4).without_token(1)
    honest = KIT.reports(5).valid(1, report_id=forged.report_metadata.report_id)
    async with pair_of(tmp_path) as pair:
        await pair.upload([forged])
        await pair.work()
        assert await pair.upload([honest]) is None
        await pair.work()
        assert (await pair.status(Role.LEADER))["aggregated"] == 1


async def test_only_gateways_that_the_leader_knows_may_upload(tmp_path: Path) -> None:
    body = UploadRequest((KIT.reports(6).valid(1),)).encode()
    async with pair_of(tmp_path) as pair:
        for token in (None, "another", PEER_TOKEN, COLLECTOR_TOKEN, OPERATOR_TOKEN):
            assert (await pair.post_reports(body, token)).status == 401
        assert (await pair.status(Role.LEADER))["uploaded"] == 0
        assert (await pair.post_reports(body)).status == 200


def test_a_leader_that_names_no_gateway_does_not_start_to_take_uploads(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, KIT, Role.LEADER) | {"gateway_tokens": []}
    deps = ServiceEnv(SimClock(), SeededEntropy(1), InProcessTransport(), background=False)
    with pytest.raises(UsageError, match=r"gateway_tokens.* or open_uploads"):
        create_leader(LeaderConfig.model_validate(settings), deps)
    create_leader(LeaderConfig.model_validate({**settings, "roles": ["worker"]}), deps)


async def test_a_leader_that_is_open_takes_so_many_bytes_a_minute_from_each_source(tmp_path: Path) -> None:
    reports = KIT.reports(7)
    bodies = [UploadRequest((reports.valid(1),)).encode() for _ in range(4)]
    pair = pair_of(tmp_path)
    pair.settings[Role.LEADER]["open_uploads"] = {"bytes_per_minute": 2 * len(bodies[0]) + 100}
    headers = {"Content-Type": media_types.dap("upload-req")}
    url = f"{KIT.task.configuration.leader_aggregator_endpoint}/tasks/{KIT.task.task_id_text}/reports"

    async def upload(address: str, body: bytes) -> int:
        return (await pair.inner.seen_from(address).request("POST", url, headers=headers, body=body)).status

    async with pair:
        assert [await upload("192.0.2.1", body) for body in bodies[:3]] == [200, 200, 503]
        assert [await upload("2001:db8::1", bodies[0]), await upload("2001:db8::2", bodies[1])] == [200, 200]
        assert await upload("2001:db8::3", bodies[2]) == 503, "a /64 is one source"
        assert (await pair.post_reports(bodies[2])).status == 200, "the gateway's uploads have no such bound"
        await pair.clock.advance(31)
        assert await upload("192.0.2.1", bodies[3]) == 200, "half a minute is half of it"
        assert await upload("192.0.2.1", bodies[0]) == 503
        await pair.work()
        assert (await pair.status(Role.LEADER))["aggregated"] == 4


async def test_junk_that_waits_is_bounded_and_what_was_acknowledged_is_counted(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=5)
    forged, honest = kit.reports(8), kit.reports(9)
    async with pair_of(tmp_path, kit, storage="file", pending_floor=1) as pair:
        taken = [await pair.post_reports(UploadRequest((forged.without_token(1),)).encode()) for _ in range(9)]
        assert [answer.status for answer in taken] == [200] * 9
        first, late = (UploadRequest((honest.valid(1),)).encode() for _ in range(2))
        assert (await pair.post_reports(first)).status == 200
        refused = await pair.post_reports(late)
        assert (refused.status, json.loads(refused.body)["type"]) == (503, BUSY)
        assert 0 < int(refused.headers["retry-after"]) <= 10
        assert await rows(pair.apps[Role.LEADER], Role.LEADER, REPORTS) == [10], "twice what the recipe expects"
        await pair.start(Role.LEADER)
        assert (await pair.post_reports(late)).status == 503, "another process counts what is stored"
        await pair.work()
        assert (await pair.post_reports(late)).status == 200, "and junk that was looked at has left"
        await pair.work()
        found = await pair.status(Role.LEADER)
        assert (found["aggregated"], found["rejected"]) == (2, 9)


async def test_junk_that_comes_many_reports_to_a_request_leaves_room_for_single_ones(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=2)
    forged, honest = kit.reports(11), kit.reports(12)
    async with pair_of(tmp_path, kit, pending_floor=40) as pair:
        for size in (20, 10, 5, 2, 2, 2):
            junk = UploadRequest(tuple(forged.without_token(1) for _ in range(size))).encode()
            for _ in range(3):
                assert (await pair.post_reports(junk)).status in {200, 503}
        for _ in range(20):
            assert (await pair.post_reports(UploadRequest((honest.valid(1),)).encode())).status == 200
        await pair.work()
        assert (await pair.status(Role.LEADER))["aggregated"] == 20


async def test_a_request_that_finds_no_room_costs_no_other_in_its_transaction_anything(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=4)
    reports = kit.reports(10)
    big, small = (UploadRequest(tuple(reports.valid(1) for _ in range(count))).encode() for count in (5, 4))
    async with pair_of(tmp_path, kit, pending_floor=1) as pair:
        call = pair.apps[Role.LEADER][UPLOAD]
        media_type = media_types.dap("upload-req")
        answers = await call([(kit.task.task_id_text, media_type, body) for body in (big, small)])
        assert [answer.status for answer in answers] == [503, 200]


async def test_a_second_look_at_the_room_counts_what_was_admitted_before_it(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=4)
    reports = kit.reports(13)
    bodies = [UploadRequest((reports.valid(1),)).encode() for _ in range(11)]
    async with pair_of(tmp_path, kit, pending_floor=1) as pair:
        assert (await pair.post_reports(bodies[0])).status == 200
        call, media_type = pair.apps[Role.LEADER][UPLOAD], media_types.dap("upload-req")
        answers = await call([(kit.task.task_id_text, media_type, body) for body in bodies[1:]])
        assert [answer.status for answer in answers] == [200] * 7 + [503] * 3
