"""The Leader's resources over HTTP: uploads, collection jobs, credentials, status."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, GATEWAY_TOKEN, OPERATOR_TOKEN, PEER_TOKEN, AggregatorPair
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.leader.app import UPLOAD
from tacit import media_types
from tacit.aggregator.batch_yield import LOOKS, MAX_BATCH, STEPS, read_batch_yield
from tacit.aggregator.yield_looks import look_at
from tacit.codec import b64url
from tacit.dap_errors import ReportError
from tacit.messages import (
    CollectionJobExtension,
    CollectionJobReq,
    HpkeConfigList,
    Interval,
    Query,
    Report,
    Role,
    UploadErrors,
    UploadRequest,
)
from tacit.ports import HttpResponse
from tacit.task import BatchClose
from tacit.vdaf.prio3 import Prio3Sum
from tests.http.aggregator_pair import both_aggregators

DAP = "urn:ietf:params:ppm:dap:error:"
KIT = make_task_kit()


def pair_of(tmp_path: Path, kit: TaskKit = KIT, **options: Any) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, **options)


def problem(answer: HttpResponse) -> str:
    assert answer.headers["content-type"] == media_types.PROBLEM_JSON
    document = json.loads(answer.body)
    assert document["status"] == answer.status
    return str(document["type"]).removeprefix(DAP)


def codes(errors: UploadErrors | None) -> list[tuple[bytes, ReportError]]:
    assert errors is not None
    return [(status.report_id, status.error) for status in errors.status]


def id_of(report: Report) -> bytes:
    return report.report_metadata.report_id


async def status(pair: AggregatorPair, role: Role = Role.LEADER) -> dict[str, Any]:
    answer = await pair.get(role, f"/v1/tasks/{pair.task.task_id_text}/status", OPERATOR_TOKEN)
    assert answer.status == 200
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def collection(pair: AggregatorPair, request: CollectionJobReq, body: bytes | None = None) -> HttpResponse:
    return await pair.send(
        Role.LEADER,
        "POST",
        "/collection_jobs",
        token=COLLECTOR_TOKEN,
        message="collection-job-req",
        body=request.encode() if body is None else body,
    )


async def test_uploaded_reports_come_out_of_the_collection_as_their_sum(tmp_path: Path) -> None:
    reports = KIT.reports(1)
    async with pair_of(tmp_path, storage="file") as pair:
        assert await pair.upload(reports.valid(value % 4) for value in range(12)) is None
        await pair.end_interval()
        answer = await pair.collect()
        assert answer.status == 200
        result = pair.opened(answer)
        assert (result.report_count, result.values) == (12, (3, 3, 3, 3))
        assert result.interval == Interval(KIT.task.interval.start, 1)
        assert (await status(pair))["rejected_by_cause"] == {}


async def test_hpke_config_is_the_key_that_reports_are_sealed_to(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await pair.get(Role.LEADER, "/hpke_config")
        assert HpkeConfigList.decode(answer.body).configs == (KIT.task.leader_hpke_config,)
        assert answer.headers["content-type"] == "application/ppm-dap;message=hpke-config-list"
        assert answer.headers["cache-control"] == "max-age=86400"


async def test_same_bytes_again_are_success_and_other_bytes_under_the_id_a_replay(tmp_path: Path) -> None:
    reports = KIT.reports(2)
    first = reports.valid(1)
    other = reports.valid(2, report_id=id_of(first))
    async with pair_of(tmp_path) as pair:
        assert await pair.upload([first, first]) is None
        assert await pair.upload([first]) is None
        assert codes(await pair.upload([first, other])) == [(id_of(first), ReportError.REPORT_REPLAYED)]
        await pair.work()
        assert await pair.upload([first]) is None
        assert codes(await pair.upload([other])) == [(id_of(first), ReportError.REPORT_REPLAYED)]
        assert (await status(pair))["uploaded"] == 1


async def test_upload_names_each_refused_report_in_the_order_of_the_request(tmp_path: Path) -> None:
    reports = KIT.reports(3)
    start, end = KIT.task.interval.start, KIT.task.interval.end
    good = reports.valid(0)
    stale = dataclasses.replace(
        reports.valid(0),
        leader_encrypted_input_share=dataclasses.replace(reports.valid(0).leader_encrypted_input_share, config_id=99),
    )
    sent = [
        reports.valid(0, time=start + 20),
        good,
        reports.valid(0, time=start - 1),
        stale,
        reports.valid(0, time=end),
    ]
    async with pair_of(tmp_path) as pair:
        assert codes(await pair.upload(sent)) == [
            (id_of(sent[0]), ReportError.REPORT_TOO_EARLY),
            (id_of(sent[2]), ReportError.REPORT_DROPPED),
            (id_of(stale), ReportError.OUTDATED_CONFIG),
            (id_of(sent[4]), ReportError.REPORT_DROPPED),
        ]
        assert (await status(pair))["uploaded"] == 1


@pytest.mark.parametrize("body", [b"\x00", bytes(40), b"\xff" * 200])
async def test_malformed_upload_is_refused_as_a_whole(tmp_path: Path, body: bytes) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await pair.post_reports(body)
        assert (answer.status, problem(answer)) == (400, "invalidMessage")
        assert json.loads(answer.body)["taskid"] == KIT.task.task_id_text


async def test_trailing_bytes_after_the_last_report_are_refused(tmp_path: Path) -> None:
    body = UploadRequest((KIT.reports(4).valid(0),)).encode() + b"\x00"
    async with pair_of(tmp_path) as pair:
        answer = await pair.post_reports(body)
        assert problem(answer) == "invalidMessage"
        assert (await status(pair))["uploaded"] == 0


async def test_upload_for_an_unknown_task_is_refused(tmp_path: Path) -> None:
    body = UploadRequest((KIT.reports(5).valid(0),)).encode()
    headers = {"Content-Type": media_types.dap("upload-req"), "Authorization": f"Bearer {GATEWAY_TOKEN}"}
    async with pair_of(tmp_path) as pair:
        for task_id in (b64url(bytes(32)), "not-an-id"):
            url = f"http://127.0.0.1:8081/tasks/{task_id}/reports"
            answer = await pair.inner.request("POST", url, headers=headers, body=body)
            assert (answer.status, problem(answer)) == (404, "unrecognizedTask")
            assert json.loads(answer.body).get("taskid") == (None if task_id == "not-an-id" else task_id)


async def test_upload_with_another_media_type_or_too_many_bytes_is_refused(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await pair.send(
            Role.LEADER, "POST", "/reports", token=GATEWAY_TOKEN, message="upload-errors", body=b"x"
        )
        assert answer.status == 415
        answer = await pair.post_reports(bytes((1 << 20) + 1))
        assert answer.status == 413


async def test_rejected_reports_are_counted_by_cause_on_both_sides(tmp_path: Path) -> None:
    reports = KIT.reports(6)
    token = reports.token()
    bad = [
        reports.bad_proof(1),
        reports.truncated_share(1, roles=[Role.LEADER]),
        reports.truncated_share(1, roles=[Role.HELPER]),
        reports.unknown_extension(1, roles=[Role.HELPER]),
        reports.without_token(1, roles=[Role.LEADER]),
        reports.wrong_slot(1),
        reports.valid(1, token=token),
        reports.valid(2, token=token),
        reports.moved_token(1, reports.token(), thief=Role.LEADER),
        reports.moved_token(1, reports.token(), thief=Role.HELPER),
        reports.duplicated_extension(1, roles=[Role.HELPER]),
        reports.trailing_bytes(1, roles=[Role.LEADER]),
    ]
    async with pair_of(tmp_path) as pair:
        assert await pair.upload(bad) is None
        await pair.work()
        leader, helper = await status(pair), await status(pair, Role.HELPER)
        assert leader["rejected_by_cause"] == {
            "helper-invalid-message": 4,
            "helper-vdaf-verify-error": 1,
            "share-malformed": 2,
            "token-binding": 1,
            "token-challenge": 1,
            "token-missing": 1,
            "token-spent": 1,
        }
        assert helper["rejected_by_cause"] == {
            "extension-repeated": 1,
            "extension-unknown": 1,
            "proof": 1,
            "share-malformed": 1,
            "token-binding": 1,
        }
        assert (leader["aggregated"], helper["aggregated"]) == (1, 1)
        assert (leader["distinct_nullifiers"], leader["pending"]) == (1, 0)


async def test_reports_cannot_swell_a_job_beyond_what_the_helper_takes(tmp_path: Path) -> None:
    reports = KIT.reports(21)
    good, swollen = reports.valid(1), reports.valid(1)
    sealed = dataclasses.replace(swollen.helper_encrypted_input_share, payload=bytes(1_000_000))
    swollen = dataclasses.replace(swollen, helper_encrypted_input_share=sealed)
    async with pair_of(tmp_path) as pair:
        assert codes(await pair.upload([good, swollen])) == [(id_of(swollen), ReportError.INVALID_MESSAGE)]
        await pair.work()
        assert (await status(pair))["aggregated"] == 1


async def test_one_token_in_a_hundred_concurrent_reports_counts_once(tmp_path: Path) -> None:
    reports = KIT.reports(7)
    token = reports.token()
    sent = [reports.valid(1, token=token) for _ in range(100)]
    async with pair_of(tmp_path, limits={"job_size": 30}) as pair:
        await asyncio.gather(*(pair.upload([report]) for report in sent))
        await pair.work()
        leader = await status(pair)
        assert (leader["uploaded"], leader["aggregated"]) == (100, 1)
        assert leader["rejected_by_cause"] == {"token-spent": 99}


async def test_hundred_concurrent_uploads_of_one_report_store_it_once(tmp_path: Path) -> None:
    report = KIT.reports(8).valid(1)
    async with pair_of(tmp_path, storage="file") as pair:
        results = await asyncio.gather(*(pair.upload([report]) for _ in range(100)))
        assert set(results) == {None}
        assert (await status(pair))["uploaded"] == 1


async def test_token_of_a_failed_proof_stays_spent(tmp_path: Path) -> None:
    reports = KIT.reports(9)
    token = reports.token()
    async with pair_of(tmp_path) as pair:
        await pair.upload([reports.bad_proof(1, token=token)])
        await pair.work()
        await pair.upload([reports.valid(1, token=token)])
        await pair.work()
        assert (await status(pair))["rejected_by_cause"] == {
            "helper-vdaf-verify-error": 1,
            "token-spent": 1,
        }


async def test_collection_needs_the_collectors_credential(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        for token in (None, "wrong", PEER_TOKEN, OPERATOR_TOKEN):
            for method, path in (
                ("POST", "/collection_jobs"),
                ("GET", f"/collection_jobs/{b64url(bytes(16))}"),
                ("DELETE", f"/collection_jobs/{b64url(bytes(16))}"),
            ):
                answer = await pair.send(
                    Role.LEADER,
                    method,
                    path,
                    token=token,
                    message="collection-job-req",
                    body=b"" if method == "GET" else pair.request.encode(),
                )
                assert answer.status == 401, (token, method)
                assert answer.headers["www-authenticate"] == "Bearer"


async def test_exact_counts_are_for_the_servers_own_operator_and_not_for_the_collector(tmp_path: Path) -> None:
    path = f"/v1/tasks/{KIT.task.task_id_text}/status"
    async with pair_of(tmp_path) as pair:
        for role in (Role.LEADER, Role.HELPER):
            for token in (None, "wrong", PEER_TOKEN):
                assert (await pair.get(role, path, token)).status == 401
                assert (await pair.get(role, "/v1/recipes", token)).status == 401
            assert (await pair.get(role, path, COLLECTOR_TOKEN)).status == 401
            assert (await pair.get(role, path, OPERATOR_TOKEN)).status == 200
            for token in (OPERATOR_TOKEN, COLLECTOR_TOKEN):
                page = json.loads((await pair.get(role, "/v1/recipes", token)).body)
                (shown,), following = page["recipes"], page["next"]
                assert following is None
                assert (shown["task_id"], shown["state"]) == (KIT.task.task_id_text, "active")


async def told(pair: AggregatorPair, token: str = COLLECTOR_TOKEN) -> HttpResponse:
    return await pair.send(Role.LEADER, "GET", "/yield", token=token)


async def test_the_collector_learns_of_a_batch_that_fills_in_few_looks_that_never_change(tmp_path: Path) -> None:
    reports = KIT.reports(12)
    async with pair_of(tmp_path, storage="file") as pair:
        for token in ("wrong", PEER_TOKEN, OPERATOR_TOKEN, GATEWAY_TOKEN):
            assert (await told(pair, token)).status == 401
        await pair.upload(reports.valid(1) for _ in range(6))
        await pair.work()
        start, end = KIT.task.start_seconds, KIT.task.end_seconds
        before = read_batch_yield((await told(pair)).body)
        assert (before.looks, before.next_at) == ((), look_at(start, end, 1))

        pair.clock.jump(look_at(start, end, 2) - pair.clock.now())
        once = read_batch_yield((await told(pair)).body)
        assert [(one.number, one.at) for one in once.looks] == [(2, look_at(start, end, 2))]
        assert once.next_at == look_at(start, end, 3)
        await pair.upload(reports.valid(1) for _ in range(20))
        await pair.work()
        assert (await status(pair))["aggregated"] == 26
        await pair.start(Role.LEADER)
        pair.clock.jump(1)
        assert read_batch_yield((await told(pair)).body) == once

        await pair.end_interval()
        last = read_batch_yield((await told(pair)).body)
        assert last.looks[:1] == once.looks
        assert (last.looks[-1].number, last.looks[-1].tenths, last.next_at) == (LOOKS, STEPS, None)
        assert "26" not in json.dumps([one.tenths for one in last.looks])
        await pair.end_retention(Role.LEADER)
        assert (await told(pair)).status == 404


async def test_nothing_is_told_of_a_batch_too_large_for_its_noise(tmp_path: Path) -> None:
    for size, status in ((MAX_BATCH, 200), (MAX_BATCH + 1, 404), (2**64 - 1, 404)):
        kit = make_task_kit(min_batch_size=size)
        async with pair_of(tmp_path / str(size), kit) as pair:
            pair.clock.jump(look_at(kit.task.start_seconds, kit.task.end_seconds, 2) - pair.clock.now())
            answer = await told(pair)
            assert answer.status == status, answer.body
            if status == 200:
                assert read_batch_yield(answer.body).looks[0].tenths in range(STEPS + 1)
            else:
                assert str(MAX_BATCH) in json.loads(answer.body)["detail"]


async def test_collection_waits_for_the_end_of_the_interval(tmp_path: Path) -> None:
    reports = KIT.reports(10)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        created = await pair.create_collection()
        await pair.work()
        waiting = await pair.poll(created)
        assert (created.status, waiting.status, waiting.body) == (201, 200, b"")
        assert int(waiting.headers["retry-after"]) > 0
        await pair.end_interval()
        await pair.work()
        assert pair.opened(await pair.poll(created)).values == (0, 10, 0, 0)


async def test_one_contribution_less_than_the_minimum_is_not_released(tmp_path: Path) -> None:
    reports = KIT.reports(11)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(9))
        await pair.end_interval()
        answer = await pair.collect()
        assert (answer.status, problem(answer)) == (400, "invalidBatchSize")
        assert (await status(pair))["released"] == 0
        await pair.upload([reports.valid(2)])
        assert pair.opened(await pair.collect()).values == (0, 9, 1, 0)


async def test_identical_collection_request_gets_the_same_job_and_the_same_bytes(tmp_path: Path) -> None:
    reports = KIT.reports(12)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        await pair.end_interval()
        first = await pair.create_collection()
        await pair.work()
        again = await pair.create_collection()
        assert again.headers["location"] == first.headers["location"]
        assert (again.status, again.body) == (201, (await pair.poll(first)).body)


async def test_noise_of_the_aggregators_is_drawn_once_for_a_batch_whoever_asks_again(tmp_path: Path) -> None:
    quiet = make_task_kit(Prio3Sum(2, 7))
    kit = dataclasses.replace(quiet, task=dataclasses.replace(quiet.task, aggregator_flips=10_000))
    reports = kit.reports(15)
    async with pair_of(tmp_path, kit, storage="file") as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        await pair.end_interval()
        first = await pair.create_collection()
        await pair.work()
        shown = await pair.poll(first)
        (value,) = pair.opened(shown).values
        assert value != 10, "false alarm below one in a hundred; the draw is the seed's"
        assert abs(value - 10) < 6 * (2 * 10_000) ** 0.5 / 2
        await pair.start(Role.LEADER)
        assert (await pair.poll(first)).body == shown.body
        assert (await pair.create_collection()).body == shown.body


async def test_deleted_collection_is_gone_and_its_batch_stays_closed(tmp_path: Path) -> None:
    reports = KIT.reports(13)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        await pair.end_interval()
        created = await pair.create_collection()
        await pair.work()
        path = created.headers["location"].partition(KIT.task.task_id_text)[2]
        for _ in range(2):
            answer = await pair.send(Role.LEADER, "DELETE", path, token=COLLECTOR_TOKEN)
            assert answer.status == 200
        assert (await pair.poll(created)).status == 404
        again = await pair.create_collection()
        assert (again.status, problem(again)) == (400, "batchOverlap")


async def test_uploads_of_one_frame_share_a_transaction_and_each_has_its_own_answer(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        factory = KIT.reports(91)
        reports = [factory.valid(1) for _ in range(4)]
        late = dataclasses.replace(reports[3], report_metadata=dataclasses.replace(reports[3].report_metadata, time=1))
        task, kind = KIT.task.task_id_text, media_types.dap("upload-req")
        answers = await pair.apps[Role.LEADER][UPLOAD](
            [
                (task, kind, reports[0].encode()),
                (task, "text/plain", reports[1].encode()),
                (task, kind, b"malformed"),
                ("A" * 43, kind, reports[1].encode()),
                (task, kind, late.encode()),
                (task, kind, reports[1].encode() + reports[2].encode()),
            ]
        )
        assert [answer.status for answer in answers] == [200, 415, 400, 404, 200, 200]
        assert [bool(answer.body) for answer in answers] == [False, True, True, True, True, False]
        assert UploadErrors.decode(answers[4].body).status[0].error is ReportError.REPORT_DROPPED
        assert json.loads(answers[3].body)["taskid"] == "A" * 43
        assert (await status(pair))["pending"] == 3


async def test_report_after_the_collection_is_refused(tmp_path: Path) -> None:
    reports = KIT.reports(14)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        await pair.end_interval()
        assert (await pair.collect()).status == 200
        late = reports.valid(3)
        assert codes(await pair.upload([late])) == [(id_of(late), ReportError.BATCH_COLLECTED)]


async def test_whoever_keeps_sending_does_not_hold_a_collection_up(tmp_path: Path) -> None:
    reports = KIT.reports(18)
    async with pair_of(tmp_path) as pair:
        await pair.upload(reports.valid(1) for _ in range(10))
        await pair.end_interval()
        created = await pair.create_collection()
        late = reports.valid(3)
        assert codes(await pair.upload([late])) == [(id_of(late), ReportError.BATCH_COLLECTED)]
        await pair.work()
        assert pair.opened(await pair.poll(created)).values == (0, 10, 0, 0)


async def test_batch_of_a_deleted_waiting_collection_is_free_again(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=1, batch_close=BatchClose.AT_B)
    reports = kit.reports(19)
    async with pair_of(tmp_path, kit) as pair:
        await pair.upload(reports.valid(0) for _ in range(4))
        await pair.work()
        for expected in (201, 403):
            created = await pair.create_collection()
            assert created.status == 201
            path = created.headers["location"].partition(kit.task.task_id_text)[2]
            if expected == 403:
                await pair.work()
                assert (await pair.poll(created)).status == 403
            assert (await pair.send(Role.LEADER, "DELETE", path, token=COLLECTOR_TOKEN)).status == 200
            assert (await status(pair))["batches"] == {"full": 2}


async def test_more_than_twice_the_expected_contributions_are_not_released(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=3)
    reports = kit.reports(15)
    async with pair_of(tmp_path, kit) as pair:
        await pair.upload(reports.valid(1) for _ in range(7))
        await pair.end_interval()
        answer = await pair.collect()
        assert (answer.status, problem(answer)) == (403, "urn:tacit:refusal:rate-bound")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CollectionJobReq(Query.leader_selected()), "invalidMessage"),
        (CollectionJobReq(Query.time_interval(Interval(1000, 99))), "batchInvalid"),
        (CollectionJobReq(Query.time_interval(Interval(0, 5000))), "batchInvalid"),
        (CollectionJobReq(Query.time_interval(KIT.task.interval), b"x"), "invalidAggregationParameter"),
        (
            CollectionJobReq(Query.time_interval(KIT.task.interval), b"", (CollectionJobExtension(7, b""),)),
            "unsupportedExtension",
        ),
        (
            CollectionJobReq(
                Query.time_interval(KIT.task.interval),
                b"",
                (CollectionJobExtension(7, b""), CollectionJobExtension(7, b"")),
            ),
            "invalidExtension",
        ),
    ],
)
async def test_collection_request_that_does_not_fit_the_task_is_refused(
    tmp_path: Path, request_: CollectionJobReq, expected: str
) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await collection(pair, request_)
        assert (answer.status, problem(answer)) == (400, expected)


async def test_an_interval_past_the_last_time_is_an_invalid_batch(tmp_path: Path) -> None:
    request = CollectionJobReq(Query.time_interval(KIT.task.interval))
    overflowing = request.encode().replace(KIT.task.interval.encode(), b"\xff" * 16)
    async with pair_of(tmp_path) as pair:
        answer = await collection(pair, request, overflowing)
        assert (answer.status, problem(answer)) == (400, "batchInvalid")


async def test_head_tells_what_get_would(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        url = "http://127.0.0.1:8081/hpke_config"
        got, head = await pair.inner.request("GET", url), await pair.inner.request("HEAD", url)
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", got.headers["content-type"])
        created = await collection(pair, pair.request)
        job = "http://127.0.0.1:8081" + created.headers["location"]
        headers = {"Authorization": f"Bearer {COLLECTOR_TOKEN}"}
        assert (await pair.inner.request("HEAD", job, headers=headers)).status == 200
        assert (await pair.inner.request("HEAD", job)).status == 401


async def test_malformed_collection_request_is_refused(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await collection(pair, pair.request, pair.request.encode() + b"\x00")
        assert problem(answer) == "invalidMessage"
        answer = await pair.send(Role.LEADER, "GET", "/collection_jobs/short", token=COLLECTOR_TOKEN)
        assert problem(answer) == "invalidMessage"


async def test_leader_selected_batches_close_at_the_minimum_and_are_disjoint(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=5, batch_close=BatchClose.AT_B)
    reports = kit.reports(16)
    async with pair_of(tmp_path, kit) as pair:
        await pair.upload([reports.valid(0) for _ in range(12)] + [reports.bad_proof(1)])
        await pair.work()
        results = []
        for _ in range(2):
            created = await pair.create_collection()
            await pair.work()
            answer = await pair.poll(created)
            results.append(pair.opened(answer))
            path = created.headers["location"].partition(kit.task.task_id_text)[2]
            await pair.send(Role.LEADER, "DELETE", path, token=COLLECTOR_TOKEN)
        assert [result.values for result in results] == [(5, 0, 0, 0)] * 2
        waiting = await pair.create_collection()
        await pair.work()
        assert (await pair.poll(waiting)).body == b""
        await pair.end_interval()
        await pair.work()
        assert problem(await pair.poll(waiting)) == "invalidBatchSize"
        assert (await status(pair))["batches"] == {"claimed": 2, "open": 1}


async def test_leader_notes_its_share_of_a_report_when_it_is_observed(tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    class Notes:
        def saw(self, party: str, what: Any) -> None:
            seen.append((party, dict(what)))

    report = KIT.reports(17).valid(1)
    pair = pair_of(tmp_path)
    pair.observer = Notes()
    async with pair:
        await pair.upload([report])
        await pair.work()
    assert [party for party, _ in seen] == ["leader", "helper"]
    for _, what in seen:
        assert what["report_id"] == id_of(report).hex()
        assert len(what["first_bytes"]) == 32
    assert seen[0][1]["first_bytes"] != seen[1][1]["first_bytes"]
