"""Whole messages in the framing of a DAP version, where the product joins slices of them."""

from __future__ import annotations

from tacit.codec import Writer
from tacit.messages.aggregation import AggregationJobContinueReq, AggregationJobInitReq, VerifyResp
from tacit.messages.slices import join_reject
from tacit.messages.struct import join
from tacit.messages.version_codec import VersionedMessage, encode_init, vector
from tacit.version import DapVersion


def encode_framed(message: VersionedMessage, version: DapVersion) -> bytes:
    """Encode ``message`` for ``version``. Raises ``ValueError`` for a field that does not fit, and for job extensions
    that the version cannot express."""
    match message:
        case AggregationJobInitReq():
            head = (message.verification_key_id, message.agg_param, message.extensions)
            return encode_init(head, join(message.verify_inits), version)
        case AggregationJobContinueReq():
            return Writer().uint(message.step, 2).bytes() + vector(join(message.verify_continues), version)
        case _:
            return vector(b"".join(encode_verify_resp(resp, version) for resp in message.verify_resps), version)


def encode_verify_resp(resp: VerifyResp, version: DapVersion) -> bytes:
    """Encode one answer of a job for ``version``."""
    if resp.report_error is None:
        return resp.encode()
    return join_reject(resp.report_id, resp.report_error, version)
