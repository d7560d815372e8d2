"""Reports and jobs cut into the slices that an aggregation job needs, thousands at a time.

The codecs in ``upload`` and ``aggregation`` define what is well formed. This module is the fast path for the form that
nearly every report has (no public extension, an X25519 key in each ciphertext). Everything else goes through the
codecs, so both ways accept and refuse the same bytes with the same values. Encodings are unique: a slice of the input
is what the codec would write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tacit.codec import Reader, Writer
from tacit.dap_errors import ReportError
from tacit.fast_paths import JOBS, REPORTS, UPLOADS
from tacit.messages.aggregation import AggregationJobExtension, VerifyInit, VerifyResp, VerifyRespType
from tacit.messages.basic import REPORT_ID_SIZE, Extension, HpkeCiphertext
from tacit.messages.upload import Report, ReportMetadata
from tacit.messages.version_codec import begin_vector, read_init_head
from tacit.version import DAP_18, DapVersion

_METADATA = struct.Struct(
    f">{REPORT_ID_SIZE}sQHI"
)  # report id, time, size of public extensions, size of the public share
_CIPHERTEXT = struct.Struct(">BH32sI")  # config id, size of enc, enc, size of the payload
_PREFIX = struct.Struct(">I")
_ONE_EXTENSION = struct.Struct(">HHH")  # size of all extensions, type, size of its data
_ENC_SIZE = 32
_CONTINUE = bytes((VerifyRespType.CONTINUE,))
_REJECT = bytes((VerifyRespType.REJECT,))


class ReportSlices(NamedTuple):
    """One aggregator's part of a report. ``head`` encodes metadata and public share: with the task's prefix it is the
    associated data of the share. ``tail`` is, for the Leader, the Helper's encoded ciphertext, which it forwards; for
    the Helper, the Leader's ping-pong message."""

    report_id: bytes
    time: int
    public_extensions: tuple[Extension, ...]
    public_share: bytes
    config_id: int
    enc: bytes
    payload: bytes
    head: bytes
    tail: bytes

    def __repr__(self) -> str:
        return f"ReportSlices(report_id={self.report_id!r}, time={self.time})"


class JobSlices(NamedTuple):
    """An ``AggregationJobInitReq`` whose reports are slices."""

    verification_key_id: int
    agg_param: bytes
    extensions: tuple[AggregationJobExtension, ...]
    reports: list[ReportSlices]


class UploadSlices(NamedTuple):
    """The parts of an uploaded report that are checked before it is stored. ``config_ids`` and ``sealed_sizes``
    (encapsulated key and payload together) list the Leader's first, then the Helper's. ``body``: the encoded report."""

    report_id: bytes
    time: int
    public_size: int
    config_ids: tuple[int, int]
    sealed_sizes: tuple[int, int]
    body: bytes

    def __repr__(self) -> str:
        return f"UploadSlices(report_id={self.report_id!r}, time={self.time})"


def slice_uploads(body: bytes) -> list[UploadSlices]:
    """The reports of an encoded ``UploadRequest``. Raises ``DecodeError``, as its ``decode`` does."""
    found: list[UploadSlices] = []
    at = 0
    while at < len(body):
        upload, at = _slice_upload(body, at)
        found.append(upload)
    UPLOADS.items += len(found)
    return found


def _slice_upload(body: bytes, start: int) -> tuple[UploadSlices, int]:
    try:
        report_id, time, extensions, public_size = _METADATA.unpack_from(body, start)
        share = start + _METADATA.size + public_size
        config_id, enc_size, _, size = _CIPHERTEXT.unpack_from(body, share)
        other = share + _CIPHERTEXT.size + size
        other_id, other_enc_size, _, other_size = _CIPHERTEXT.unpack_from(body, other)
    except struct.error:
        return _read_upload(body, start)
    end = other + _CIPHERTEXT.size + other_size
    usual = not extensions and enc_size == _ENC_SIZE and other_enc_size == _ENC_SIZE and size and other_size
    if not usual or end > len(body):
        return _read_upload(body, start)
    sizes = (enc_size + size, other_enc_size + other_size)
    return UploadSlices(report_id, time, public_size, (config_id, other_id), sizes, body[start:end]), end


def _read_upload(body: bytes, start: int) -> tuple[UploadSlices, int]:
    UPLOADS.fallbacks += 1
    reader = Reader(body, "UploadRequest", start)
    report = Report.read(reader)
    end = len(body) - reader.remaining
    own, other = report.leader_encrypted_input_share, report.helper_encrypted_input_share
    sizes = (len(own.enc) + len(own.payload), len(other.enc) + len(other.payload))
    metadata, ids = report.report_metadata, (own.config_id, other.config_id)
    return UploadSlices(metadata.report_id, metadata.time, len(report.public_share), ids, sizes, body[start:end]), end


def slice_reports(bodies: Sequence[bytes]) -> list[ReportSlices]:
    """``slice_report`` of each, in order. Raises as it does, for the first that is malformed."""
    REPORTS.items += len(bodies)
    return [slice_report(body) for body in bodies]


def slice_report(data: bytes) -> ReportSlices:
    """The Leader's part of an encoded ``Report``. Raises ``DecodeError``, as ``Report.decode`` does."""
    try:
        report_id, time, extensions, public_size = _METADATA.unpack_from(data)
        share = _METADATA.size + public_size
        config_id, enc_size, enc, size = _CIPHERTEXT.unpack_from(data, share)
        payload = share + _CIPHERTEXT.size
        tail = payload + size
        _, helper_enc_size, _, helper_size = _CIPHERTEXT.unpack_from(data, tail)
    except struct.error:
        return _from_report(Report.decode(data))
    whole = tail + _CIPHERTEXT.size + helper_size == len(data)
    if extensions or enc_size != _ENC_SIZE or helper_enc_size != _ENC_SIZE or not (size and helper_size and whole):
        return _from_report(Report.decode(data))
    public_share, payload_bytes = data[_METADATA.size : share], data[payload:tail]
    return ReportSlices(report_id, time, (), public_share, config_id, enc, payload_bytes, data[:share], data[tail:])


def slice_job(body: bytes, version: DapVersion = DAP_18) -> JobSlices:
    """The Helper's parts of an encoded ``AggregationJobInitReq``. Raises ``DecodeError``, as ``decode_versioned``
    does."""
    reader = Reader(body, "AggregationJobInitReq")
    key_id, agg_param, extensions = read_init_head(reader, version)
    at = len(body) - reader.remaining
    reports: list[ReportSlices] = []
    while at < len(body):
        found, at = _slice_verify_init(body, at)
        reports.append(found)
    JOBS.items += len(reports)
    return JobSlices(key_id, agg_param, extensions, reports)


def _slice_verify_init(body: bytes, start: int) -> tuple[ReportSlices, int]:
    """The report that begins at ``start``, and where it ends."""
    try:
        report_id, time, extensions, public_size = _METADATA.unpack_from(body, start)
        public = start + _METADATA.size
        share = public + public_size
        config_id, enc_size, enc, size = _CIPHERTEXT.unpack_from(body, share)
        payload = share + _CIPHERTEXT.size
        message = payload + size + _PREFIX.size
        (message_size,) = _PREFIX.unpack_from(body, payload + size)
    except struct.error:
        return _read_verify_init(body, start)
    end = message + message_size
    if extensions or enc_size != _ENC_SIZE or not (size and message_size) or end > len(body):
        return _read_verify_init(body, start)
    parts = (body[payload : payload + size], body[start:share], body[message:end])
    return ReportSlices(report_id, time, (), body[public:share], config_id, enc, *parts), end


def _read_verify_init(body: bytes, start: int) -> tuple[ReportSlices, int]:
    JOBS.fallbacks += 1
    reader = Reader(body, "AggregationJobInitReq", start)
    init = VerifyInit.read(reader)
    share = init.report_share
    found = _slices(share.report_metadata, share.public_share, share.encrypted_input_share, init.payload)
    return found, len(body) - reader.remaining


def _from_report(report: Report) -> ReportSlices:
    REPORTS.fallbacks += 1
    tail = report.helper_encrypted_input_share.encode()
    return _slices(report.report_metadata, report.public_share, report.leader_encrypted_input_share, tail)


def _slices(metadata: ReportMetadata, public_share: bytes, sealed: HpkeCiphertext, tail: bytes) -> ReportSlices:
    head = Writer().raw(metadata.encode()).opaque(public_share, 4).bytes()
    known = (metadata.report_id, metadata.time, metadata.public_extensions, public_share)
    return ReportSlices(*known, sealed.config_id, sealed.enc, sealed.payload, head, tail)


def join_verify_init(report: ReportSlices, message: bytes) -> bytes:
    """The encoded ``VerifyInit`` of the Leader's ``report`` with its ping-pong ``message``, which is not empty."""
    return b"".join((report.head, report.tail, _PREFIX.pack(len(message)), message))


def only_extension(plaintext: bytes, extension_type: int) -> tuple[bytes, bytes] | None:
    """Return extension data and payload of an encoded ``PlaintextInputShare`` whose only private extension is of this
    type; None for any other bytes, well formed or not."""
    try:
        size, found_type, data_size = _ONE_EXTENSION.unpack_from(plaintext)
        end = _ONE_EXTENSION.size + data_size
        (payload_size,) = _PREFIX.unpack_from(plaintext, end)
    except struct.error:
        return None
    payload = end + _PREFIX.size
    if size != data_size + 4 or found_type != extension_type or not payload_size:
        return None
    if payload + payload_size != len(plaintext):
        return None
    return plaintext[_ONE_EXTENSION.size : end], plaintext[payload:]


def join_continue(report_id: bytes, message: bytes) -> bytes:
    """The encoded ``VerifyResp`` that continues a report with a ping-pong ``message``, which is not empty."""
    return b"".join((report_id, _CONTINUE, _PREFIX.pack(len(message)), message))


def join_continues(report_ids: Sequence[bytes], messages: Sequence[bytes]) -> bytes:
    """``join_continue`` of each report and its message, one after another. ``ValueError`` if their numbers differ."""
    heads = {size: _CONTINUE + _PREFIX.pack(size) for size in set(map(len, messages))}
    pairs = zip(report_ids, messages, strict=True)
    return b"".join([part for report_id, message in pairs for part in (report_id, heads[len(message)], message)])


def join_reject(report_id: bytes, error: ReportError, version: DapVersion = DAP_18) -> bytes:
    """The encoded ``VerifyResp`` that refuses a report."""
    return report_id + _REJECT + bytes((version.code_of(error),))


def slice_response(body: bytes, expected: Sequence[bytes], version: DapVersion = DAP_18) -> list[VerifyResp | None]:
    """Decode the answers of an encoded ``AggregationJobResp``; None stands for each answer that equals the ``expected``
    bytes at its place.

    Raises ``DecodeError``, as ``decode_versioned`` does.
    """
    answers: list[VerifyResp | None] = []
    reader = Reader(body, "AggregationJobResp")
    begin_vector(reader, version)
    at = len(body) - reader.remaining
    while at < len(body):
        due = expected[len(answers)] if len(answers) < len(expected) else b""
        if due and body.startswith(due, at):
            answers.append(None)
            at += len(due)
        else:
            reader = Reader(body, "AggregationJobResp", at)
            answers.append(VerifyResp.read_as(reader, version))
            at = len(body) - reader.remaining
    return answers
