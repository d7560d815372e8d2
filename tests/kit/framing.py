"""Whole messages in the framing of a DAP version, where the product joins slices of them."""

from __future__ import annotations

from tacit.codec import Writer
from tacit.messages.aggregation import AggregationJobContinueReq, AggregationJobInitReq
from tacit.messages.framing import Framed, _is_known, encode_init, vector
from tacit.messages.struct import joined
from tacit.version import DapVersion


def encode_framed(message: Framed, version: DapVersion) -> bytes:
    """Encode ``message`` for ``version``. Raises ``ValueError`` for a field that does not fit, and for job extensions
    that the version cannot express."""
    match message:
        case AggregationJobInitReq():
            head = (message.verification_key_id, message.agg_param, message.extensions)
            return encode_init(head, joined(message.verify_inits), version)
        case AggregationJobContinueReq():
            return Writer().uint(message.step, 2).bytes() + vector(joined(message.verify_continues), version)
        case _:
            if any(not _is_known(resp, version) for resp in message.verify_resps):
                raise ValueError(f"{version.name} has no code for a report error of the answer")
            return vector(joined(message.verify_resps), version)
