"""The Client's report, taken apart by both aggregators; and the bad reports of the testing kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import BoundToken, ReportFactory, TaskKit, make_task_kit
from tacit.dap_errors import ReportRejected
from tacit.errors import DecodeError
from tacit.messages import Report, Role, check_report_extensions
from tacit.ohttp import size_class
from tacit.roles.client import make_report
from tacit.tokens import binding
from tacit.tokens.slots import TokenVerifier
from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
    VerifyError,
)
from tests.kit.oracles.ping_pong import leader_continued
from tests.kit.oracles.sealing import open_input_share

REPORT_ID = bytes(range(16))
KIT = make_task_kit()


@pytest.fixture
def factory() -> ReportFactory:
    return KIT.reports()


def sealed_for(report: Report, role: Role) -> Any:
    return report.leader_encrypted_input_share if role is Role.LEADER else report.helper_encrypted_input_share


def receive(kit: TaskKit, report: Report, role: Role) -> tuple[bytes, bytes]:
    """Nullifier and VDAF payload of the share of ``role``, with every check before the proof."""
    task = kit.task
    metadata = report.report_metadata
    share = open_input_share(task, role, kit.key_pairs[role], metadata, report.public_share, sealed_for(report, role))
    check_report_extensions(metadata.public_extensions, share.private_extensions, {binding.TOKEN_EXTENSION_TYPE})
    extension = binding.open_extension(share.private_extensions[0].extension_data, role)
    verifier = TokenVerifier(task.token_key_spki, task.slot)
    return binding.check(extension, role, verifier), share.payload


def out_shares(kit: TaskKit, report: Report) -> tuple[list[int], list[int]]:
    """Both aggregators' out shares of a report, after its proof."""
    task = kit.task
    nonce = report.report_metadata.report_id
    payloads = {role: receive(kit, report, role)[1] for role in (Role.LEADER, Role.HELPER)}
    started = ping_pong.leader_initialized(
        task.vdaf, kit.verify_key, task.ctx, None, nonce, report.public_share, payloads[Role.LEADER]
    )
    answered = ping_pong.helper_initialized(
        task.vdaf,
        kit.verify_key,
        task.ctx,
        None,
        nonce,
        report.public_share,
        payloads[Role.HELPER],
        started.outbound,
    )
    finished = leader_continued(task.vdaf, task.ctx, None, started.state, answered.outbound)
    return finished.out_share, answered.out_share


@pytest.mark.parametrize(
    ("vdaf", "measurement", "expected"),
    [
        (Prio3Count(2), 1, [1]),
        (Prio3Sum(2, 10), 7, [7]),
        (Prio3SumVec(2, 3, 7, 2), [1, 7, 0], [1, 7, 0]),
        (Prio3Histogram(2, 4, 2), 2, [0, 0, 1, 0]),
        (Prio3MultihotCountVec(2, 4, 2, 2), [True, False, True, False], [1, 0, 1, 0]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Prio3) else "",
)
def test_report_verifies_at_both_aggregators(vdaf: Prio3[Any], measurement: Any, expected: list[int]) -> None:
    kit = make_task_kit(vdaf)
    leader, helper = out_shares(kit, kit.reports().valid(measurement))
    assert vdaf.field.add_vec(leader, helper) == expected


def test_both_aggregators_see_the_same_nullifier_and_no_secret_of_the_other(factory: ReportFactory) -> None:
    bound = factory.token()
    report = factory.valid(1, token=bound)
    nullifiers = {receive(KIT, report, role)[0] for role in (Role.LEADER, Role.HELPER)}
    assert len(nullifiers) == 1
    for role, hidden in ((Role.LEADER, bound.preimages.r_helper), (Role.HELPER, bound.preimages.r_leader)):
        opened = open_input_share(
            KIT.task,
            role,
            KIT.key_pairs[role],
            report.report_metadata,
            report.public_share,
            sealed_for(report, role),
        )
        assert hidden not in opened.encode()


def test_equal_arguments_give_equal_bytes(factory: ReportFactory) -> None:
    bound = factory.token()
    reports = {
        make_report(KIT.task, 1, bound.token, bound.preimages, REPORT_ID, 1000, SeededEntropy(b"client")).encode()
        for _ in range(2)
    }
    assert len(reports) == 1


def test_report_of_every_measurement_has_the_same_size(factory: ReportFactory) -> None:
    assert len({len(factory.valid(measurement).encode()) for measurement in range(4)}) == 1


def test_report_of_sixteen_buckets_goes_into_the_first_size_class() -> None:
    report = make_task_kit(Prio3Histogram(2, 16, 6)).reports().valid(3)
    sealed = (report.leader_encrypted_input_share.encode(), report.helper_encrypted_input_share.encode())
    assert (len(report.public_share), *map(len, sealed), len(report.encode())) == (64, 1075, 547, 1716)
    assert size_class(len(report.encode()) + 512) == 4096


def test_report_decodes_to_itself(factory: ReportFactory) -> None:
    report = factory.valid(3, time=1007)
    assert Report.decode(report.encode()) == report
    assert report.report_metadata.time == 1007


def test_token_of_other_preimages_is_our_mistake(factory: ReportFactory) -> None:
    token, other = factory.token(), factory.token()
    with pytest.raises(ValueError, match="preimages"):
        make_report(KIT.task, 1, token.token, other.preimages, REPORT_ID, 1000, SeededEntropy())
    with pytest.raises(DecodeError):
        make_report(KIT.task, 1, token.token[:-1], token.preimages, REPORT_ID, 1000, SeededEntropy())


def test_measurement_out_of_range_is_our_mistake(factory: ReportFactory) -> None:
    with pytest.raises(ValueError):
        factory.valid(4)


Make = Callable[[ReportFactory], Report]


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda factory: factory.unknown_extension(1), "extension-unknown"),
        (lambda factory: factory.duplicated_extension(1), "extension-repeated"),
        (lambda factory: factory.trailing_bytes(1), "share-malformed"),
        (lambda factory: factory.wrong_slot(1), "token-challenge"),
    ],
    ids=["unknown extension", "duplicated extension", "trailing bytes", "wrong slot"],
)
def test_bad_report_is_rejected_by_both_aggregators_for_its_cause(
    factory: ReportFactory, make: Make, cause: str
) -> None:
    report = make(factory)
    for role in (Role.LEADER, Role.HELPER):
        with pytest.raises(ReportRejected) as refused:
            receive(KIT, report, role)
        assert refused.value.cause == cause


@pytest.mark.parametrize(
    "make",
    [
        lambda factory: factory.unknown_extension(1, roles={Role.HELPER}),
        lambda factory: factory.duplicated_extension(1, roles={Role.HELPER}),
        lambda factory: factory.trailing_bytes(1, roles={Role.HELPER}),
        lambda factory: factory.moved_token(1, factory.token()),
    ],
    ids=["unknown extension", "duplicated extension", "trailing bytes", "moved token"],
)
def test_report_that_is_bad_for_the_helper_alone_passes_the_leader(factory: ReportFactory, make: Make) -> None:
    report = make(factory)
    receive(KIT, report, Role.LEADER)
    with pytest.raises(ReportRejected):
        receive(KIT, report, Role.HELPER)


def test_token_that_the_helper_moves_is_rejected_by_the_leader(factory: ReportFactory) -> None:
    stolen: BoundToken = factory.token()
    report = factory.moved_token(1, stolen, thief=Role.HELPER)
    receive(KIT, report, Role.HELPER)
    with pytest.raises(ReportRejected) as refused:
        receive(KIT, report, Role.LEADER)
    assert refused.value.cause == "token-binding"


def test_report_without_token_carries_no_extension(factory: ReportFactory) -> None:
    report = factory.without_token(1)
    opened = open_input_share(
        KIT.task,
        Role.LEADER,
        KIT.key_pairs[Role.LEADER],
        report.report_metadata,
        report.public_share,
        report.leader_encrypted_input_share,
    )
    assert opened.private_extensions == ()


@pytest.mark.parametrize("vdaf", [Prio3Histogram(2, 4, 2), Prio3Count(2)], ids=["Histogram", "Count"])
def test_report_with_a_bad_proof_passes_until_the_proof(vdaf: Prio3[Any]) -> None:
    kit = make_task_kit(vdaf)
    report = kit.reports().bad_proof(1)
    for role in (Role.LEADER, Role.HELPER):
        receive(kit, report, role)
    with pytest.raises(VerifyError):
        out_shares(kit, report)


def test_truncated_share_is_no_share_of_the_vdaf(factory: ReportFactory) -> None:
    report = factory.truncated_share(1)
    for agg_id, role in enumerate((Role.LEADER, Role.HELPER)):
        _, payload = receive(KIT, report, role)
        with pytest.raises(DecodeError):
            KIT.task.vdaf.decode_input_share(agg_id, payload)
