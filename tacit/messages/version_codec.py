"""The messages that DAP versions write differently (``DapVersion``): three of aggregation jobs, and upload errors.

DAP-18 names a leader-selected batch in an extension of the job, and the vector at the end of each message runs to the
end of the body. Janus's main branch has a ``PartialBatchSelector`` {uint8 mode, opaque config<0..2^16-1>} in place of
the extensions, and a 4-byte length before the vector. The elements are the same in every version but for the
codes of report errors, so code that slices or joins them only needs those and what comes before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.aggregation import (
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobExtensionType,
    AggregationJobInitReq,
    AggregationJobResp,
    VerifyContinue,
    VerifyInit,
    VerifyResp,
)
from tacit.messages.basic import BATCH_ID_SIZE, BatchMode
from tacit.messages.struct import join, member
from tacit.messages.upload import ReportUploadStatus, UploadErrors
from tacit.version import DapVersion

JobHead = tuple[int, bytes, tuple[AggregationJobExtension, ...]]
"""Verification key id, aggregation parameter and extensions of an ``AggregationJobInitReq``."""

VersionedMessage = TypeVar("VersionedMessage", AggregationJobInitReq, AggregationJobContinueReq, AggregationJobResp)

_BATCH_ID = AggregationJobExtensionType.LEADER_SELECTED_BATCH_ID


def decode_versioned(kind: type[VersionedMessage], data: bytes, version: DapVersion) -> VersionedMessage:
    """Decode the message ``kind`` of ``version``. Raises ``DecodeError``, also for a report error that the version does
    not define."""
    reader = Reader(data, kind.__name__)
    if issubclass(kind, AggregationJobInitReq):
        head = read_init_head(reader, version)
        return kind(*head, tuple(reader.items(VerifyInit.read)))
    if issubclass(kind, AggregationJobContinueReq):
        step = reader.uint(2)
        begin_vector(reader, version)
        return kind(step, tuple(reader.items(VerifyContinue.read)))
    begin_vector(reader, version)
    return kind(tuple(reader.items(lambda rest: VerifyResp.read_as(rest, version))))


def encode_upload_errors(errors: UploadErrors, version: DapVersion) -> bytes:
    """The encoded ``UploadErrors``, with the codes of ``version``, or those that come closest (``code_of``)."""
    return b"".join(one.report_id + bytes((version.code_of(one.error),)) for one in errors.status)


def decode_upload_errors(data: bytes, version: DapVersion) -> UploadErrors:
    """Decode an ``UploadErrors`` of ``version``. Raises ``DecodeError``, also for a code that it does not have."""
    rows = Reader(data, "UploadErrors").items(lambda rest: ReportUploadStatus.read_as(rest, version))
    return UploadErrors(tuple(rows))


def encode_init(head: JobHead, verify_inits: bytes, version: DapVersion) -> bytes:
    """An ``AggregationJobInitReq`` from its head and its encoded ``VerifyInit``s. Raises ``ValueError``."""
    key_id, agg_param, extensions = head
    writer = Writer().uint(key_id, 1).opaque(agg_param, 4)
    if version.batch_in_selector:
        batch_id = _only_batch(extensions)
        mode = BatchMode.TIME_INTERVAL if batch_id is None else BatchMode.LEADER_SELECTED
        writer.uint(mode, 1).opaque(batch_id or b"", 2)
    else:
        writer.opaque(join(extensions), 2)
    return writer.bytes() + vector(verify_inits, version)


def read_init_head(reader: Reader, version: DapVersion) -> JobHead:
    """The head of an ``AggregationJobInitReq``; ``reader`` is then at its first ``VerifyInit``. Raises
    ``DecodeError``."""
    key_id, agg_param = reader.uint(1), reader.opaque(4)
    if version.batch_in_selector:
        mode = member(BatchMode, reader.uint(1))
        size = BATCH_ID_SIZE if mode is BatchMode.LEADER_SELECTED else 0
        config = reader.opaque(2, minimum=size, maximum=size)
        extensions = [AggregationJobExtension.leader_selected_batch_id(config)] if size else []
    else:
        extensions = reader.vector(2, AggregationJobExtension.read)
    begin_vector(reader, version)
    return key_id, agg_param, tuple(extensions)


def vector(elements: bytes, version: DapVersion) -> bytes:
    """Encoded elements as the vector that ends a message, with the length prefix that ``version`` requires."""
    return Writer().opaque(elements, version.vector_prefix).bytes() if version.vector_prefix else elements


def begin_vector(reader: Reader, version: DapVersion) -> None:
    """Read what precedes the elements of the vector that ends a message. Raises ``DecodeError`` unless the elements are
    all that is left."""
    if version.vector_prefix:
        size = reader.uint(version.vector_prefix)
        if size != reader.remaining:
            raise DecodeError(f"the last vector should have {size} bytes, but {reader.remaining} are left")


def _only_batch(extensions: Sequence[AggregationJobExtension]) -> bytes | None:
    """The batch id that a job's extensions name, if they name nothing else. Raises ``ValueError``."""
    if not extensions:
        return None
    (only, *others) = extensions
    if others or only.extension_type != _BATCH_ID or len(only.extension_data) != BATCH_ID_SIZE:
        raise ValueError("a partial batch selector holds exactly one batch id")
    return only.extension_data
