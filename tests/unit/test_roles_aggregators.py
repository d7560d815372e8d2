"""Leader and Helper without I/O: what they accept, what they refuse and by which name."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit.roles
from infra.lab.kit.aggregators import party_of
from infra.lab.kit.reports import TaskKit, make_task_kit
from tacit.dap_errors import DapAbort, DapProblem, ReportError, ReportRejected
from tacit.errors import Abort
from tacit.messages import (
    AggregationJobResp,
    BatchSelector,
    CollectionJobReq,
    Extension,
    Query,
    Report,
    Role,
    UploadRequest,
    VerifyResp,
)
from tacit.messages.slices import slice_job, slice_uploads
from tacit.roles import batches
from tacit.roles.aggregator import Rejection, Tally, bucket_of, checksum_of, merge, token_extension
from tacit.roles.helper import check_job
from tacit.roles.leader import SHARE_OVERHEAD, JobAbandonedError, check_upload, match_response
from tacit.task import BatchClose, Task
from tacit.tokens.binding import TOKEN_EXTENSION_TYPE
from tacit.vdaf.prio3 import Prio3Count, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec
from tacit.version import DAP_18
from tests.kit.oracles import helper, leader
from tests.kit.oracles.aggregator import Accepted, fold
from tests.kit.oracles.helper import Verified
from tests.kit.oracles.leader import Prepared

KIT = make_task_kit()
AT_B = make_task_kit(batch_close=BatchClose.AT_B)
VECTORS = make_task_kit(vdaf=Prio3SumVec(2, 3, 7, 3))
TASK = KIT.task
LEADER, HELPER = party_of(KIT, Role.LEADER), party_of(KIT, Role.HELPER)
NOW = float(TASK.start_seconds)
FACTORY = KIT.reports(1)


def prepared(report: Report, kit: TaskKit = KIT) -> Prepared:
    outcome = leader.prepare_report(party_of(kit, Role.LEADER), report, NOW)
    assert isinstance(outcome, Prepared), outcome
    return outcome


def verdict(report: Report) -> tuple[str, str]:
    """Who refuses the report, and why; ("", "") for a report that counts."""
    outcome = leader.prepare_report(LEADER, report, NOW)
    if isinstance(outcome, Rejection):
        return "leader", outcome.cause
    answer = helper.prepare_report(HELPER, outcome.verify_init, NOW)
    if isinstance(answer, Rejection):
        return "helper", answer.cause
    finished = leader.finish_report(LEADER, outcome, helper.respond(answer))
    assert isinstance(finished, Accepted)
    return "", ""


def test_roles_do_no_io_and_draw_no_randomness() -> None:
    forbidden = {"asyncio", "socket", "time", "random", "secrets", "os", "aiohttp", "sqlalchemy"}
    folder = Path(next(iter(tacit.roles.__path__)))
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            assert not {name.split(".")[0] for name in names} & forbidden, path.name


@pytest.mark.parametrize(
    ("vdaf", "measurement", "expected"),
    [
        (Prio3Count(2), 1, [1]),
        (Prio3Sum(2, 10), 7, [7]),
        (Prio3SumVec(2, 3, 7, 2), [1, 7, 0], [1, 7, 0]),
        (Prio3MultihotCountVec(2, 4, 2, 2), [True, False, True, False], [1, 0, 1, 0]),
    ],
)
def test_both_shares_of_a_good_report_add_up(vdaf: Any, measurement: Any, expected: list[int]) -> None:
    kit = make_task_kit(vdaf)
    one = prepared(kit.reports(2).valid(measurement), kit)
    answer = helper.prepare_report(party_of(kit, Role.HELPER), one.verify_init, NOW)
    assert isinstance(answer, Verified)
    finished = leader.finish_report(party_of(kit, Role.LEADER), one, helper.respond(answer))
    assert isinstance(finished, Accepted)
    modulus = vdaf.field.MODULUS
    total = [(a + b) % modulus for a, b in zip(finished.out_share, answer.accepted.out_share, strict=True)]
    assert vdaf.unshard(None, [total, [0] * len(total)], 1) == (expected if len(expected) > 1 else expected[0])


@pytest.mark.parametrize(
    ("report", "who", "why"),
    [
        (FACTORY.valid(1), "", ""),
        (FACTORY.bad_proof(1), "helper", "proof"),
        (FACTORY.truncated_share(1, roles=[Role.LEADER]), "leader", "share-malformed"),
        (FACTORY.truncated_share(1, roles=[Role.HELPER]), "helper", "share-malformed"),
        (FACTORY.trailing_bytes(1, roles=[Role.LEADER]), "leader", "share-malformed"),
        (FACTORY.trailing_bytes(1, roles=[Role.HELPER]), "helper", "share-malformed"),
        (FACTORY.unknown_extension(1, roles=[Role.LEADER]), "leader", "extension-unknown"),
        (FACTORY.unknown_extension(1, roles=[Role.HELPER]), "helper", "extension-unknown"),
        (FACTORY.duplicated_extension(1, roles=[Role.LEADER]), "leader", "extension-repeated"),
        (FACTORY.duplicated_extension(1, roles=[Role.HELPER]), "helper", "extension-repeated"),
        (FACTORY.without_token(1, roles=[Role.LEADER]), "leader", "token-missing"),
        (FACTORY.without_token(1, roles=[Role.HELPER]), "helper", "token-missing"),
        (FACTORY.moved_token(1, FACTORY.token(), thief=Role.LEADER), "helper", "token-binding"),
        (FACTORY.moved_token(1, FACTORY.token(), thief=Role.HELPER), "leader", "token-binding"),
        (FACTORY.wrong_slot(1), "leader", "token-challenge"),
        (FACTORY.valid(1, time=TASK.interval.start - 1), "leader", "before-interval"),
        (FACTORY.valid(1, time=TASK.interval.start + 9), "leader", "too-early"),
    ],
)
def test_each_bad_report_is_refused_by_name(report: Report, who: str, why: str) -> None:
    assert verdict(report) == (who, why)


def test_report_of_another_task_does_not_open() -> None:
    report = make_task_kit(min_batch_size=11).reports(3).valid(1)
    assert verdict(report) == ("leader", "hpke-decrypt")


def test_public_share_and_metadata_are_bound_to_the_shares() -> None:
    report = FACTORY.valid(1)
    metadata = dataclasses.replace(report.report_metadata, report_id=bytes(16))
    moved = dataclasses.replace(report, report_metadata=metadata)
    assert verdict(moved) == ("leader", "hpke-decrypt")
    other = FACTORY.valid(1)
    assert verdict(dataclasses.replace(report, public_share=other.public_share)) == ("leader", "hpke-decrypt")


def test_token_may_not_stand_in_the_public_extensions() -> None:
    token = Extension(TOKEN_EXTENSION_TYPE, bytes(418))
    for public, private, cause in (
        ((token,), (), "token-public"),
        ((token,), (token,), "extension-repeated"),
    ):
        with pytest.raises(ReportRejected) as caught:
            token_extension(public, private)
        assert (caught.value.code, caught.value.cause) == (ReportError.INVALID_MESSAGE, cause)


def test_an_unknown_extension_is_an_error_of_its_own_which_dap_18_calls_an_invalid_message() -> None:
    token = Extension(TOKEN_EXTENSION_TYPE, bytes(418))
    for public, private in (((Extension(1, b""),), (token,)), ((), (Extension(1, b""), token))):
        with pytest.raises(ReportRejected) as caught:
            token_extension(public, private)
        assert (caught.value.code, caught.value.cause) == (ReportError.UNSUPPORTED_EXTENSION, "extension-unknown")
    assert DAP_18.error_of(DAP_18.code_of(ReportError.UNSUPPORTED_EXTENSION)) is ReportError.INVALID_MESSAGE


def test_early_report_waits_at_the_leader_and_is_not_final() -> None:
    early = FACTORY.valid(1, time=TASK.interval.start + 2)
    waiting = leader.prepare_report(LEADER, early, NOW)
    assert isinstance(waiting, Rejection)
    assert not waiting.final
    assert isinstance(leader.prepare_report(LEADER, early, NOW + 120), Prepared)


def test_helper_refuses_late_and_early_reports_on_its_own_clock() -> None:
    one = prepared(FACTORY.valid(1))
    early = helper.prepare_report(HELPER, one.verify_init, NOW - 301)
    assert isinstance(early, Rejection)
    assert (early.code, early.final) == (ReportError.REPORT_TOO_EARLY, False)
    share = one.verify_init.report_share
    after = dataclasses.replace(share.report_metadata, time=TASK.interval.end)
    moved = dataclasses.replace(one.verify_init, report_share=dataclasses.replace(share, report_metadata=after))
    late = helper.prepare_report(HELPER, moved, NOW + 1e6)
    assert isinstance(late, Rejection)
    assert late.code is ReportError.TASK_EXPIRED


def test_rejection_after_the_token_check_names_the_nullifier() -> None:
    for report in (FACTORY.truncated_share(1, roles=[Role.LEADER]), FACTORY.bad_proof(1)):
        outcome: Prepared | Accepted | Rejection = leader.prepare_report(LEADER, report, NOW)
        if isinstance(outcome, Prepared):
            answer = helper.prepare_report(HELPER, outcome.verify_init, NOW)
            assert isinstance(answer, Rejection)
            assert answer.nullifier == outcome.nullifier
            outcome = leader.finish_report(LEADER, outcome, helper.respond(answer))
        assert isinstance(outcome, Rejection)
        assert outcome.nullifier is not None


@given(st.binary(max_size=200))
def test_any_message_of_the_helper_gives_a_rejection(payload: bytes) -> None:
    resp = VerifyResp.continued(ONE.report_id, payload or b"\x00")
    outcome = leader.finish_report(LEADER, ONE, resp)
    assert isinstance(outcome, Rejection)
    assert outcome.code is ReportError.VDAF_VERIFY_ERROR


@given(st.binary(max_size=200))
def test_any_message_of_the_leader_gives_a_rejection(payload: bytes) -> None:
    init = dataclasses.replace(ONE.verify_init, payload=payload or b"\x00")
    outcome = helper.prepare_report(HELPER, init, NOW)
    assert isinstance(outcome, Rejection)
    assert outcome.code is ReportError.VDAF_VERIFY_ERROR


ONE = prepared(FACTORY.valid(1))


def test_response_must_answer_the_same_reports_in_the_same_order() -> None:
    ids = [bytes([n]) * 16 for n in range(3)]
    good = AggregationJobResp(tuple(VerifyResp.continued(i, b"x") for i in ids))
    match_response(ids, good)
    for wrong in (
        good.verify_resps[:2],
        good.verify_resps[::-1],
        (VerifyResp.finished(ids[0]), *good.verify_resps[1:]),
    ):
        with pytest.raises(JobAbandonedError):
            match_response(ids, AggregationJobResp(wrong))


def test_rejection_by_the_helper_keeps_its_code() -> None:
    outcome = leader.finish_report(LEADER, ONE, VerifyResp.rejected(ONE.report_id, ReportError.REPORT_REPLAYED))
    assert outcome == Rejection(ONE.report_id, ReportError.REPORT_REPLAYED, "helper-report-replayed", ONE.nullifier)
    nameless = dataclasses.replace(VerifyResp.rejected(ONE.report_id, ReportError.REPORT_REPLAYED), report_error=None)
    with pytest.raises(JobAbandonedError):
        leader.finish_report(LEADER, ONE, nameless)


def test_leader_selected_job_names_its_batch_and_only_it() -> None:
    one = prepared(AT_B.reports(4).valid(1), AT_B)
    batch_id = bytes(range(32))
    request = leader.init_request(AT_B.task, [one], batch_id)
    assert check_job(AT_B.task, slice_job(request.encode())) == batch_id
    assert check_job(TASK, slice_job(leader.init_request(TASK, [ONE], None).encode())) is None
    with pytest.raises(ValueError, match="batch id"):
        leader.init_request(AT_B.task, [one], None)
    with pytest.raises(ValueError, match="batch id"):
        bucket_of(AT_B.task, None, 1001)
    assert bucket_of(AT_B.task, batch_id, 1001) == batch_id
    assert bucket_of(TASK, None, 1001) == TASK.interval.start.to_bytes(8, "big")


def check(report: Report, task: Task = TASK, now: float = NOW) -> None:
    """Check an upload that holds one report."""
    (upload,) = slice_uploads(UploadRequest((report,)).encode())
    check_upload(task, upload, now)


def test_upload_with_an_unknown_key_or_outside_the_interval_is_refused() -> None:
    report = FACTORY.valid(1)
    check(report, TASK, NOW)
    for name in ("leader_encrypted_input_share", "helper_encrypted_input_share"):
        stale = dataclasses.replace(getattr(report, name), config_id=99)
        with pytest.raises(ReportRejected) as caught:
            check(dataclasses.replace(report, **{name: stale}))
        assert caught.value.code is ReportError.OUTDATED_CONFIG
    with pytest.raises(ReportRejected, match="outside-interval"):
        check(FACTORY.valid(1, time=TASK.interval.end), now=NOW + 1e6)
    with pytest.raises(ReportRejected, match="too-early"):
        check(report, TASK, NOW - 301)


@pytest.mark.parametrize("kit", [KIT, VECTORS], ids=["histogram", "sum-vec"])
def test_share_that_is_larger_than_the_vdaf_gives_is_refused_at_upload(kit: TaskKit) -> None:
    report = kit.reports(5).valid([1, 2, 3] if kit is VECTORS else 1)
    check(report, kit.task)
    sealed = report.helper_encrypted_input_share
    assert len(sealed.payload) < SHARE_OVERHEAD // 2
    for name, change in (
        ("helper_encrypted_input_share", {"payload": bytes(SHARE_OVERHEAD)}),
        ("helper_encrypted_input_share", {"enc": bytes(SHARE_OVERHEAD)}),
        ("leader_encrypted_input_share", {"payload": bytes(1 << 20)}),
    ):
        swollen = dataclasses.replace(getattr(report, name), **change)
        with pytest.raises(ReportRejected, match="share-oversized"):
            check(dataclasses.replace(report, **{name: swollen}), kit.task)
    with pytest.raises(ReportRejected, match="share-oversized"):
        check(dataclasses.replace(report, public_share=bytes(1 << 20)), kit.task)


def test_checksum_is_the_xor_of_hashed_report_ids() -> None:
    one, two = bytes(16), bytes(range(16))
    hashes = [hashlib.sha256(i).digest() for i in (one, two)]
    assert checksum_of([]) == bytes(32)
    assert checksum_of([one]) == hashes[0]
    assert checksum_of([one, two]) == bytes(a ^ b for a, b in zip(*hashes, strict=True))
    assert checksum_of([one, two, one]) == hashes[1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=20), st.integers(0, 19))
def test_folding_in_parts_and_merging_is_folding_at_once(reports: list[tuple[int, int]], cut: int) -> None:
    accepted = [
        Accepted(bytes([n]) * 16, TASK.interval.start + time, bytes(32), [int(i == bucket) for i in range(4)])
        for n, (time, bucket) in enumerate(reports)
    ]
    whole = merge(TASK, fold(TASK, accepted, None).values())
    parts = [*fold(TASK, accepted[:cut], None).values(), *fold(TASK, accepted[cut:], None).values()]
    assert whole == merge(TASK, parts)
    assert isinstance(whole, Tally)
    assert whole.count == len(reports)
    assert sum(TASK.vdaf.decode_agg_share(whole.agg_share)) == len(reports)
    assert merge(TASK, []) is None


def test_batch_rules_refuse_at_their_bounds() -> None:
    batches.check_size(TASK, TASK.min_batch_size)
    with pytest.raises(DapAbort) as small:
        batches.check_size(TASK, TASK.min_batch_size - 1)
    assert small.value.problem is DapProblem.INVALID_BATCH_SIZE
    batches.check_rate(TASK, 2 * TASK.expected_contributions)
    with pytest.raises(Abort) as many:
        batches.check_rate(TASK, 2 * TASK.expected_contributions + 1)
    assert many.value.type == batches.RATE_BOUND_PROBLEM
    batches.check_interval_over(TASK, TASK.end_seconds - 300)
    with pytest.raises(Abort) as soon:
        batches.check_interval_over(TASK, TASK.end_seconds - 301)
    assert (soon.value.type, soon.value.status) == (batches.INTERVAL_OPEN_PROBLEM, 503)
    batches.check_interval_over(AT_B.task, 0.0)
    batches.check_collection(AT_B.task, CollectionJobReq(Query.leader_selected()))


def test_nothing_secret_shows_in_a_repr() -> None:
    answer = helper.prepare_report(HELPER, ONE.verify_init, NOW)
    assert isinstance(answer, Verified)
    tally = merge(TASK, fold(TASK, [answer.accepted], None).values())
    selector = BatchSelector.time_interval(TASK.interval)
    shown = repr([ONE, answer, answer.accepted, tally, LEADER, selector])
    secrets = [ONE.payload, ONE.nullifier, KIT.verify_key, KIT.key_pairs[Role.LEADER].private, answer.outbound]
    for secret in secrets:
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    assert str(answer.accepted.out_share[0]) not in shown
