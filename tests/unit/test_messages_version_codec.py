"""The framing of aggregation jobs in every version: what is encoded decodes to itself, in whole and in slices, and
foreign bytes never do worse than ``DecodeError``. And what else a version decides."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.dap_errors import ReportError
from tacit.errors import DecodeError
from tacit.messages import (
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    ReportUploadStatus,
    TaskConfiguration,
    UploadErrors,
    VerifyResp,
)
from tacit.messages.configuration import configuration_type
from tacit.messages.slices import slice_job, slice_response
from tacit.messages.version_codec import decode_upload_errors, decode_versioned, encode_upload_errors
from tacit.version import DAP_18, DAP_19, JANUS_MAIN, VERSIONS, DapVersion
from tests.kit.version_codec import encode_framed, encode_verify_resp
from tests.unit.test_messages_roundtrip import any_bytes, continues, exactly, few, inits, some, uint

batch_ids = exactly(32).map(AggregationJobExtension.leader_selected_batch_id)
answers = {
    version.name: st.one_of(
        st.builds(VerifyResp.continued, exactly(16), some),
        st.builds(VerifyResp.finished, exactly(16)),
        st.builds(VerifyResp.rejected, exactly(16), st.sampled_from(sorted(version.report_codes))),
    )
    for version in VERSIONS.values()
}
EXTENSIONS = {
    DAP_18.name: few(st.builds(AggregationJobExtension, uint(2), any_bytes)),
    DAP_19.name: few(st.builds(AggregationJobExtension, uint(2), any_bytes)),
    JANUS_MAIN.name: st.lists(batch_ids, max_size=1).map(tuple),
}

quick = settings(max_examples=50, deadline=None)
every_version = pytest.mark.parametrize("version", VERSIONS.values(), ids=lambda version: version.name)


def messages_of(version: DapVersion) -> dict[type[Any], st.SearchStrategy[Any]]:
    head = (uint(1), any_bytes, EXTENSIONS[version.name])
    return {
        AggregationJobInitReq: st.builds(AggregationJobInitReq, *head, few(inits)),
        AggregationJobContinueReq: st.builds(AggregationJobContinueReq, uint(2), few(continues)),
        AggregationJobResp: st.builds(AggregationJobResp, few(answers[version.name])),
    }


@every_version
@quick
@given(data=st.data())
def test_a_framed_message_decodes_to_itself_and_its_slices_are_the_same_message(
    version: DapVersion, data: st.DataObject
) -> None:
    for kind, strategy in messages_of(version).items():
        value = data.draw(strategy)
        encoded = encode_framed(value, version)
        assert decode_versioned(kind, encoded, version) == value
        if isinstance(value, AggregationJobInitReq):
            job = slice_job(encoded, version)
            assert (job.verification_key_id, job.agg_param, job.extensions) == (
                value.verification_key_id,
                value.agg_param,
                value.extensions,
            )
            shares = [init.report_share for init in value.verify_inits]
            assert [one.report_id for one in job.reports] == [one.report_metadata.report_id for one in shares]
            assert [one.tail for one in job.reports] == [init.payload for init in value.verify_inits]
        if isinstance(value, AggregationJobResp):
            due = [encode_verify_resp(resp, version) for resp in value.verify_resps]
            assert slice_response(encoded, due, version) == [None] * len(due)
            assert slice_response(encoded, [], version) == list(value.verify_resps)


@every_version
@quick
@given(data=st.data(), junk=st.binary(max_size=120))
def test_changed_and_foreign_bytes_give_a_message_with_that_encoding_or_a_decode_error(
    version: DapVersion, data: st.DataObject, junk: bytes
) -> None:
    for kind, strategy in messages_of(version).items():
        encoded = bytearray(encode_framed(data.draw(strategy), version))
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
        for body in (bytes(encoded), junk):
            try:
                found = decode_versioned(kind, body, version)
            except DecodeError:
                continue
            assert encode_framed(found, version) == body


@quick
@given(data=st.data())
def test_dap_18_is_framed_as_the_structs_alone_encode_it(data: st.DataObject) -> None:
    for strategy in messages_of(DAP_18).values():
        value = data.draw(strategy)
        assert encode_framed(value, DAP_18) == value.encode()


@quick
@given(data=st.data(), extra=st.integers(1, 3))
def test_a_length_that_is_not_that_of_the_rest_is_refused(data: st.DataObject, extra: int) -> None:
    for kind, strategy in messages_of(JANUS_MAIN).items():
        encoded = encode_framed(data.draw(strategy), JANUS_MAIN)
        for other in (encoded + bytes(extra), encoded[:-1]):
            with pytest.raises(DecodeError):
                decode_versioned(kind, other, JANUS_MAIN)
            if kind is AggregationJobInitReq:
                with pytest.raises(DecodeError):
                    slice_job(other, JANUS_MAIN)
            if kind is AggregationJobResp:
                with pytest.raises(DecodeError):
                    slice_response(other, [], JANUS_MAIN)


def test_a_partial_batch_selector_says_one_batch_id_and_nothing_else() -> None:
    batch = AggregationJobExtension.leader_selected_batch_id(bytes(32))
    for extensions in ((AggregationJobExtension(7, b""),), (batch, batch), (AggregationJobExtension(1, b"short"),)):
        with pytest.raises(ValueError, match="batch id"):
            encode_framed(AggregationJobInitReq(0, b"", extensions, ()), JANUS_MAIN)
    head, end = bytes(5), bytes(4)
    for selector in ("000000", "030000", "0100020000", "020000"):
        with pytest.raises(DecodeError):
            decode_versioned(AggregationJobInitReq, head + bytes.fromhex(selector) + end, JANUS_MAIN)


@every_version
def test_every_report_error_is_sent_as_one_that_the_version_has(version: DapVersion) -> None:
    for error in ReportError:
        answer = AggregationJobResp((VerifyResp.rejected(bytes(16), error),))
        (taken,) = decode_versioned(AggregationJobResp, encode_framed(answer, version), version).verify_resps
        assert taken.report_error is (error if error in version.report_codes else version.sent_as[error])
        told = UploadErrors((ReportUploadStatus(bytes(16), error),))
        (upload,) = decode_upload_errors(encode_upload_errors(told, version), version).status
        assert upload.error is taken.report_error


@every_version
@given(code=st.integers(0, 255))
def test_a_code_means_one_error_or_is_refused(version: DapVersion, code: int) -> None:
    body = bytes(16) + bytes((code,))
    if code in version.report_codes.values():
        assert encode_upload_errors(decode_upload_errors(body, version), version) == body
    else:
        with pytest.raises(DecodeError, match=f"{version.name} has no report error {code}"):
            decode_upload_errors(body, version)


def test_the_codes_of_dap_19_are_those_on_which_two_implementations_agree() -> None:
    # dap-go pkg/dap/wire/aggregation.go (reportError19) and dap-ts src/aggregator.ts (codes 1 to 10)
    assert [(DAP_19.error_of(code).name.lower(), code) for code in range(1, 11)] == [
        ("batch_collected", 1),
        ("report_replayed", 2),
        ("report_dropped", 3),
        ("hpke_unknown_config_id", 4),
        ("hpke_decrypt_error", 5),
        ("vdaf_verify_error", 6),
        ("invalid_message", 7),
        ("report_too_early", 8),
        ("unknown_verification_key_id", 9),
        ("unsupported_extension", 10),
    ]
    assert (DAP_19.tag, DAP_19.input_share_info(3)) == (b"dap-19", b"dap-19 input share\x01\x03")
    assert DAP_19.upload_unknown_config is DAP_19.aggregation_unknown_config is ReportError.HPKE_UNKNOWN_CONFIG_ID


def test_a_version_that_is_sent_to_another_process_is_the_same_object() -> None:
    for version in VERSIONS.values():
        assert pickle.loads(pickle.dumps(version)) is version  # noqa: S301 - our own bytes


def test_a_report_error_that_janus_does_not_have_is_not_taken() -> None:
    answer = AggregationJobResp((VerifyResp.rejected(bytes(16), ReportError.OUTDATED_CONFIG),))
    encoded = answer.encode()
    framed = len(encoded).to_bytes(4, "big") + encoded
    with pytest.raises(DecodeError):
        decode_versioned(AggregationJobResp, framed, JANUS_MAIN)
    with pytest.raises(DecodeError):
        slice_response(framed, [], JANUS_MAIN)


def test_task_info_may_be_empty_where_the_version_says_so() -> None:
    parts: Any = ("http://a.example/", "http://b.example", 1, 1, BatchMode.TIME_INTERVAL, b"", 1, b"", ())
    with pytest.raises(ValueError, match="task info"):
        configuration_type(DAP_18)(b"", *parts).encode()
    kind = configuration_type(JANUS_MAIN)
    empty = kind(b"", *parts)
    assert kind.decode(empty.encode()) == empty
    assert empty.encode()[:1] == b"\x00"
    with pytest.raises(DecodeError):
        TaskConfiguration.decode(empty.encode())
    named = kind(b"task", *parts)
    assert named.encode() == TaskConfiguration(b"task", *parts).encode()
    assert (named.leader_aggregator_endpoint, kind.decode(named.encode())) == ("http://a.example/", named)


def test_versions_are_found_by_name() -> None:
    assert [VERSIONS[name].tag for name in ("dap-18", "dap-19", "janus-main")] == [b"dap-18", b"dap-19", b"dap-18"]
    assert JANUS_MAIN.upload_unknown_config is JANUS_MAIN.aggregation_unknown_config is ReportError(4)
    assert (DAP_18.vector_prefix, DAP_18.batch_in_selector, DAP_18.creates_by_put) == (0, False, False)
