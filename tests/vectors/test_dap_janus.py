"""Golden bytes of Janus main against our structs.

Janus main carries the tag dap-18 but stands between drafts. Where its structs are DAP-18's, bytes must be
equal in both directions; the three messages that it frames otherwise must be in the profile ``janus-main``. Every other
entry of the file is in one of the tables below with what is different; a last test makes sure that no entry is in none
of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tacit.codec import Reader, Writer
from tacit.dap_errors import ReportError
from tacit.errors import DecodeError
from tacit.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    BatchSelector,
    CollectionJobExtension,
    CollectionJobReq,
    CollectionJobResp,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    Interval,
    PlaintextInputShare,
    Query,
    Report,
    ReportMetadata,
    ReportShare,
    ReportUploadStatus,
    Role,
    Struct,
    TaskConfiguration,
    TaskExtension,
    TaskExtensionType,
    UploadErrors,
    UploadRequest,
    VerifyContinue,
    VerifyInit,
    VerifyResp,
)
from tacit.messages.version_codec import decode_versioned
from tacit.vdaf.registry import vdaf_configuration, vdaf_from_configuration
from tacit.version import DAP_18, JANUS_MAIN
from tests.kit.version_codec import encode_framed

pytestmark = pytest.mark.vectors

Entries = dict[str, list[bytes]]
MAX = (1 << 64) - 1
UP = bytes(range(1, 17))
DOWN = UP[::-1]
CIPHER_A = HpkeCiphertext(42, b"012345", b"543210")
CIPHER_B = HpkeCiphertext(13, b"abce", b"abfd")
CIPHER_C = HpkeCiphertext(10, b"0123", b"4567")
CIPHER_D = HpkeCiphertext(12, b"01234", b"567")
RESERVED = Extension(0, b"0123")
SHARES = (
    ReportShare(ReportMetadata(UP, 54321), b"", CIPHER_A),
    ReportShare(ReportMetadata(DOWN, 73542, (RESERVED,)), b"0123", CIPHER_B),
)
INITIALIZE = bytes.fromhex("0000000006") + b"012345"
INITS = (VerifyInit(SHARES[0], INITIALIZE), VerifyInit(SHARES[1], bytes.fromhex("0200000000")))
SPAN_A = Interval(54321, 12345)
SPAN_B = Interval(48913, 44721)
SPAN_C = Interval(50821, 84354)
LEADER_SELECTED = CollectionJobReq(Query.leader_selected())

EQUAL: dict[str, list[Struct]] = {
    "roundtrip_report_share": list(SHARES),
    "roundtrip_verify_init": list(INITS),
    "roundtrip_verify_resp": [
        VerifyResp.continued(UP, bytes.fromhex("0100000006") + b"012345" + bytes.fromhex("00000004") + b"6789"),
        VerifyResp.finished(DOWN),
        VerifyResp.rejected(b"\xff" * 16, ReportError.VDAF_VERIFY_ERROR),
    ],
    "roundtrip_collection_job_req": [
        CollectionJobReq(Query.time_interval(SPAN_A)),
        CollectionJobReq(Query.time_interval(SPAN_B), b"012345"),
        LEADER_SELECTED,
        CollectionJobReq(Query.leader_selected(), b"012345"),
        CollectionJobReq(
            Query.leader_selected(), b"", (CollectionJobExtension(0, b""), CollectionJobExtension(1, b"ext"))
        ),
    ],
    "roundtrip_collection_job_resp": [
        CollectionJobResp(0, SPAN_A, CIPHER_C, CIPHER_D),
        CollectionJobResp(23, SPAN_A, CIPHER_C, CIPHER_D),
    ],
    "roundtrip_batch_selector": [
        BatchSelector.time_interval(SPAN_A),
        BatchSelector.time_interval(SPAN_C),
        BatchSelector.leader_selected(b"\x0c" * 32),
        BatchSelector.leader_selected(b"\x07" * 32),
    ],
    "roundtrip_aggregate_share_req": [
        AggregateShareReq(
            CollectionJobReq(Query.time_interval(SPAN_A)), BatchSelector.time_interval(SPAN_A), 439, bytes(32)
        ),
        AggregateShareReq(
            CollectionJobReq(Query.time_interval(SPAN_C), b"012345"),
            BatchSelector.time_interval(SPAN_C),
            8725,
            b"\xff" * 32,
        ),
        AggregateShareReq(LEADER_SELECTED, BatchSelector.leader_selected(b"\x0c" * 32), 439, bytes(32)),
        AggregateShareReq(
            CollectionJobReq(Query.leader_selected(), b"012345"),
            BatchSelector.leader_selected(b"\x07" * 32),
            8725,
            b"\xff" * 32,
        ),
    ],
    "roundtrip_aggregate_share": [AggregateShare(CIPHER_C), AggregateShare(CIPHER_D)],
    "roundtrip_interval": [Interval(0, MAX), SPAN_A, Interval(MAX, 0)],
    "roundtrip_hpke_ciphertext": [CIPHER_C, CIPHER_D],
    "roundtrip_query": [Query.time_interval(SPAN_A), Query.time_interval(SPAN_B), Query.leader_selected()],
    "roundtrip_task_configuration": [
        TaskConfiguration(
            task_info=b"foobar",
            leader_aggregator_endpoint="https://example.com/",
            helper_aggregator_endpoint="https://another.example.com/",
            time_precision=3600,
            min_batch_size=10000,
            batch_mode=BatchMode.TIME_INTERVAL,
            batch_config=b"",
            vdaf_type=1,
            vdaf_configuration=b"",
            extensions=(TaskExtension.task_interval(Interval(277, 28)),),
        ),
        TaskConfiguration(
            task_info=b"f",
            leader_aggregator_endpoint="https://example.com/",
            helper_aggregator_endpoint="https://another.example.com/",
            time_precision=1000,
            min_batch_size=1000,
            batch_mode=BatchMode.LEADER_SELECTED,
            batch_config=b"",
            vdaf_type=2,
            vdaf_configuration=(255).to_bytes(8, "big"),
            extensions=(TaskExtension(0, b"0123"),),
        ),
    ],
    "roundtrip_task_extension": [
        TaskExtension(0, b""),
        TaskExtension(0, b"0123"),
        TaskExtension.task_interval(Interval(100, 50)),
    ],
    "roundtrip_extension": [Extension(0, b""), Extension(0xFF00, b"0123")],
    "roundtrip_report_metadata": [ReportMetadata(UP, 12345), ReportMetadata(DOWN, 54321, (RESERVED,))],
    "roundtrip_plaintext_input_share": [
        PlaintextInputShare((), b"0123"),
        PlaintextInputShare((RESERVED,), b"4567"),
    ],
    "roundtrip_report": [
        Report(ReportMetadata(UP, 12345), b"", CIPHER_A, CIPHER_B),
        Report(ReportMetadata(DOWN, 54321, (RESERVED,)), b"3210", CIPHER_A, CIPHER_B),
    ],
    "roundtrip_upload_request": [UploadRequest(())],
    "roundtrip_upload_response": [
        UploadErrors(()),
        UploadErrors((ReportUploadStatus(UP, ReportError.TASK_EXPIRED),)),
        UploadErrors(
            (
                ReportUploadStatus(UP, ReportError.TASK_EXPIRED),
                ReportUploadStatus(DOWN, ReportError.INVALID_MESSAGE),
                ReportUploadStatus(bytes(16), ReportError.HPKE_DECRYPT_ERROR),
            )
        ),
    ],
}

NUMBERS: dict[str, tuple[int, list[int]]] = {
    "roundtrip_time_precision": (8, [1, 12345, MAX]),
    "roundtrip_duration": (8, [0, 12345, MAX]),
    "roundtrip_time": (8, [0, 12345, MAX]),
    "roundtrip_role": (1, list(Role)),
    "roundtrip_hpke_config_id": (1, [0, 10, 255]),
    "roundtrip_hpke_kem_id": (2, [0x0010, 0x0020]),
    "roundtrip_hpke_kdf_id": (2, [1, 2, 3]),
    "roundtrip_hpke_aead_id": (2, [1, 2, 3]),
    "roundtrip_extension_type": (2, [0, 0xFF00]),
    "roundtrip_task_extension_type": (2, [0, TaskExtensionType.TASK_INTERVAL]),
    "roundtrip_report_share_error": (1, [0, *(code for code in ReportError if code <= 10)]),
    "roundtrip_code": (1, [0, *BatchMode]),
}
"""Bare numbers: (bytes, values). Codes 0 are tested as refused below."""

IDS = {"roundtrip_task_id": 32, "roundtrip_batch_id": 32, "roundtrip_report_id": 16}

WITHOUT_BYTES = {"roundtrip_aggregate_share_aad", "roundtrip_input_share_aad", "roundtrip_url"}
"""The file has no bytes for these (they are assembled from other structs in Janus's tests)."""


@pytest.fixture(scope="module")
def entries(load_vector: Callable[[str], Any]) -> Entries:
    found: Entries = defaultdict(list)
    for vector in load_vector("dap-janus/janus_main_messages.json")["vectors"]:
        found[vector["test"]].append(bytes.fromhex(vector["hex"]))
    return found


@pytest.mark.parametrize("name", EQUAL)
def test_struct_of_dap_18_is_equal_in_both_directions(entries: Entries, name: str) -> None:
    assert len(entries[name]) == len(EQUAL[name])
    for encoded, value in zip(entries[name], EQUAL[name], strict=True):
        assert value.encode() == encoded
        assert type(value).decode(encoded) == value


@pytest.mark.parametrize("name", NUMBERS)
def test_number_is_equal_in_both_directions(entries: Entries, name: str) -> None:
    size, values = NUMBERS[name]
    assert [Writer().uint(value, size).bytes() for value in values] == entries[name]
    assert [Reader(encoded, name).uint(size) for encoded in entries[name]] == values


@pytest.mark.parametrize("name", IDS)
def test_id_is_its_bytes(entries: Entries, name: str) -> None:
    assert entries[name]
    assert {len(encoded) for encoded in entries[name]} == {IDS[name]}


def test_janus_accepts_reserved_codes_that_we_refuse(entries: Entries) -> None:
    (reserved_error, *_), (reserved_mode, *_) = (
        entries["roundtrip_report_share_error"],
        entries["roundtrip_code"],
    )
    with pytest.raises(DecodeError):
        ReportUploadStatus.decode(UP + reserved_error)
    with pytest.raises(DecodeError):
        Query.decode(reserved_mode + b"\x00\x00")


def test_janus_accepts_empty_public_keys_and_repeated_ids_that_we_refuse(entries: Entries) -> None:
    keys = entries["roundtrip_hpke_public_key"]
    assert [Reader(encoded, "key").opaque(2) for encoded in keys] == [b"", b"0123456789abcdef"]
    keyed = HpkeConfig(23, 0x0020, 1, 3, b"0123456789abcdef")
    assert (keyed.encode(), HpkeConfig.decode(entries["roundtrip_hpke_config"][1])) == (
        entries["roundtrip_hpke_config"][1],
        keyed,
    )
    keyless = [encoded for encoded in entries["roundtrip_hpke_config"] if encoded.endswith(b"\x00\x00")]
    assert len(keyless) == 4
    for encoded in keyless:
        with pytest.raises(DecodeError):
            HpkeConfig.decode(encoded)
    (listed,) = entries["roundtrip_hpke_config_list"]
    with pytest.raises(DecodeError):
        HpkeConfigList.decode(listed)


def test_batch_config_inside_a_task_configuration_is_equal_and_other_modes_are_refused(
    entries: Entries,
) -> None:
    reserved, time_interval, leader_selected, unknown = entries["roundtrip_batch_config"]
    for encoded, configuration in zip(
        (time_interval, leader_selected), EQUAL["roundtrip_task_configuration"], strict=True
    ):
        assert isinstance(configuration, TaskConfiguration)
        vdaf_type = configuration.vdaf_type.to_bytes(4, "big")
        whole = configuration.encode()
        assert whole.count(encoded + vdaf_type) == 1
        for other in (reserved, unknown):
            with pytest.raises(DecodeError):
                TaskConfiguration.decode(whole.replace(encoded + vdaf_type, other + vdaf_type))


def test_vdaf_configuration_is_equal_where_we_run_the_vdaf_and_refused_elsewhere(entries: Entries) -> None:
    refused = []
    for encoded in entries["roundtrip_vdaf_config"]:
        reader = Reader(encoded, "vdaf")
        vdaf_type, configuration = reader.uint(4), reader.opaque(2)
        reader.end()
        try:
            vdaf = vdaf_from_configuration(vdaf_type, configuration)
        except (DecodeError, ValueError):
            refused.append(encoded.hex())
            continue
        assert (vdaf.ID, vdaf_configuration(vdaf)) == (vdaf_type, configuration)
    assert refused == [
        "000000000000",  # reserved
        "0000000200080000000000000000",  # Prio3Sum up to 0
        "000000020008ffffffffffffffff",  # Prio3Sum past the modulus of Field64
        "ffff000000040000000f",  # Janus's own test VDAF
    ]


def test_init_request_of_the_profile_has_a_batch_selector_and_a_length_before_the_reports(entries: Entries) -> None:
    selectors = entries["roundtrip_partial_batch_selector"]
    assert selectors[0] == bytes.fromhex("010000")
    assert selectors[1:] == [bytes.fromhex("020020") + bytes([fill]) * 32 for fill in (3, 4)]
    batch = AggregationJobExtension.leader_selected_batch_id(b"\x02" * 32)
    requests = [
        AggregationJobInitReq(7, b"012345", (), INITS),
        AggregationJobInitReq(255, b"012345", (batch,), INITS),
    ]
    for encoded, request in zip(entries["roundtrip_aggregation_job_initialize_req"], requests, strict=True):
        assert encode_framed(request, JANUS_MAIN) == encoded
        assert decode_versioned(AggregationJobInitReq, encoded, JANUS_MAIN) == request
        assert encode_framed(request, DAP_18) == request.encode() != encoded
        with pytest.raises(DecodeError):
            AggregationJobInitReq.decode(encoded)


def test_continue_request_and_response_of_the_profile_have_a_length_before_the_vector(entries: Entries) -> None:
    request = AggregationJobContinueReq(42405, (VerifyContinue(UP, INITIALIZE), VerifyContinue(DOWN, INITIALIZE)))
    (encoded,) = entries["roundtrip_aggregation_job_continue_req"]
    assert encode_framed(request, JANUS_MAIN) == encoded
    assert decode_versioned(AggregationJobContinueReq, encoded, JANUS_MAIN) == request
    assert encoded[:2] + encoded[6:] == request.encode() == encode_framed(request, DAP_18)
    payload = bytes.fromhex("0100000005") + b"01234" + bytes.fromhex("00000005") + b"56789"
    response = AggregationJobResp((VerifyResp.continued(UP, payload), VerifyResp.finished(DOWN)))
    (encoded,) = entries["roundtrip_aggregation_job_resp"]
    assert encode_framed(response, JANUS_MAIN) == encoded
    assert decode_versioned(AggregationJobResp, encoded, JANUS_MAIN) == response
    assert encoded[4:] == response.encode() == encode_framed(response, DAP_18)


def test_every_entry_of_the_file_is_looked_at(entries: Entries) -> None:
    elsewhere = {
        "roundtrip_hpke_config",
        "roundtrip_hpke_config_list",
        "roundtrip_hpke_public_key",
        "roundtrip_batch_config",
        "roundtrip_vdaf_config",
        "roundtrip_partial_batch_selector",
        "roundtrip_aggregation_job_initialize_req",
        "roundtrip_aggregation_job_continue_req",
        "roundtrip_aggregation_job_resp",
    }
    assert set(entries) == {*EQUAL, *NUMBERS, *IDS, *WITHOUT_BYTES, *elsewhere}
    assert all(not encoded for name in WITHOUT_BYTES for encoded in entries[name])
