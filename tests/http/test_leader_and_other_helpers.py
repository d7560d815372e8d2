"""The Leader with Helpers that are slow, mistaken or hostile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.network import FaultyTransport
from infra.lab.kit.reports import make_task_kit
from services.leader.app import STORE
from services.leader.records import StoredReport
from services.leader.store import LeaderTx
from tacit import media_types
from tacit.errors import DAP_ERROR_PREFIX, UsageError
from tacit.messages import AggregationJobResp, Role, VerifyResp
from tacit.messages.slices import ReportSlices
from tacit.ports import HttpResponse
from tacit.roles import jobs, opening
from tacit.roles.aggregator import Party
from tests.http.aggregator_pair import both_aggregators

KIT = make_task_kit(min_batch_size=3)
JOBS = f"{KIT.task.configuration.helper_aggregator_endpoint}/tasks/{KIT.task.task_id_text}/aggregation_jobs"


class OddHelper(FaultyTransport):
    """The way to the Helper, on which answers change: ``jobs`` and ``shares`` map the Helper's answer to another."""

    def __init__(self, pair: AggregatorPair) -> None:
        super().__init__(pair.inner, clock=pair.clock)
        self.jobs: Any = lambda answer: answer
        self.shares: Any = lambda answer: answer
        self.sent: list[tuple[str, str]] = []

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((method, url))
        answer = await super().request(method, url, headers=headers, body=body)
        change = self.jobs if "aggregation_jobs" in url else self.shares
        changed: HttpResponse = change(answer)
        return changed


def pair_of(tmp_path: Path, **options: Any) -> tuple[AggregatorPair, OddHelper]:
    pair = both_aggregators(KIT, tmp_path, **options)
    odd = OddHelper(pair)
    pair.network = odd
    return pair, odd


def with_body(answer: HttpResponse, body: bytes, status: int | None = None) -> HttpResponse:
    return HttpResponse(status or answer.status, answer.headers, body)


def problem_answer(kind: str, status: int = 400) -> HttpResponse:
    body = json.dumps({"type": kind, "status": status, "title": "t", "detail": "d"}).encode()
    return HttpResponse(status, {"content-type": media_types.PROBLEM_JSON}, body)


def reversed_order(answer: HttpResponse) -> HttpResponse:
    return with_body(answer, AggregationJobResp(AggregationJobResp.decode(answer.body).verify_resps[::-1]).encode())


def one_missing(answer: HttpResponse) -> HttpResponse:
    return with_body(answer, AggregationJobResp(AggregationJobResp.decode(answer.body).verify_resps[1:]).encode())


def all_finished(answer: HttpResponse) -> HttpResponse:
    found = AggregationJobResp.decode(answer.body).verify_resps
    return with_body(answer, AggregationJobResp(tuple(VerifyResp.finished(r.report_id) for r in found)).encode())


def garbage(answer: HttpResponse) -> HttpResponse:
    return with_body(answer, b"\x01")


@pytest.mark.parametrize("change", [reversed_order, one_missing, all_finished])
async def test_answer_that_does_not_fit_abandons_the_job(tmp_path: Path, change: Any) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(1)
        await pair.upload(reports.valid(1) for _ in range(3))
        odd.jobs = lambda answer: change(answer) if answer.status == 201 else answer
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert counts["jobs"] == {"abandoned": 1}
        assert counts["rejected_by_cause"] == {"job-abandoned": 3}
        assert [method for method, _ in odd.sent] == ["POST", "DELETE"]
        await pair.end_interval()
        assert json.loads((await pair.collect()).body)["type"] == DAP_ERROR_PREFIX + "invalidBatchSize"


async def test_garbled_answer_costs_a_retry_and_not_the_batch(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(22)
        await pair.upload(reports.valid(1) for _ in range(3))
        odd.jobs = garbage
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"sent": 1}
        odd.jobs = lambda answer: answer
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 3, 0, 0)
        assert len({exchange.body for exchange in odd.exchanges if "aggregation_jobs" in exchange.url}) == 1


async def test_helper_that_works_asynchronously_is_asked_at_the_location(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(2)
        await pair.upload(reports.valid(1) for _ in range(3))
        odd.jobs = lambda answer: with_body(answer, b"") if answer.status == 201 else answer
        await pair.work()
        await pair.clock.advance(61)
        await pair.work()
        assert [method for method, _ in odd.sent] == ["POST", "GET"]
        assert odd.sent[1][1].startswith(JOBS + "/")
        assert odd.sent[1][1].endswith("?step=0")
        assert (await pair.status(Role.LEADER))["aggregated"] == 3


@pytest.mark.parametrize("location", ["https://elsewhere.example/x", "/tasks", "//evil.example/tasks"])
async def test_credentials_go_nowhere_else(tmp_path: Path, location: str) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        await pair.upload([KIT.reports(3).valid(1)])
        odd.jobs = lambda answer: HttpResponse(201, {"location": location}, b"")
        for _ in range(3):
            await pair.work()
            await pair.clock.advance(61)
        odd.jobs = lambda answer: answer
        await pair.work()
        assert {url for _, url in odd.sent} == {JOBS}
        assert (await pair.status(Role.LEADER))["aggregated"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        problem_answer(DAP_ERROR_PREFIX + "unrecognizedTask", 404),
        problem_answer(DAP_ERROR_PREFIX + "invalidMessage"),
        HttpResponse(500, {}, b""),
        HttpResponse(401, {}, b""),
    ],
)
async def test_refused_job_is_never_formed_anew(tmp_path: Path, answer: HttpResponse) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(4)
        await pair.upload(reports.valid(1) for _ in range(3))
        odd.jobs = lambda _answer: answer
        for _ in range(3):
            await pair.work()
            await pair.clock.advance(61)
        odd.jobs = lambda found: found
        await pair.work()
        assert len({exchange.body for exchange in odd.exchanges}) == 1
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (3, {"done": 1})


@pytest.mark.parametrize("kind", ["batchMismatch", "invalidBatchSize", "batchOverlap"])
async def test_helpers_refusal_of_its_share_reaches_the_collector(tmp_path: Path, kind: str) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(5)
        await pair.upload(reports.valid(1) for _ in range(3))
        await pair.end_interval()
        odd.shares = lambda _answer: problem_answer(DAP_ERROR_PREFIX + kind)
        answer = await pair.collect()
        document = json.loads(answer.body)
        assert (answer.status, document["type"]) == (400, DAP_ERROR_PREFIX + kind)
        assert document["detail"] == "helper: d"
        again = await pair.create_collection()
        assert json.loads(again.body)["type"] == DAP_ERROR_PREFIX + kind


@pytest.mark.parametrize(
    "answer",
    [
        problem_answer(DAP_ERROR_PREFIX + "unrecognizedTask", 404),
        problem_answer("about:blank", 404),
        HttpResponse(400, {}, b"not json"),
        HttpResponse(400, {}, b"[]"),
        HttpResponse(503, {}, b""),
        HttpResponse(200, {}, b""),
        HttpResponse(200, {}, b"garbage"),
    ],
)
async def test_helpers_share_is_asked_for_until_it_comes(tmp_path: Path, answer: HttpResponse) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(6)
        await pair.upload(reports.valid(1) for _ in range(3))
        await pair.end_interval()
        odd.shares = lambda _answer: answer
        created = await pair.create_collection()
        await pair.work()
        assert (await pair.poll(created)).body == b""
        odd.shares = lambda found: found
        await pair.clock.advance(61)
        await pair.work()
        assert pair.opened(await pair.poll(created)).values == (0, 3, 0, 0)


async def test_dishonest_helper_that_counts_a_report_twice_changes_no_leader_count(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(7)
        await pair.upload(reports.valid(1) for _ in range(2))
        await pair.end_interval()
        answer = await pair.collect()
        assert json.loads(answer.body)["type"] == DAP_ERROR_PREFIX + "invalidBatchSize"
        assert not [url for _, url in odd.sent if "aggregate_shares" in url]


async def test_error_of_our_own_costs_one_report_and_not_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, _ = pair_of(tmp_path)
    reports = KIT.reports(8)
    sent = [reports.valid(1) for _ in range(5)]
    ids = [report.report_metadata.report_id for report in sent]
    real = opening.open_reports

    def open_reports(party: Party, reports: Sequence[ReportSlices], *rest: Any) -> Any:
        fault = ids[0] if party.role is Role.LEADER else ids[1]
        if any(report.report_id == fault for report in reports):
            raise ArithmeticError
        return real(party, reports, *rest)

    monkeypatch.setattr(jobs, "open_reports", open_reports)
    async with pair:
        await pair.upload(sent)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert counts["aggregated"] == 3
        assert counts["rejected_by_cause"] == {"helper-report-dropped": 1, "internal": 1}


@pytest.mark.parametrize("missing", [1, 3])
async def test_reports_whose_bytes_cannot_be_read_now_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    pair, _ = pair_of(tmp_path)
    real, calls = LeaderTx.stored, []

    async def stored(tx: LeaderTx, seqs: Sequence[int]) -> list[StoredReport]:
        calls.append(len(seqs))
        found = await real(tx, seqs)
        return found[missing:] if len(calls) == 1 else found

    monkeypatch.setattr(LeaderTx, "stored", stored)
    reports = KIT.reports(12)
    async with pair:
        await pair.upload([reports.valid(1) for _ in range(3)])
        await pair.work()
        for _ in range(3):
            await pair.clock.advance(120)
            await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["pending"], counts["rejected"]) == (3, 0, 0)
        assert calls[0] == 3


async def test_leader_adds_nothing_to_a_batch_that_was_released(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path)
    async with pair:
        await pair.upload([KIT.reports(9).valid(1)])
        async with pair.apps[Role.LEADER][STORE].transaction() as tx:
            await tx.release(KIT.task.task_id, KIT.task.interval.encode())
        await pair.work()
        assert (await pair.status(Role.LEADER))["rejected_by_cause"] == {"batch-collected": 1}
        assert odd.sent == []


async def test_no_more_jobs_are_formed_while_many_are_unanswered(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path, limits={"job_size": 1, "max_jobs": 3})
    async with pair:
        reports = KIT.reports(10)
        await pair.upload(reports.valid(1) for _ in range(6))
        odd.partition(JOBS)
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"sent": 3}
        odd.heal()
        await pair.clock.advance(61)
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"done": 6}


async def test_few_reports_wait_for_company_but_not_for_ever(tmp_path: Path) -> None:
    pair, odd = pair_of(tmp_path, limits={"min_job_size": 4, "max_job_delay": 30.0})
    async with pair:
        reports = KIT.reports(11)
        await pair.upload(reports.valid(1) for _ in range(3))
        assert await pair.work() == 0
        await pair.upload([reports.valid(1)])
        assert await pair.work() > 0
        await pair.upload([reports.valid(1)])
        assert await pair.work() == 0
        await pair.clock.advance(30)
        assert await pair.work() > 0
        assert (await pair.status(Role.LEADER))["aggregated"] == 5
        assert len(odd.sent) == 2


async def test_address_that_may_not_be_used_holds_up_neither_jobs_nor_collections(tmp_path: Path) -> None:
    def forbidden(_answer: HttpResponse) -> HttpResponse:
        raise UsageError("plain http:// is allowed on loopback only")

    pair, odd = pair_of(tmp_path)
    async with pair:
        reports = KIT.reports(12)
        await pair.upload(reports.valid(1) for _ in range(3))
        odd.jobs = odd.shares = forbidden
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"sent": 1}
        odd.jobs = lambda answer: answer
        await pair.end_interval()
        created = await pair.create_collection()
        await pair.clock.advance(61)
        await pair.work()
        assert (await pair.poll(created)).body == b""
        odd.shares = lambda answer: answer
        await pair.clock.advance(61)
        await pair.work()
        assert pair.opened(await pair.poll(created)).values == (0, 3, 0, 0)
