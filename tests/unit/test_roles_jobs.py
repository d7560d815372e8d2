"""Whole jobs against the functions for one report: the same verdicts, the same bytes, with and without kernels."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.aggregators import party_of
from infra.lab.kit.reports import TaskKit, make_task_kit
from tacit.dap_errors import ReportError
from tacit.errors import CryptoError, DecodeError
from tacit.hpke import KeyPair, Suite
from tacit.messages import AggregationJobResp, Extension, Report, Role, VerifyInit, VerifyResp
from tacit.messages.slices import ReportSlices, slice_job
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.crypto import OPENSSL, Sealed
from tacit.roles.helper import check_job
from tacit.roles.jobs import (
    HelperJob,
    LeaderJob,
    encode_request,
    finish_leader,
    prepare_helper,
    prepare_leader,
)
from tacit.roles.leader import JobAbandonedError, match_response
from tacit.roles.rows import Rows
from tacit.task import BatchClose
from tacit.tokens.binding import TOKEN_EXTENSION_TYPE
from tacit.tokens.slots import TokenVerifier
from tacit.vdaf.native.batch import MIN_REDO
from tacit.vdaf.native.kernels import REDO, Kernels
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec
from tests.kit.oracles import helper, leader
from tests.kit.oracles.aggregator import Accepted, fold
from tests.kit.oracles.helper import Verified
from tests.kit.oracles.leader import Prepared

VDAFS: dict[str, tuple[Prio3[Any], Any]] = {
    "count": (Prio3Count(2), 1),
    "sum": (Prio3Sum(2, 10), 7),
    "sumvec": (Prio3SumVec(2, 3, 7, 2), [1, 7, 0]),
    "histogram": (Prio3Histogram(2, 4, 2), 2),
    "multihot": (Prio3MultihotCountVec(2, 4, 2, 2), [True, False, True, False]),
}
PATHS = ("native", "off")
BATCH_ID = bytes(range(32))


@cache
def kit_of(name: str) -> TaskKit:
    return make_task_kit(VDAFS[name][0], seed=len(name))


def party(kit: TaskKit, role: Role, path: str) -> Party:
    made = party_of(kit, role)
    with pytest.MonkeyPatch.context() as patch:
        if path == "off":
            patch.setenv("TACIT_NATIVE", "off")
        assert (made.batch._kernels is not None) == (path == "native")
    return made


def bad_and_good(name: str) -> list[Report]:
    """One report of each kind that the two aggregators treat differently, and good ones between them."""
    kit, measurement = kit_of(name), VDAFS[name][1]
    make, start = kit.reports(7), kit.task.interval.start
    stolen = make.token()
    reports = [
        make.valid(measurement),
        make.bad_proof(measurement),
        make.moved_token(measurement, stolen, thief=Role.LEADER),
        make.valid(measurement, token=stolen),
        make.moved_token(measurement, make.token(), thief=Role.HELPER),
        make.wrong_slot(measurement),
        make.valid(measurement, time=start + 1),
        make.valid(measurement, time=start - 1),
        make.valid(measurement, time=start + 99),
        make.valid(measurement),
    ]
    for roles in ([Role.LEADER], [Role.HELPER]):
        reports += [
            make.truncated_share(measurement, roles=roles),
            make.trailing_bytes(measurement, roles=roles),
            make.unknown_extension(measurement, roles=roles),
            make.duplicated_extension(measurement, roles=roles),
            make.without_token(measurement, roles=roles),
        ]
    reports += [tampered for report in reports[:1] for tampered in _tampered(report)]
    return [*reports, make.valid(measurement)]


def _tampered(report: Report) -> list[Report]:
    """Copies with ids of their own whose outside was changed."""
    changed = []
    for name in ("leader_encrypted_input_share", "helper_encrypted_input_share"):
        sealed = getattr(report, name)
        for change in (
            {"config_id": 99},
            {"payload": bytes(len(sealed.payload))},
            {"payload": b"x"},
            {"payload": sealed.payload * 9},
            {"enc": sealed.enc[:-1]},
            {"enc": bytes(32)},
        ):
            changed.append(dataclasses.replace(report, **{name: dataclasses.replace(sealed, **change)}))
    metadata = report.report_metadata
    for public in ((Extension(1, b""),), (Extension(TOKEN_EXTENSION_TYPE, bytes(418)),)):
        outside = dataclasses.replace(metadata, public_extensions=public)
        changed.append(dataclasses.replace(report, report_metadata=outside))
    changed.append(dataclasses.replace(report, public_share=report.public_share + b"\0"))
    return [
        dataclasses.replace(
            copy, report_metadata=dataclasses.replace(copy.report_metadata, report_id=number.to_bytes(16, "big"))
        )
        for number, copy in enumerate(changed)
    ]


def now_of(kit: TaskKit) -> float:
    return kit.task.start_seconds + 61.0


def encoded(reports: Sequence[Report]) -> list[bytes]:
    return [report.encode() for report in reports]


class Exchange:
    """Reports of one kit through the single-report functions: what a job must come to."""

    def __init__(self, name: str) -> None:
        self.kit = kit_of(name)
        self.now = now_of(self.kit)
        self.reports = bad_and_good(name)
        lead, help_ = party(self.kit, Role.LEADER, "off"), party(self.kit, Role.HELPER, "off")
        first = [leader.prepare_report(lead, report, self.now) for report in self.reports]
        self.prepared = [outcome for outcome in first if isinstance(outcome, Prepared)]
        self.leader_rejections = [outcome for outcome in first if isinstance(outcome, Rejection)]
        self.answers = [helper.prepare_report(help_, one.verify_init, self.now) for one in self.prepared]
        self.response = AggregationJobResp(tuple(map(helper.respond, self.answers))).encode()
        resps = AggregationJobResp.decode(self.response).verify_resps
        self.finished = [leader.finish_report(lead, one, resp) for one, resp in zip(self.prepared, resps, strict=True)]


@cache
def exchange(name: str) -> Exchange:
    return Exchange(name)


def listed(kit: TaskKit, rows: Rows) -> list[Accepted]:
    """Rows as the single-report functions give them."""
    vdaf = kit.task.vdaf
    size = vdaf.field.ENCODED_SIZE * vdaf.flp.OUTPUT_LEN
    assert len(rows.out_shares) == size * len(rows)
    shares = [vdaf.field.decode_vec(rows.out_shares[at * size : (at + 1) * size]) for at in range(len(rows))]
    return [Accepted(*row) for row in zip(rows.report_ids, rows.times, rows.nullifiers, shares, strict=True)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", VDAFS)
def test_a_mixed_job_ends_as_its_reports_do_one_by_one(name: str, path: str) -> None:
    expected = exchange(name)
    kit, now = expected.kit, expected.now
    lead, help_ = party(kit, Role.LEADER, path), party(kit, Role.HELPER, path)
    job, rejections = prepare_leader(lead, encoded(expected.reports), now)
    assert rejections == expected.leader_rejections
    assert {rejection.cause for rejection in rejections} >= {
        "hpke-config",
        "hpke-decrypt",
        "token-challenge",
        "too-early",
    }
    assert job.report_ids == [one.report_id for one in expected.prepared]
    assert job.rows.times == [one.time for one in expected.prepared]
    assert job.rows.nullifiers == [one.nullifier for one in expected.prepared]
    assert job.verify_inits == [one.verify_init.encode() for one in expected.prepared]
    body = encode_request(kit.task, job, None)
    assert body == leader.init_request(kit.task, expected.prepared, None).encode()

    request = slice_job(body)
    assert check_job(kit.task, request) is None
    answered = prepare_helper(help_, request.reports, now)
    verified = [answer for answer in expected.answers if isinstance(answer, Verified)]
    assert answered.report_ids == job.report_ids
    assert answered.rejections == [answer for answer in expected.answers if isinstance(answer, Rejection)]
    assert {rejection.cause for rejection in answered.rejections} >= {"proof", "token-binding", "share-malformed"}
    assert listed(kit, answered.rows) == [answer.accepted for answer in verified]
    assert answered.outbounds == [answer.outbound for answer in verified]
    assert answered.respond({}) == expected.response

    rows, rejections = finish_leader(job, expected.response)
    accepted = [one for one in expected.finished if isinstance(one, Accepted)]
    assert len(accepted) == 5
    assert listed(kit, rows) == accepted
    assert rejections == [one for one in expected.finished if isinstance(one, Rejection)]
    assert rows.tallies(lead, None) == fold(kit.task, accepted, None)
    assert answered.rows.tallies(help_, None) == fold(kit.task, [answer.accepted for answer in verified], None)
    (tally,) = rows.tallies(lead, None).values()
    assert tally.first_time < tally.last_time


@pytest.mark.parametrize("path", PATHS)
def test_every_report_of_a_clean_job_counts(path: str) -> None:
    kit = kit_of("histogram")
    make, now = kit.reports(8), now_of(kit)
    token = make.token()
    reports = encoded([make.valid(at % 4, token=token) for at in range(9)])
    lead, help_ = party(kit, Role.LEADER, path), party(kit, Role.HELPER, path)
    job, rejections = prepare_leader(lead, reports, now)
    answered = prepare_helper(help_, slice_job(encode_request(kit.task, job, None)).reports, now)
    accepted, unfinished = finish_leader(job, answered.respond({}))
    assert (rejections, answered.rejections, unfinished) == ([], [], [])
    (bucket,) = accepted.tallies(lead, None)
    shares = [rows.tallies(p, None)[bucket].agg_share for rows, p in ((accepted, lead), (answered.rows, help_))]
    decoded = [kit.task.vdaf.decode_agg_share(share) for share in shares]
    assert kit.task.vdaf.unshard(None, decoded, 9) == [3, 2, 2, 2]


def test_a_job_without_good_reports_is_empty() -> None:
    kit = kit_of("histogram")
    lead = party(kit, Role.LEADER, "native")
    report = kit.reports(9).wrong_slot(1)
    for reports, causes in (([], []), ([report], ["token-challenge"])):
        job, rejections = prepare_leader(lead, encoded(reports), now_of(kit))
        assert (len(job), [rejection.cause for rejection in rejections]) == (0, causes)
        assert finish_leader(job, b"") == leader_outcome_of_nothing()
        assert job.rows.tallies(lead, None) == {}
    nothing = prepare_helper(party(kit, Role.HELPER, "native"), [], now_of(kit))
    assert (nothing.report_ids, nothing.respond({})) == ([], b"")


def leader_outcome_of_nothing() -> Any:
    return finish_leader(LeaderJob.joined([]), b"")


def test_a_leader_selected_job_counts_in_its_batch() -> None:
    kit = make_task_kit(batch_close=BatchClose.AT_B)
    make, lead = kit.reports(3), party(kit, Role.LEADER, "native")
    times = [kit.task.interval.start, kit.task.interval.start + 1]
    job, _ = prepare_leader(lead, encoded([make.valid(1, time=time) for time in times]), now_of(kit))
    request = slice_job(encode_request(kit.task, job, BATCH_ID))
    assert check_job(kit.task, request) == BATCH_ID
    tallies = job.rows.tallies(lead, BATCH_ID)
    assert list(tallies) == [BATCH_ID]
    assert (tallies[BATCH_ID].first_time, tallies[BATCH_ID].last_time) == tuple(times)
    assert job.rows.buckets(kit.task, BATCH_ID) == [BATCH_ID] * 2
    with pytest.raises(ValueError, match="batch id"):
        encode_request(kit.task, job, None)
    with pytest.raises(ValueError, match="batch id"):
        job.rows.tallies(lead, None)


@pytest.mark.parametrize("name", ["count", "histogram"])
def test_jobs_can_be_cut_joined_and_reordered(name: str) -> None:
    expected = exchange(name)
    lead = party(expected.kit, Role.LEADER, "native")
    whole, _ = prepare_leader(lead, encoded(expected.reports), expected.now)
    halves = [
        prepare_leader(lead, encoded(part), expected.now)[0] for part in (expected.reports[:9], expected.reports[9:])
    ]
    assert LeaderJob.joined(halves) == whole
    order = list(range(len(whole)))
    random.Random(1).shuffle(order)
    again = whole.keep(order)
    assert again.verify_inits == [whole.verify_inits[at] for at in order]
    assert finish_leader(again.keep([order.index(at) for at in range(len(order))]), expected.response) == finish_leader(
        whole, expected.response
    )
    assert again.keep([]) == LeaderJob.joined([])
    assert again.keep(range(len(order))) == again


@pytest.mark.parametrize("name", ["count", "histogram"])
def test_the_store_has_the_last_word_in_the_answer(name: str) -> None:
    expected = exchange(name)
    request = slice_job(leader.init_request(expected.kit.task, expected.prepared, None).encode())
    answered = prepare_helper(party(expected.kit, Role.HELPER, "native"), request.reports, expected.now)
    spent = answered.rows.report_ids[1]
    resps = AggregationJobResp.decode(answered.respond({spent: ReportError.REPORT_REPLAYED})).verify_resps
    before = AggregationJobResp.decode(expected.response).verify_resps
    changed = [resp for resp, old in zip(resps, before, strict=True) if resp != old]
    assert changed == [VerifyResp.rejected(spent, ReportError.REPORT_REPLAYED)]


def oracle_finish(expected: Exchange, response: bytes) -> Any:
    lead = party(expected.kit, Role.LEADER, "off")
    try:
        decoded = AggregationJobResp.decode(response)
        match_response([one.report_id for one in expected.prepared], decoded)
        ends = [
            leader.finish_report(lead, one, resp)
            for one, resp in zip(expected.prepared, decoded.verify_resps, strict=True)
        ]
    except (DecodeError, JobAbandonedError) as error:
        return type(error)
    return [end for end in ends if isinstance(end, Accepted)], [end for end in ends if isinstance(end, Rejection)]


@cache
def leader_job(name: str) -> LeaderJob:
    expected = exchange(name)
    return prepare_leader(party(expected.kit, Role.LEADER, "native"), encoded(expected.reports), expected.now)[0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_response_ends_a_job_as_it_ends_report_by_report(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["count", "histogram"]))
    expected = exchange(name)
    resps = list(AggregationJobResp.decode(expected.response).verify_resps)
    at = data.draw(st.integers(0, len(resps) - 1))
    report_id = resps[at].report_id
    other = data.draw(
        st.one_of(
            st.binary(min_size=1, max_size=40).map(lambda payload: VerifyResp.continued(report_id, payload)),
            st.sampled_from(ReportError).map(lambda code: VerifyResp.rejected(report_id, code)),
            st.just(VerifyResp.finished(report_id)),
            st.sampled_from(resps),
        )
    )
    resps[at : at + data.draw(st.integers(0, 2))] = [other]
    response = bytearray(AggregationJobResp(tuple(resps)).encode())
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(response) - 1))
        response[place] ^= data.draw(st.integers(1, 255))
    response_bytes = bytes(response[: data.draw(st.sampled_from([None, -1, 30]))])
    try:
        rows, rejections = finish_leader(leader_job(name), response_bytes)
        found: Any = (listed(expected.kit, rows), rejections)
    except (DecodeError, JobAbandonedError) as error:
        found = type(error)
    assert found == oracle_finish(expected, response_bytes)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_bytes_in_a_request_end_as_they_do_report_by_report(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["count", "histogram"]))
    expected = exchange(name)
    inits = [bytearray(one.verify_init.encode()) for one in expected.prepared[:4]]
    for _ in range(data.draw(st.integers(1, 3))):
        init = data.draw(st.sampled_from(inits))
        place = data.draw(st.one_of(st.integers(0, len(init) - 1), st.integers(len(init) - 60, len(init) - 1)))
        init[place] ^= data.draw(st.integers(1, 255))
    body = leader.init_request(expected.kit.task, [], None).encode() + b"".join(inits)
    try:
        reports = slice_job(body).reports
    except DecodeError:
        return
    pure = party(expected.kit, Role.HELPER, "off")
    singles = [helper.prepare_report(pure, read_again(report), expected.now) for report in reports]
    for path in PATHS:
        found = prepare_helper(party(expected.kit, Role.HELPER, path), reports, expected.now)
        assert found.rejections == [one for one in singles if isinstance(one, Rejection)]
        assert listed(expected.kit, found.rows) == [one.accepted for one in singles if isinstance(one, Verified)]


def read_again(report: ReportSlices) -> VerifyInit:
    """The report as the single-report function takes it."""
    sealed = bytes((report.config_id,)) + len(report.enc).to_bytes(2, "big") + report.enc
    sealed += len(report.payload).to_bytes(4, "big") + report.payload
    return VerifyInit.decode(report.head + sealed + len(report.tail).to_bytes(4, "big") + report.tail)


class Broken:
    """Cryptography with a fault of its own, which shows in every batch that holds one of ``poison``."""

    def __init__(self, poison: set[bytes], calls: list[int]) -> None:
        self.poison = poison
        self.calls = calls

    def open_all(
        self, key_pair: KeyPair, suite: Suite, info: bytes, sealed: Sequence[Sealed]
    ) -> Sequence[bytes | CryptoError]:
        self.calls.append(len(sealed))
        if any(enc in self.poison for enc, _, _ in sealed):
            raise ArithmeticError("a fault")
        return OPENSSL.open_all(key_pair, suite, info, sealed)

    def verify_tokens(self, verifier: TokenVerifier, tokens: Sequence[bytes]) -> Sequence[bool]:
        return OPENSSL.verify_tokens(verifier, tokens)


def test_states_are_made_again_in_other_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """More reports than one batch looks at twice: those that passed in two batches pass again in one."""
    kit = kit_of("histogram")
    make, lead, now = kit.reports(10), party(kit, Role.LEADER, "native"), now_of(kit)
    token = make.token()
    reports = encoded([make.valid(1, token=token) for _ in range(10)])
    run = Kernels.verify_init

    def flagged(*arguments: Any) -> Any:
        rows = run(*arguments)
        return dataclasses.replace(rows, flags=bytes([REDO]) * len(rows.flags))

    monkeypatch.setattr(Kernels, "verify_init", flagged)
    job = LeaderJob.joined([prepare_leader(lead, part, now)[0] for part in (reports[:5], reports[5:])])
    assert len(job) == 10
    assert len(prepare_leader(lead, reports, now)[0]) == MIN_REDO
    assert prepare_leader(lead, reports, now, again=True) == (job, [])


def test_states_are_made_again_under_a_clock_that_is_behind() -> None:
    """As of another process, or after the clock was set."""
    kit = kit_of("histogram")
    make, lead, now = kit.reports(11), party(kit, Role.LEADER, "native"), now_of(kit)
    reports = encoded([make.valid(1) for _ in range(3)])
    before = float(kit.task.start_seconds - 1)
    job, rejections = prepare_leader(lead, reports, now)
    assert (len(job), rejections) == (3, [])
    assert [one.cause for one in prepare_leader(lead, reports, before)[1]] == ["too-early"] * 3
    assert prepare_leader(lead, reports, before, again=True) == (job, [])


def test_an_error_of_our_own_costs_only_the_report_that_it_is_about() -> None:
    kit = kit_of("histogram")
    make, now = kit.reports(4), now_of(kit)
    token = make.token()
    reports = [make.valid(1, token=token) for _ in range(16)]
    lead, help_ = party(kit, Role.LEADER, "native"), party(kit, Role.HELPER, "native")
    calls: list[int] = []
    crypto = Broken({reports[5].leader_encrypted_input_share.enc}, calls)
    job, rejections = prepare_leader(lead, encoded(reports), now, crypto)
    ids = [report.report_metadata.report_id for report in reports]
    assert job.report_ids == ids[:5] + ids[6:]
    assert rejections == [Rejection(ids[5], ReportError.REPORT_DROPPED, "internal")]
    assert isinstance(rejections[0].error, ArithmeticError)
    assert len(calls) == 9
    broken_report = ids[3] + b"not a report"
    job, rejections = prepare_leader(lead, [*encoded(reports[:3]), broken_report], now)
    assert (job.report_ids, [rejection.report_id for rejection in rejections]) == (ids[:3], [ids[3]])

    request = slice_job(encode_request(kit.task, job, None))
    crypto = Broken({reports[0].helper_encrypted_input_share.enc}, [])
    answered = prepare_helper(help_, request.reports, now, crypto)
    assert answered.report_ids == ids[:3]
    assert answered.rows.report_ids == ids[1:3]
    assert answered.rejections == [Rejection(ids[0], ReportError.REPORT_DROPPED, "internal")]


def test_an_error_that_no_report_explains_is_passed_on() -> None:
    class Absent(Broken):
        def open_all(self, *_arguments: Any) -> Sequence[bytes | CryptoError]:
            raise LookupError("no device")

    kit = kit_of("count")
    with pytest.raises(LookupError, match="no device"):
        prepare_leader(party(kit, Role.LEADER, "native"), [], now_of(kit), Absent(set(), []))


def test_an_observer_sees_each_verified_share_once() -> None:
    expected = exchange("histogram")
    lead, help_ = party(expected.kit, Role.LEADER, "native"), party(expected.kit, Role.HELPER, "native")
    seen: list[tuple[bytes, bytes]] = []
    tell: Callable[[bytes, bytes], None] = lambda report_id, share: seen.append((report_id, share))  # noqa: E731
    job, _ = prepare_leader(lead, encoded(expected.reports), expected.now, seen=tell)
    assert seen == [(one.report_id, one.payload) for one in expected.prepared]
    seen.clear()
    prepare_helper(help_, slice_job(encode_request(expected.kit.task, job, None)).reports, expected.now, seen=tell)
    verified = [answer for answer in expected.answers if isinstance(answer, Verified)]
    assert seen == [(one.report_id, one.payload) for one in verified]


def test_nothing_secret_shows_in_a_repr() -> None:
    expected = exchange("histogram")
    job = leader_job("histogram")
    request = slice_job(encode_request(expected.kit.task, job, None))
    answered = prepare_helper(party(expected.kit, Role.HELPER, "native"), request.reports, expected.now)
    assert isinstance(answered, HelperJob)
    shown = repr([job, request, answered, finish_leader(job, expected.response)])
    for secret in (*job.rows.nullifiers, *answered.outbounds, job.seeds[:32], request.reports[0].payload):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
