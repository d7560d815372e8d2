"""Limits and rules of single structs, and what their ``repr`` must not show."""

from __future__ import annotations

import pytest

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError
from tacit.messages import (
    AggregateShareReq,
    AggregationJobExtension,
    AggregationJobInitReq,
    BatchMode,
    BatchSelector,
    CollectionJobReq,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    Interval,
    PlaintextInputShare,
    Query,
    Report,
    ReportMetadata,
    ReportUploadStatus,
    Role,
    Struct,
    TaskConfiguration,
    TaskExtension,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
    check_report_extensions,
)
from tacit.messages.aggregation import ReportShare

REPORT_ID = bytes(range(16))
INTERVAL = Interval(100, 50)
MAX = (1 << 64) - 1


def configuration(*extensions: TaskExtension, **changes: object) -> TaskConfiguration:
    fields: dict[str, object] = {
        "task_info": b"info",
        "leader_aggregator_endpoint": "https://leader.example/",
        "helper_aggregator_endpoint": "https://helper.example/",
        "time_precision": 60,
        "min_batch_size": 10,
        "batch_mode": BatchMode.TIME_INTERVAL,
        "batch_config": b"",
        "vdaf_type": 1,
        "vdaf_configuration": b"",
        "extensions": extensions,
    }
    return TaskConfiguration(**{**fields, **changes})  # type: ignore[arg-type]


def test_interval_is_half_open() -> None:
    assert INTERVAL.end == 150
    assert [INTERVAL.contains(time) for time in (99, 100, 149, 150)] == [False, True, True, False]
    assert INTERVAL.covers(INTERVAL)
    assert INTERVAL.covers(Interval(120, 30))
    assert not INTERVAL.covers(Interval(120, 31))
    assert not INTERVAL.covers(Interval(99, 10))


def test_interval_past_the_last_time_is_refused() -> None:
    encoded = MAX.to_bytes(8, "big") + (1).to_bytes(8, "big")
    with pytest.raises(DecodeError):
        Interval.decode(encoded)
    query = Query.decode(b"\x01\x00\x10" + encoded)  # whose batch is invalid, which is for the task to say
    with pytest.raises(DecodeError):
        _ = query.interval
    with pytest.raises(ValueError, match="last representable"):
        Interval(MAX, 1).encode()


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_reserved_batch_mode_is_refused(mode: int) -> None:
    with pytest.raises(DecodeError):
        Query.decode(bytes([mode, 0, 0]))


@pytest.mark.parametrize(
    "encoded",
    [b"\x02\x00\x01\x00", b"\x01\x00\x00", b"\x01\x00\x0f" + bytes(15), b"\x01\x00\x11" + bytes(17)],
)
def test_query_config_of_another_length_than_its_mode_has_is_refused(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        Query.decode(encoded)


def test_query_and_selector_give_their_interval_and_batch_id() -> None:
    assert Query.time_interval(INTERVAL).interval == INTERVAL
    assert BatchSelector.time_interval(INTERVAL).interval == INTERVAL
    assert BatchSelector.leader_selected(bytes(32)).batch_id == bytes(32)
    with pytest.raises(DecodeError):
        _ = Query.leader_selected().interval
    with pytest.raises(DecodeError):
        _ = BatchSelector.leader_selected(bytes(32)).interval
    with pytest.raises(DecodeError):
        _ = BatchSelector.time_interval(INTERVAL).batch_id


@pytest.mark.parametrize("code", [0, 12, 255])
def test_reserved_or_unassigned_report_error_is_refused(code: int) -> None:
    with pytest.raises(DecodeError):
        ReportUploadStatus.decode(REPORT_ID + bytes([code]))
    with pytest.raises(DecodeError):
        VerifyResp.decode(REPORT_ID + bytes([2, code]))


def test_unassigned_verify_resp_type_is_refused() -> None:
    with pytest.raises(DecodeError):
        VerifyResp.decode(REPORT_ID + b"\x03")


def test_verify_resp_is_as_long_as_its_type() -> None:
    assert VerifyResp.continued(REPORT_ID, b"\x02\x00\x00\x00\x00").encode() == REPORT_ID + bytes.fromhex(
        "00000000050200000000"
    )
    assert VerifyResp.finished(REPORT_ID).encode() == REPORT_ID + b"\x01"
    assert VerifyResp.rejected(REPORT_ID, ReportError.REPORT_REPLAYED).encode() == REPORT_ID + b"\x02\x02"


def test_rejection_without_a_report_error_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="report error"):
        VerifyResp(REPORT_ID, VerifyRespType.REJECT).encode()


@pytest.mark.parametrize(
    "struct",
    [
        VerifyResp.continued(REPORT_ID, b""),
        PlaintextInputShare((), b""),
        HpkeCiphertext(1, b"", b"x"),
        HpkeCiphertext(1, b"x", b""),
        HpkeConfig(1, 0x20, 1, 1, b""),
        HpkeConfigList(()),
        HpkeConfigList((HpkeConfig(1, 0x20, 1, 1, b"x"),) * 2),
        ReportMetadata(b"short", 1),
        ReportMetadata(REPORT_ID, MAX + 1),
        BatchSelector.leader_selected(b"short"),
        AggregateShareReq(CollectionJobReq(Query.leader_selected()), BatchSelector.leader_selected(bytes(32)), 1, b""),
        configuration(task_info=b""),
        configuration(task_info=bytes(256)),
        configuration(leader_aggregator_endpoint=""),
        configuration(leader_aggregator_endpoint="https://l\u00e9ader.example/"),
        configuration(TaskExtension(2, b""), TaskExtension(1, b"")),
        configuration(TaskExtension(1, b""), TaskExtension(1, b"")),
    ],
    ids=lambda struct: type(struct).__name__,
)
def test_value_outside_the_limits_is_not_encoded(struct: Struct) -> None:
    with pytest.raises(ValueError):
        struct.encode()


def test_batch_id_extension_of_another_length_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="32"):
        AggregationJobExtension.leader_selected_batch_id(b"short")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\x04info", b"\x00"),
        (b"https://leader.example/", "https://leader.examplé".encode("latin-1") + b"/"),
        (b"\x00\x17https://leader.example/", b"\x00\x00"),
    ],
)
def test_task_configuration_outside_the_limits_is_refused(before: bytes, after: bytes) -> None:
    encoded = configuration().encode()
    assert before in encoded
    with pytest.raises(DecodeError):
        TaskConfiguration.decode(encoded.replace(before, after))


@pytest.mark.parametrize("types", [(2, 1), (1, 1)])
def test_task_extensions_that_do_not_increase_are_refused(types: tuple[int, int]) -> None:
    encoded = configuration().encode()
    assert encoded.endswith(b"\x00\x00")
    listed = b"".join(number.to_bytes(2, "big") + b"\x00\x00" for number in types)
    with pytest.raises(DecodeError):
        TaskConfiguration.decode(encoded[:-2] + len(listed).to_bytes(2, "big") + listed)


def test_hpke_config_list_has_distinct_ids_and_at_least_one_entry() -> None:
    one = HpkeConfig(1, 0x20, 1, 1, b"key").encode()
    with pytest.raises(DecodeError):
        HpkeConfigList.decode((2 * len(one)).to_bytes(2, "big") + one + one)
    with pytest.raises(DecodeError):
        HpkeConfigList.decode(b"\x00\x00")


def test_init_request_gives_the_batch_that_the_leader_chose() -> None:
    batch_id = bytes(range(32))
    chosen = AggregationJobExtension.leader_selected_batch_id(batch_id)
    assert AggregationJobInitReq(0, b"", (chosen,), ()).batch_id == batch_id
    assert AggregationJobInitReq(0, b"", (AggregationJobExtension(9, b""),), ()).batch_id is None
    with pytest.raises(DecodeError):
        _ = AggregationJobInitReq(0, b"", (AggregationJobExtension(1, b"short"),), ()).batch_id


@pytest.mark.parametrize(
    ("public", "private", "cause"),
    [
        ([7], [0xFF54], "extension-unknown"),
        ([], [0xFF54, 0xFF55], "extension-unknown"),
        ([0xFF54], [0xFF54], "extension-repeated"),
        ([], [0xFF54, 0xFF54], "extension-repeated"),
        ([], [2, 1], "extension-order"),
        ([2, 1], [], "extension-order"),
    ],
)
def test_report_extension_that_breaks_a_rule_rejects_the_report(
    public: list[int], private: list[int], cause: str
) -> None:
    with pytest.raises(ReportRejected) as refused:
        check_report_extensions(
            [Extension(number, b"") for number in public],
            [Extension(number, b"") for number in private],
            {1, 2, 0xFF54},
        )
    code = ReportError.UNSUPPORTED_EXTENSION if cause == "extension-unknown" else ReportError.INVALID_MESSAGE
    assert (refused.value.code, refused.value.cause) == (code, cause)


def test_known_report_extensions_in_order_are_accepted() -> None:
    public, private, known = [Extension(1, b"")], [Extension(2, b""), Extension(0xFF54, b"")], {1, 2, 0xFF54}
    check_report_extensions(public, private, known)
    check_report_extensions([], [], set())
    for one in known:
        with pytest.raises(ReportRejected):
            check_report_extensions(public, private, known - {one})


def test_no_share_and_no_token_shows_in_a_repr() -> None:
    secret = b"SECRETSECRET"
    ciphertext = HpkeCiphertext(1, secret, secret)
    metadata = ReportMetadata(REPORT_ID, 1, (Extension(1, secret),))
    report = Report(metadata, secret, ciphertext, ciphertext)
    shown = [
        report,
        PlaintextInputShare((Extension(0xFF54, secret),), secret),
        VerifyInit(ReportShare(metadata, secret, ciphertext), secret),
        VerifyResp.continued(REPORT_ID, secret),
    ]
    assert all("SECRET" not in repr(struct) for struct in shown)


def test_role_numbers_are_those_of_the_draft() -> None:
    assert [(role.name, role.value) for role in Role] == [
        ("COLLECTOR", 0),
        ("CLIENT", 1),
        ("LEADER", 2),
        ("HELPER", 3),
    ]
