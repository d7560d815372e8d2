"""The short way to read and write the messages of a job takes, refuses and gives what the codecs do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.dap_errors import ReportError
from tacit.errors import DecodeError
from tacit.messages import (
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    Extension,
    HpkeCiphertext,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    ReportShare,
    UploadRequest,
    VerifyInit,
    VerifyResp,
)
from tacit.messages.slices import (
    ReportSlices,
    join_continue,
    join_continues,
    join_reject,
    join_verify_init,
    only_extension,
    slice_job,
    slice_report,
    slice_response,
    slice_uploads,
)

LIMITED = settings(max_examples=200, deadline=None)


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


some = st.binary(min_size=1, max_size=40)
any_bytes = st.binary(max_size=40)
extensions = st.builds(Extension, st.integers(0, 65535), any_bytes)
metadata = st.builds(
    ReportMetadata,
    exactly(16),
    st.integers(0, (1 << 64) - 1),
    st.one_of(st.just(()), st.lists(extensions, max_size=2).map(tuple)),
)
ciphertexts = st.builds(HpkeCiphertext, st.integers(0, 255), st.one_of(exactly(32), some), some)
reports = st.builds(Report, metadata, any_bytes, ciphertexts, ciphertexts)
inits = st.builds(VerifyInit, st.builds(ReportShare, metadata, any_bytes, ciphertexts), some)
requests = st.builds(
    AggregationJobInitReq,
    st.integers(0, 255),
    any_bytes,
    st.lists(st.builds(AggregationJobExtension, st.integers(0, 65535), any_bytes), max_size=2).map(tuple),
    st.lists(inits, max_size=4).map(tuple),
)
resps = st.one_of(
    st.builds(VerifyResp.continued, exactly(16), some),
    st.builds(VerifyResp.finished, exactly(16)),
    st.builds(VerifyResp.rejected, exactly(16), st.sampled_from(ReportError)),
)
responses = st.lists(resps, max_size=4)


@st.composite
def damaged(draw: st.DrawFn, strategy: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of ``strategy``, now and then cut, prolonged or changed in one place."""
    data = draw(strategy)
    kind = draw(st.integers(0, 3))
    if kind == 1:
        return data[: draw(st.integers(0, len(data)))]
    if kind == 2:
        return data + draw(some)
    if kind == 3 and data:
        at = draw(st.integers(0, len(data) - 1))
        return data[:at] + bytes((data[at] ^ draw(st.integers(1, 255)),)) + data[at + 1 :]
    return data


def attempt(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DecodeError as error:
        return str(error)


def head_of(found: ReportMetadata, public_share: bytes) -> bytes:
    return found.encode() + len(public_share).to_bytes(4, "big") + public_share


def sliced(found: ReportMetadata, public_share: bytes, sealed: HpkeCiphertext, tail: bytes) -> ReportSlices:
    return ReportSlices(
        found.report_id,
        found.time,
        found.public_extensions,
        public_share,
        sealed.config_id,
        sealed.enc,
        sealed.payload,
        head_of(found, public_share),
        tail,
    )


def leader_part(report: Report) -> ReportSlices:
    tail = report.helper_encrypted_input_share.encode()
    return sliced(report.report_metadata, report.public_share, report.leader_encrypted_input_share, tail)


def helper_part(init: VerifyInit) -> ReportSlices:
    share = init.report_share
    return sliced(share.report_metadata, share.public_share, share.encrypted_input_share, init.payload)


@LIMITED
@given(damaged(reports.map(Report.encode)))
def test_a_report_is_sliced_as_its_codec_reads_it(data: bytes) -> None:
    decoded = attempt(Report.decode, data)
    expected = leader_part(decoded) if isinstance(decoded, Report) else decoded
    assert attempt(slice_report, data) == expected


@LIMITED
@given(damaged(st.lists(reports, max_size=3).map(lambda found: UploadRequest(tuple(found)).encode())))
def test_an_upload_is_sliced_as_its_codec_reads_it(body: bytes) -> None:
    decoded = attempt(UploadRequest.decode, body)
    found = attempt(slice_uploads, body)
    if isinstance(decoded, str):
        assert found == decoded
        return
    assert [upload.body for upload in found] == [report.encode() for report in decoded.reports]
    for upload, report in zip(found, decoded.reports, strict=True):
        sealed = (report.leader_encrypted_input_share, report.helper_encrypted_input_share)
        assert upload[:5] == (
            report.report_metadata.report_id,
            report.report_metadata.time,
            len(report.public_share),
            tuple(one.config_id for one in sealed),
            tuple(len(one.enc) + len(one.payload) for one in sealed),
        )
        assert repr(upload.body)[2:-1] not in repr(upload)


@LIMITED
@given(damaged(requests.map(AggregationJobInitReq.encode)))
def test_a_job_is_sliced_as_its_codec_reads_it(body: bytes) -> None:
    decoded = attempt(AggregationJobInitReq.decode, body)
    found = attempt(slice_job, body)
    if isinstance(decoded, str):
        assert found == decoded
        return
    assert found[:3] == (decoded.verification_key_id, decoded.agg_param, decoded.extensions)
    assert found.reports == [helper_part(init) for init in decoded.verify_inits]


@LIMITED
@given(reports, some)
def test_a_verify_init_is_joined_as_its_codec_writes_it(report: Report, message: bytes) -> None:
    share = ReportShare(report.report_metadata, report.public_share, report.helper_encrypted_input_share)
    assert join_verify_init(slice_report(report.encode()), message) == VerifyInit(share, message).encode()


@LIMITED
@given(
    damaged(
        st.builds(PlaintextInputShare, st.lists(extensions, max_size=2).map(tuple), some).map(lambda s: s.encode())
    ),
    st.integers(0, 65535),
)
def test_an_input_share_with_one_extension_is_sliced_as_its_codec_reads_it(plaintext: bytes, other: int) -> None:
    decoded = attempt(PlaintextInputShare.decode, plaintext)
    if isinstance(decoded, str) or len(decoded.private_extensions) != 1:
        assert only_extension(plaintext, int.from_bytes(plaintext[2:4], "big")) is None
        return
    (extension,) = decoded.private_extensions
    assert only_extension(plaintext, extension.extension_type) == (extension.extension_data, decoded.payload)
    if other != extension.extension_type:
        assert only_extension(plaintext, other) is None


@given(exactly(16), some, st.sampled_from(ReportError))
def test_answers_are_joined_as_their_codec_writes_them(report_id: bytes, message: bytes, code: ReportError) -> None:
    assert join_continue(report_id, message) == VerifyResp.continued(report_id, message).encode()
    both = ([report_id, bytes(16)], [message, message + b"x"])
    assert join_continues(*both) == b"".join(map(join_continue, *both))
    assert join_reject(report_id, code) == VerifyResp.rejected(report_id, code).encode()


@LIMITED
@given(responses, st.data())
def test_a_response_is_sliced_as_its_codec_reads_it(found: list[VerifyResp], data: st.DataObject) -> None:
    expected = [data.draw(st.sampled_from([resp, VerifyResp.continued(bytes(16), b"x")])) for resp in found]
    due = [resp.encode() for resp in expected][: data.draw(st.integers(0, 5))]
    body = data.draw(damaged(st.just(AggregationJobResp(tuple(found)).encode())))
    decoded = attempt(lambda: AggregationJobResp.decode(body).verify_resps)
    answers = attempt(slice_response, body, due)
    if isinstance(decoded, str):
        assert answers == decoded
        return
    assert len(answers) == len(decoded)
    for at, (answer, resp) in enumerate(zip(answers, decoded, strict=True)):
        is_due = at < len(due) and due[at] == resp.encode()
        assert answer == (None if is_due else resp)


def test_a_slice_shows_neither_share_nor_message() -> None:
    report = ReportSlices(bytes(16), 5, (), b"public", 1, b"enc", b"payload", b"head", b"tail")
    assert repr(report) == f"ReportSlices(report_id={bytes(16)!r}, time=5)"
