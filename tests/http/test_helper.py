"""The Helper's resources over HTTP: aggregation jobs, aggregate shares, credentials."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import (
    COLLECTOR_TOKEN,
    OPERATOR_TOKEN,
    PEER_TOKEN,
    AggregatorPair,
    party_of,
)
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper import service
from services.helper.store import HelperStore
from tacit import media_types
from tacit.aggregator.outcomes import OutcomesTx
from tacit.codec import b64url
from tacit.dap_errors import ReportError
from tacit.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchSelector,
    CollectionJobExtension,
    CollectionJobReq,
    HpkeConfigList,
    Interval,
    Query,
    Report,
    Role,
    VerifyRespType,
)
from tacit.messages.slices import ReportSlices
from tacit.ports import HttpResponse
from tacit.roles.aggregator import Party, checksum_of
from tacit.roles.jobs import HelperJob, prepare_helper
from tacit.task import BatchClose
from tacit.version import DAP_19
from tests.http.aggregator_pair import both_aggregators
from tests.kit.oracles import leader as leader_role
from tests.kit.oracles.leader import Prepared

DAP = "urn:ietf:params:ppm:dap:error:"
KIT = make_task_kit()
AT_B = make_task_kit(min_batch_size=3, batch_close=BatchClose.AT_B)
BATCH = bytes(range(32))


def pair_of(tmp_path: Path, kit: TaskKit = KIT, **options: Any) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, **options)


def problem(answer: HttpResponse) -> str:
    assert answer.headers["content-type"] == media_types.PROBLEM_JSON
    return str(json.loads(answer.body)["type"]).removeprefix(DAP)


def job_of(reports: Sequence[Report], kit: TaskKit = KIT, batch_id: bytes | None = None) -> AggregationJobInitReq:
    """The request that an honest Leader would make of these reports."""
    party = party_of(kit, Role.LEADER)
    prepared = []
    for report in reports:
        outcome = leader_role.prepare_report(party, report, float(kit.task.end_seconds))
        assert isinstance(outcome, Prepared)
        prepared.append(outcome)
    return leader_role.init_request(kit.task, prepared, batch_id)


async def post_job(
    pair: AggregatorPair, request: AggregationJobInitReq | bytes, token: str | None = PEER_TOKEN
) -> HttpResponse:
    body = request if isinstance(request, bytes) else request.encode()
    return await pair.send(
        Role.HELPER, "POST", "/aggregation_jobs", token=token, message="aggregation-job-init-req", body=body
    )


def answers(response: HttpResponse) -> list[tuple[VerifyRespType, ReportError | None]]:
    assert response.status == 201, response.body
    decoded = AggregationJobResp.decode(response.body)
    return [(resp.verify_resp_type, resp.report_error) for resp in decoded.verify_resps]


def share_request(
    reports: Sequence[Report], kit: TaskKit = KIT, batch_id: bytes | None = None, **changes: Any
) -> AggregateShareReq:
    task = kit.task
    query, selector = Query.time_interval(task.interval), BatchSelector.time_interval(task.interval)
    if batch_id is not None:
        query, selector = Query.leader_selected(), BatchSelector.leader_selected(batch_id)
    checksum = checksum_of(report.report_metadata.report_id for report in reports)
    request = AggregateShareReq(CollectionJobReq(query), selector, len(reports), checksum)
    return dataclasses.replace(request, **changes)


async def post_share(
    pair: AggregatorPair, request: AggregateShareReq | bytes, token: str | None = PEER_TOKEN
) -> HttpResponse:
    body = request if isinstance(request, bytes) else request.encode()
    return await pair.send(
        Role.HELPER, "POST", "/aggregate_shares", token=token, message="aggregate-share-req", body=body
    )


CONTINUE = (VerifyRespType.CONTINUE, None)


def refused(error: ReportError) -> tuple[VerifyRespType, ReportError]:
    return (VerifyRespType.REJECT, error)


async def test_job_is_answered_in_order_with_a_location(tmp_path: Path) -> None:
    reports = KIT.reports(1)
    sent = [reports.valid(1), reports.bad_proof(1), reports.valid(2)]
    async with pair_of(tmp_path) as pair:
        answer = await post_job(pair, job_of(sent))
        assert answers(answer) == [CONTINUE, refused(ReportError.VDAF_VERIFY_ERROR), CONTINUE]
        assert answer.headers["content-type"] == "application/ppm-dap;message=aggregation-job-resp"
        path, _, query = answer.headers["location"].partition("?")
        assert query == "step=0"
        below = path.partition(KIT.task.task_id_text)[2]
        shown = await pair.send(Role.HELPER, "GET", f"{below}?step=0", token=PEER_TOKEN)
        assert (shown.status, shown.body) == (200, answer.body)


async def test_identical_job_gets_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    reports = KIT.reports(2)
    request = job_of([reports.valid(1), reports.valid(2)])
    async with pair_of(tmp_path, storage="file") as pair:
        first = await post_job(pair, request)
        again = await asyncio.gather(*(post_job(pair, request) for _ in range(5)))
        await pair.start(Role.HELPER)
        again.append(await post_job(pair, request))
        assert {(a.status, a.body, a.headers["location"]) for a in again} == {
            (201, first.body, first.headers["location"])
        }


async def test_report_in_another_job_is_a_replay(tmp_path: Path) -> None:
    reports = KIT.reports(3)
    one, two, bad = reports.valid(1), reports.valid(2), reports.bad_proof(3)
    async with pair_of(tmp_path) as pair:
        await post_job(pair, job_of([one, bad]))
        answer = await post_job(pair, job_of([bad, two, one]))
        assert answers(answer) == [
            refused(ReportError.VDAF_VERIFY_ERROR),
            CONTINUE,
            refused(ReportError.REPORT_REPLAYED),
        ]


async def test_token_in_two_reports_counts_once_also_in_concurrent_jobs(tmp_path: Path) -> None:
    reports = KIT.reports(4)
    token = reports.token()
    jobs = [job_of([reports.valid(1, token=token) for _ in range(10)]) for _ in range(10)]
    async with pair_of(tmp_path, storage="file") as pair:
        found = [
            code for answer in await asyncio.gather(*(post_job(pair, job) for job in jobs)) for code in answers(answer)
        ]
        assert found.count(CONTINUE) == 1
        assert found.count(refused(ReportError.REPORT_REPLAYED)) == 99


async def test_of_two_reports_with_one_token_the_first_has_it_good_or_bad(tmp_path: Path) -> None:
    reports = KIT.reports(20)
    one, other = reports.token(), reports.token()
    sent = [
        reports.valid(1, token=one),
        reports.bad_proof(1, token=one),
        reports.bad_proof(1, token=other),
        reports.valid(1, token=other),
    ]
    async with pair_of(tmp_path) as pair:
        assert answers(await post_job(pair, job_of(sent))) == [
            CONTINUE,
            refused(ReportError.REPORT_REPLAYED),
            refused(ReportError.VDAF_VERIFY_ERROR),
            refused(ReportError.REPORT_REPLAYED),
        ]
        counts = await pair.status(Role.HELPER)
        assert counts["rejected_by_cause"] == {"proof": 1, "token-spent": 2}
        assert (counts["aggregated"], counts["rejected"], counts["distinct_nullifiers"]) == (1, 3, 1)


async def test_only_new_reports_of_a_job_add_to_the_batch(tmp_path: Path) -> None:
    reports = AT_B.reports(21)
    sent = [reports.valid(at) for at in (0, 1, 2, 3)]
    async with pair_of(tmp_path, AT_B) as pair:
        await post_job(pair, job_of(sent[:2], AT_B, BATCH))
        answer = await post_job(pair, job_of([*sent[:0:-1], reports.bad_proof(1)], AT_B, BATCH))
        replay, proof = refused(ReportError.REPORT_REPLAYED), refused(ReportError.VDAF_VERIFY_ERROR)
        assert answers(answer) == [CONTINUE, CONTINUE, replay, proof]
        released = await post_share(pair, share_request(sent, AT_B, BATCH))
        assert released.status == 201, released.body
        late = await post_job(pair, job_of([reports.valid(1), reports.bad_proof(1), sent[0]], AT_B, BATCH))
        assert answers(late) == [refused(ReportError.BATCH_COLLECTED), proof, replay]
        counts = await pair.status(Role.HELPER)
        assert counts["rejected_by_cause"] == {"batch-collected": 1, "proof": 2}
        assert counts["aggregated"] == counts["distinct_nullifiers"] == 4


async def test_jobs_beyond_the_memory_budget_are_told_to_come_back(tmp_path: Path) -> None:
    reports = KIT.reports(22)
    jobs = [job_of([reports.valid(1) for _ in range(4)]) for _ in range(3)]
    pair = pair_of(tmp_path)
    pair.settings[Role.HELPER]["max_in_flight"] = len(jobs[0].encode()) + 300
    async with pair:
        found = await asyncio.gather(*(post_job(pair, job) for job in jobs))
        busy = [answer for answer in found if answer.status == 503]
        assert sorted(answer.status for answer in found) == [201, 503, 503]
        for answer in busy:
            assert json.loads(answer.body)["type"] == "urn:tacit:problem:busy"
            assert 1 <= int(answer.headers["retry-after"]) <= 10
        for job in jobs:
            assert answers(await post_job(pair, job)) == [CONTINUE] * 4


async def test_job_larger_than_the_memory_budget_runs_alone(tmp_path: Path) -> None:
    job = job_of([KIT.reports(23).valid(1)])
    pair = pair_of(tmp_path)
    pair.settings[Role.HELPER]["max_in_flight"] = 100
    async with pair:
        assert answers(await post_job(pair, job)) == [CONTINUE]


async def test_large_job_goes_through_the_threads_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def prepare(party: Party, reports: Sequence[ReportSlices], *rest: Any) -> HelperJob:
        sizes.append(len(reports))
        return prepare_helper(party, reports, *rest)

    monkeypatch.setattr(service, "prepare_helper", prepare)
    monkeypatch.setattr(service, "chunk_size", lambda task: 4)
    reports = KIT.reports(24)
    sent = [reports.valid(at % 4) if at % 3 else reports.bad_proof(1) for at in range(10)]
    async with pair_of(tmp_path) as pair:
        found = answers(await post_job(pair, job_of(sent)))
        assert found == [CONTINUE if at % 3 else refused(ReportError.VDAF_VERIFY_ERROR) for at in range(10)]
        assert sizes == [4, 4, 2]


async def test_helper_checks_tokens_and_extensions_of_its_own_share(tmp_path: Path) -> None:
    reports = KIT.reports(5)
    only = [Role.HELPER]
    sent = [
        reports.without_token(1, roles=only),
        reports.unknown_extension(1, roles=only),
        reports.duplicated_extension(1, roles=only),
        reports.truncated_share(1, roles=only),
        reports.trailing_bytes(1, roles=only),
        reports.moved_token(1, reports.token(), thief=Role.LEADER),
    ]
    async with pair_of(tmp_path) as pair:
        answer = await post_job(pair, job_of(sent))
        assert answers(answer) == [refused(ReportError.INVALID_MESSAGE)] * 6


async def test_share_under_another_recipe_does_not_open(tmp_path: Path) -> None:
    other = make_task_kit(min_batch_size=1)
    report = other.reports(6).valid(1)
    request = job_of([report], other)
    async with pair_of(tmp_path) as pair:
        assert answers(await post_job(pair, request)) == [refused(ReportError.HPKE_DECRYPT_ERROR)]


async def test_report_time_is_checked_on_the_helpers_clock(tmp_path: Path) -> None:
    reports = KIT.reports(7)
    early = reports.valid(1, time=KIT.task.interval.start + 50)
    request = job_of([early])
    async with pair_of(tmp_path) as pair:
        assert answers(await post_job(pair, request)) == [refused(ReportError.REPORT_TOO_EARLY)]
        await pair.end_interval()
        later = await post_job(pair, job_of([early, reports.valid(1)]))
        assert answers(later) == [CONTINUE, CONTINUE]


async def test_altered_leader_message_is_refused(tmp_path: Path) -> None:
    request = job_of([KIT.reports(8).valid(1)])
    (init,) = request.verify_inits
    flipped = bytes([*init.payload[:-1], init.payload[-1] ^ 1])
    altered = dataclasses.replace(request, verify_inits=(dataclasses.replace(init, payload=flipped),))
    async with pair_of(tmp_path) as pair:
        assert answers(await post_job(pair, altered)) == [refused(ReportError.VDAF_VERIFY_ERROR)]


BATCH_EXTENSION = AggregationJobExtension.leader_selected_batch_id(BATCH)


@pytest.mark.parametrize(
    ("kit", "changes", "expected"),
    [
        (KIT, {"extensions": (AggregationJobExtension(9, b""),)}, "unsupportedExtension"),
        (KIT, {"extensions": (BATCH_EXTENSION, BATCH_EXTENSION)}, "invalidMessage"),
        (KIT, {"extensions": (BATCH_EXTENSION,)}, "invalidMessage"),
        (KIT, {"agg_param": b"x"}, "invalidAggregationParameter"),
        (KIT, {"verification_key_id": 1}, "invalidMessage"),
        (KIT, {"verify_inits": ()}, "invalidMessage"),
        (AT_B, {"extensions": ()}, "invalidMessage"),
        (AT_B, {"extensions": (AggregationJobExtension(1, b"short"),)}, "invalidMessage"),
    ],
)
async def test_job_that_does_not_fit_the_task_is_refused_as_a_whole(
    tmp_path: Path, kit: TaskKit, changes: dict[str, Any], expected: str
) -> None:
    batch_id = BATCH if kit is AT_B else None
    request = dataclasses.replace(job_of([kit.reports(9).valid(1)], kit, batch_id), **changes)
    async with pair_of(tmp_path, kit) as pair:
        answer = await post_job(pair, request)
        assert (answer.status, problem(answer)) == (400, expected)
        assert json.loads(answer.body)["taskid"] == kit.task.task_id_text


async def test_in_dap_19_a_job_under_an_unknown_key_is_refused_report_by_report_and_may_come_again(
    tmp_path: Path,
) -> None:
    kit = make_task_kit(version=DAP_19)
    reports = kit.reports(9)
    request = job_of([reports.valid(1), reports.valid(2)], kit)
    async with pair_of(tmp_path, kit) as pair:
        answer = await post_job(pair, dataclasses.replace(request, verification_key_id=1))
        ids = [init.report_share.report_metadata.report_id for init in request.verify_inits]
        assert answer.body == b"".join(report_id + bytes((VerifyRespType.REJECT, 9)) for report_id in ids)
        again = AggregationJobResp.decode((await post_job(pair, request)).body)
        assert {one.verify_resp_type for one in again.verify_resps} == {VerifyRespType.CONTINUE}


async def test_report_that_occurs_twice_in_a_job_is_refused(tmp_path: Path) -> None:
    request = job_of([KIT.reports(10).valid(1)])
    doubled = dataclasses.replace(request, verify_inits=request.verify_inits * 2)
    async with pair_of(tmp_path) as pair:
        assert problem(await post_job(pair, doubled)) == "invalidMessage"


async def test_malformed_and_foreign_jobs_are_refused(tmp_path: Path) -> None:
    request = job_of([KIT.reports(11).valid(1)])
    async with pair_of(tmp_path) as pair:
        assert problem(await post_job(pair, request.encode() + b"\x00")) == "invalidMessage"
        url = f"http://127.0.0.1:8082/tasks/{b64url(bytes(32))}/aggregation_jobs"
        headers = {
            "Authorization": f"Bearer {PEER_TOKEN}",
            "Content-Type": media_types.dap("aggregation-job-init-req"),
        }
        answer = await pair.inner.request("POST", url, headers=headers, body=request.encode())
        assert (answer.status, problem(answer)) == (404, "unrecognizedTask")


async def test_every_resource_needs_the_leaders_credential(tmp_path: Path) -> None:
    unknown = b64url(bytes(16))
    resources = [
        ("POST", "/aggregation_jobs", "aggregation-job-init-req"),
        ("POST", f"/aggregation_jobs/{unknown}", "aggregation-job-continue-req"),
        ("GET", f"/aggregation_jobs/{unknown}?step=0", None),
        ("DELETE", f"/aggregation_jobs/{unknown}", None),
        ("POST", "/aggregate_shares", "aggregate-share-req"),
        ("GET", f"/aggregate_shares/{unknown}", None),
        ("DELETE", f"/aggregate_shares/{unknown}", None),
    ]
    async with pair_of(tmp_path) as pair:
        for method, path, message in resources:
            for token in (None, "wrong", COLLECTOR_TOKEN, OPERATOR_TOKEN):
                answer = await pair.send(
                    Role.HELPER, method, path, token=token, message=message, body=b"" if method == "GET" else b"x"
                )
                assert answer.status == 401, (method, path, token)


async def test_steps_other_than_the_first_are_refused(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await post_job(pair, job_of([KIT.reports(12).valid(1)]))
        path = answer.headers["location"].partition(KIT.task.task_id_text)[2].partition("?")[0]

        async def ask(method: str, target: str, body: bytes = b"") -> tuple[int, str]:
            found = await pair.send(
                Role.HELPER, method, target, token=PEER_TOKEN, message="aggregation-job-continue-req", body=body
            )
            return found.status, problem(found)

        unknown = f"/aggregation_jobs/{b64url(bytes(16))}"
        assert await ask("GET", path) == (400, "invalidMessage")
        assert await ask("GET", f"{path}?step=x") == (400, "invalidMessage")
        assert await ask("GET", f"{path}?step=1") == (400, "stepMismatch")
        assert await ask("GET", f"{path}?step={'9' * 5000}") == (400, "stepMismatch")
        assert await ask("GET", f"{unknown}?step=0") == (404, "unrecognizedAggregationJob")
        assert await ask("GET", "/aggregation_jobs/x?step=0") == (404, "unrecognizedAggregationJob")
        step = {n: AggregationJobContinueReq(n, ()).encode() for n in (0, 1)}
        assert await ask("POST", path, step[0]) == (400, "invalidMessage")
        assert await ask("POST", path, step[1]) == (400, "stepMismatch")
        assert await ask("POST", path, b"x") == (400, "invalidMessage")
        assert await ask("POST", unknown, step[1]) == (404, "unrecognizedAggregationJob")
        assert await ask("DELETE", unknown) == (404, "unrecognizedAggregationJob")


async def test_deleted_job_is_forgotten_but_its_reports_are_not(tmp_path: Path) -> None:
    request = job_of([KIT.reports(13).valid(1)])
    async with pair_of(tmp_path) as pair:
        answer = await post_job(pair, request)
        path = answer.headers["location"].partition(KIT.task.task_id_text)[2].partition("?")[0]
        assert (await pair.send(Role.HELPER, "DELETE", path, token=PEER_TOKEN)).status == 200
        gone = await pair.send(Role.HELPER, "GET", f"{path}?step=0", token=PEER_TOKEN)
        assert problem(gone) == "unrecognizedAggregationJob"
        assert answers(await post_job(pair, request)) == [refused(ReportError.REPORT_REPLAYED)]


async def test_a_status_page_reads_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair_of(tmp_path) as pair:
        monkeypatch.setattr(OutcomesTx, "accepted_count", None)
        for party in (Role.LEADER, Role.HELPER):
            assert (await pair.status(party))["distinct_nullifiers"] == 0


async def test_a_malformed_request_of_an_aggregate_share_begins_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_of(tmp_path) as pair:

        def transaction(*_: Any, **__: Any) -> None:
            raise AssertionError("a transaction began")

        monkeypatch.setattr(HelperStore, "transaction", transaction)
        answer = await post_share(pair, b"x" * 1000)
        assert (answer.status, problem(answer)) == (400, "invalidMessage")


async def test_aggregate_share_is_given_once_and_then_always_the_same(tmp_path: Path) -> None:
    reports = KIT.reports(14)
    sent = [reports.valid(1) for _ in range(10)]
    async with pair_of(tmp_path, storage="file") as pair:
        await post_job(pair, job_of(sent))
        await pair.end_interval()
        first = await post_share(pair, share_request(sent))
        assert first.status == 201
        AggregateShare.decode(first.body)
        await pair.start(Role.HELPER)
        again = await post_share(pair, share_request(sent))
        path = first.headers["location"].partition(KIT.task.task_id_text)[2]
        shown = await pair.send(Role.HELPER, "GET", path, token=PEER_TOKEN)
        assert first.body == again.body == shown.body
        other = await post_share(pair, share_request(sent[:9]))
        assert problem(other) == "batchOverlap"
        assert (await pair.send(Role.HELPER, "DELETE", path, token=PEER_TOKEN)).status == 200
        assert (await pair.send(Role.HELPER, "DELETE", path, token=PEER_TOKEN)).status == 404
        assert (await pair.send(Role.HELPER, "GET", path, token=PEER_TOKEN)).status == 404
        assert problem(await post_share(pair, share_request(sent))) == "batchOverlap"


async def test_report_for_a_released_batch_is_refused(tmp_path: Path) -> None:
    reports = KIT.reports(15)
    sent = [reports.valid(1) for _ in range(10)]
    async with pair_of(tmp_path) as pair:
        await post_job(pair, job_of(sent))
        await pair.end_interval()
        await post_share(pair, share_request(sent))
        late = await post_job(pair, job_of([reports.valid(1)]))
        assert answers(late) == [refused(ReportError.BATCH_COLLECTED)]


async def test_helper_counts_the_minimum_itself(tmp_path: Path) -> None:
    reports = KIT.reports(16)
    token = reports.token()
    sent = [reports.valid(1) for _ in range(8)] + [reports.valid(1, token=token) for _ in range(4)]
    async with pair_of(tmp_path) as pair:
        await post_job(pair, job_of(sent))
        await pair.end_interval()
        for claimed in (sent, sent[:9], sent[:10]):
            assert problem(await post_share(pair, share_request(claimed))) == "invalidBatchSize"


async def test_leader_and_helper_must_agree_on_count_and_checksum(tmp_path: Path) -> None:
    reports = KIT.reports(17)
    sent = [reports.valid(1) for _ in range(11)]
    async with pair_of(tmp_path) as pair:
        await post_job(pair, job_of(sent))
        await pair.end_interval()
        assert problem(await post_share(pair, share_request(sent[:10]))) == "batchMismatch"
        changed = share_request(sent, checksum=bytes(32))
        assert problem(await post_share(pair, changed)) == "batchMismatch"
        assert (await post_share(pair, share_request(sent))).status == 201


async def test_batch_is_not_released_before_the_helpers_own_clock_says_so(tmp_path: Path) -> None:
    reports = KIT.reports(18)
    sent = [reports.valid(1) for _ in range(10)]
    async with pair_of(tmp_path) as pair:
        await post_job(pair, job_of(sent))
        early = await post_share(pair, share_request(sent))
        assert (early.status, problem(early)) == (503, "urn:tacit:problem:interval-open")
        assert early.headers["retry-after"] == "60"
        await pair.end_interval()
        assert (await post_share(pair, share_request(sent))).status == 201


async def test_helper_refuses_more_than_twice_the_expected_contributions(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=3)
    reports = kit.reports(19)
    sent = [reports.valid(1) for _ in range(7)]
    async with pair_of(tmp_path, kit) as pair:
        await post_job(pair, job_of(sent, kit))
        await pair.end_interval()
        answer = await post_share(pair, share_request(sent, kit))
        assert (answer.status, problem(answer)) == (403, "urn:tacit:refusal:rate-bound")


WHOLE = Query.time_interval(KIT.task.interval)
PART = Interval(KIT.task.interval.start, 1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batch_selector": BatchSelector.leader_selected(BATCH)}, "invalidMessage"),
        ({"collection_job_req": CollectionJobReq(Query.leader_selected())}, "invalidMessage"),
        ({"batch_selector": BatchSelector.time_interval(PART)}, "batchInvalid"),
        ({"collection_job_req": CollectionJobReq(Query.time_interval(PART))}, "batchInvalid"),
        ({"collection_job_req": CollectionJobReq(WHOLE, b"x")}, "invalidMessage"),
        (
            {"collection_job_req": CollectionJobReq(WHOLE, b"", (CollectionJobExtension(3, b""),))},
            "unsupportedExtension",
        ),
        (
            {"collection_job_req": CollectionJobReq(WHOLE, b"", (CollectionJobExtension(3, b""),) * 2)},
            "invalidExtension",
        ),
    ],
)
async def test_aggregate_share_request_that_does_not_fit_the_task_is_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    async with pair_of(tmp_path) as pair:
        await pair.end_interval()
        answer = await post_share(pair, share_request([], **changes))
        assert (answer.status, problem(answer)) == (400, expected)
        assert problem(await post_share(pair, b"junk")) == "invalidMessage"


async def test_leader_selected_batches_are_released_one_by_one(tmp_path: Path) -> None:
    reports = AT_B.reports(20)
    first, second = [[reports.valid(value) for _ in range(3)] for value in (1, 2)]
    other = bytes(32)
    async with pair_of(tmp_path, AT_B) as pair:
        await post_job(pair, job_of(first, AT_B, BATCH))
        await post_job(pair, job_of(second, AT_B, other))
        assert (await post_share(pair, share_request(first, AT_B, BATCH))).status == 201
        assert answers(await post_job(pair, job_of([reports.valid(1)], AT_B, BATCH))) == [
            refused(ReportError.BATCH_COLLECTED)
        ]
        assert problem(await post_share(pair, share_request(first, AT_B, other))) == "batchMismatch"
        assert (await post_share(pair, share_request(second, AT_B, other))).status == 201
        unknown = await post_share(pair, share_request(second, AT_B, bytes([9]) * 32))
        assert problem(unknown) == "invalidBatchSize"


async def test_job_with_more_reports_than_allowed_is_refused(tmp_path: Path) -> None:
    reports = KIT.reports(21)
    pair = pair_of(tmp_path)
    pair.settings[Role.HELPER]["max_job"] = 2
    async with pair:
        answer = await post_job(pair, job_of([reports.valid(1) for _ in range(3)]))
        assert problem(answer) == "invalidMessage"


async def test_hpke_config_is_served(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        answer = await pair.get(Role.HELPER, "/hpke_config")
        assert HpkeConfigList.decode(answer.body).configs == (KIT.task.helper_hpke_config,)
