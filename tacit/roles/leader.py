"""The Leader's part of one aggregation job (DAP-18 sections 4.4 and 4.5.2), without I/O.

``check_upload`` decides what may be stored; ``prepare_report`` opens and starts to verify one report;
``init_request`` builds the request for the Helper; ``finish_report`` ends each report with the Helper's answer.
Everything here is deterministic: after a crash the same stored report gives the same state again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import DecodeError, ReportError, ReportRejected, TacitError
from tacit.messages import (
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    Report,
    ReportShare,
    Role,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
)
from tacit.messages.slices import UploadSlices
from tacit.roles.aggregator import Accepted, Party, Rejection, open_report_share
from tacit.task import Task
from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import VerifyError

SHARE_OVERHEAD = 2048
"""Bytes that a sealed share may have beside field elements: seeds, token extension and framing are under 600."""


class JobAbandonedError(TacitError):
    """The Helper's response does not answer the request; the job cannot be completed."""


@dataclass(frozen=True)
class Prepared:
    """A report that the Leader holds to be good so far, and its verification state."""

    report_id: bytes
    time: int
    nullifier: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    state: Any = field(repr=False)
    verify_init: VerifyInit = field(repr=False)


def check_upload(task: Task, upload: UploadSlices, now: float) -> None:
    """What is decided before a report is stored (section 4.4.2); raises ``ReportRejected``.

    Decryption, extensions and the token wait for the aggregation job. Sizes do not: a share for the Helper that we
    cannot open must not make a job larger than the Helper takes, because a sent job is never split (P14).
    """
    own, other = upload.config_ids
    helper = task.helper_hpke_config
    if own != task.hpke_config(Role.LEADER).id or (helper is not None and other != helper.id):
        raise ReportRejected(task.version.upload_unknown_config, "hpke-config")
    own_size, other_size = upload.sealed_sizes
    if max(upload.public_size, other_size) > SHARE_OVERHEAD or own_size > SHARE_OVERHEAD + _elements_size(task):
        raise ReportRejected(ReportError.INVALID_MESSAGE, "share-oversized")
    if not task.interval.contains(upload.time):
        raise ReportRejected(ReportError.REPORT_DROPPED, "outside-interval")
    if task.too_early(upload.time, now):
        raise ReportRejected(ReportError.REPORT_TOO_EARLY, "too-early")


def _elements_size(task: Task) -> int:
    """Bytes of the field elements in the Leader's share; the Helper's holds only seeds."""
    vdaf = task.vdaf
    return vdaf.field.ENCODED_SIZE * (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS)


def prepare_report(party: Party, report: Report, now: float) -> Prepared | Rejection:
    """Decrypt, validate, check the token and begin verification of one report.

    A report of the future waits until its time has come, so that no Helper whose clock is late refuses it.
    """
    metadata = report.report_metadata
    if party.task.too_early(metadata.time, now, leeway=0.0):
        return Rejection(metadata.report_id, ReportError.REPORT_TOO_EARLY, "too-early", final=False)
    try:
        opened = open_report_share(party, metadata, report.public_share, report.leader_encrypted_input_share, now)
    except ReportRejected as rejected:
        return Rejection(metadata.report_id, rejected.code, rejected.cause)
    try:
        started = ping_pong.leader_initialized(
            party.task.vdaf,
            party.verify_key,
            party.task.ctx,
            None,
            metadata.report_id,
            report.public_share,
            opened.payload,
        )
    except DecodeError:
        return Rejection(metadata.report_id, ReportError.INVALID_MESSAGE, "share-malformed", opened.nullifier)
    except VerifyError:
        return Rejection(metadata.report_id, ReportError.VDAF_VERIFY_ERROR, "proof", opened.nullifier)
    share = ReportShare(metadata, report.public_share, report.helper_encrypted_input_share)
    return Prepared(
        metadata.report_id,
        metadata.time,
        opened.nullifier,
        opened.payload,
        started.state,
        VerifyInit(share, started.outbound),
    )


def init_request(task: Task, prepared: Sequence[Prepared], batch_id: bytes | None) -> AggregationJobInitReq:
    """The aggregation job's one request (Prio3 needs no second round)."""
    extensions: tuple[AggregationJobExtension, ...] = ()
    if task.batch_mode is BatchMode.LEADER_SELECTED:
        if batch_id is None:
            raise ValueError("a leader-selected job needs a batch id")
        extensions = (AggregationJobExtension.leader_selected_batch_id(batch_id),)
    return AggregationJobInitReq(
        verification_key_id=0,
        agg_param=b"",
        extensions=extensions,
        verify_inits=tuple(report.verify_init for report in prepared),
    )


def match_response(report_ids: Sequence[bytes], response: AggregationJobResp) -> None:
    """The Helper must answer the same reports in the same order; raises ``JobAbandonedError`` otherwise."""
    if [resp.report_id for resp in response.verify_resps] != list(report_ids):
        raise JobAbandonedError("the Helper answered other reports than those sent")
    if any(resp.verify_resp_type is VerifyRespType.FINISH for resp in response.verify_resps):
        raise JobAbandonedError("the Helper finished a report before the Leader could")


def refused_by_helper(report_id: bytes, nullifier: bytes, resp: VerifyResp) -> Rejection | None:
    """The Helper's rejection of a report, if it is one."""
    if resp.verify_resp_type is not VerifyRespType.REJECT:
        return None
    code = resp.report_error
    if code is None:
        raise JobAbandonedError("the Helper rejected a report without a reason")
    return Rejection(report_id, code, f"helper-{code.name.lower().replace('_', '-')}", nullifier)


def finish_report(party: Party, prepared: Prepared, resp: VerifyResp) -> Accepted | Rejection:
    """End one report with the Helper's answer to it."""
    refusal = refused_by_helper(prepared.report_id, prepared.nullifier, resp)
    if refusal is not None:
        return refusal
    try:
        finished = ping_pong.leader_continued(party.task.vdaf, party.task.ctx, None, prepared.state, resp.payload)
    except (DecodeError, VerifyError):
        return Rejection(prepared.report_id, ReportError.VDAF_VERIFY_ERROR, "proof", prepared.nullifier)
    return Accepted(prepared.report_id, prepared.time, prepared.nullifier, finished.out_share)
