"""The Helper's part of one aggregation job (DAP-18 section 4.5.3), without I/O.

``check_init_request`` refuses a job as a whole, in the order of the draft's text; ``prepare_report`` opens and
verifies one report; ``respond`` writes the answer. Committing (batch collected, report or token seen before) is the
service's, in one transaction with the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.errors import DapAbort, DapProblem, DecodeError, ReportError, ReportRejected
from tacit.messages import (
    BATCH_ID_SIZE,
    AggregationJobExtensionType,
    AggregationJobInitReq,
    BatchMode,
    VerifyInit,
    VerifyResp,
)
from tacit.messages.slices import JobSlices
from tacit.roles.aggregator import Accepted, Party, Rejection, open_report_share
from tacit.task import Task
from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import VerifyError


@dataclass(frozen=True)
class Verified:
    """A report that verified: what would be committed, and the message that finishes it at the Leader."""

    accepted: Accepted
    payload: bytes = field(repr=False)
    outbound: bytes = field(repr=False)

    @property
    def report_id(self) -> bytes:
        """The report's id."""
        return self.accepted.report_id


def check_init_request(task: Task, request: AggregationJobInitReq) -> bytes | None:
    """Refuse a job that may not be processed (``DapAbort``); returns the batch id of a leader-selected job."""
    report_ids = [init.report_share.report_metadata.report_id for init in request.verify_inits]
    return _check_job(task, request, report_ids)


def check_job(task: Task, request: JobSlices) -> bytes | None:
    """``check_init_request`` of a request in slices."""
    return _check_job(task, request, [report.report_id for report in request.reports])


def _check_job(task: Task, request: AggregationJobInitReq | JobSlices, report_ids: list[bytes]) -> bytes | None:
    kinds = [extension.extension_type for extension in request.extensions]
    if any(kind != AggregationJobExtensionType.LEADER_SELECTED_BATCH_ID for kind in kinds):
        raise DapAbort(DapProblem.UNSUPPORTED_EXTENSION, "an aggregation job extension is not known")
    if len(kinds) > 1:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "job extensions are not strictly increasing")
    if request.agg_param:
        raise DapAbort(DapProblem.INVALID_AGGREGATION_PARAMETER, "the aggregation parameter is not empty")
    if len(set(report_ids)) != len(report_ids):
        raise DapAbort(DapProblem.INVALID_MESSAGE, "a report occurs twice in the job")
    if not report_ids:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the job holds no reports")
    if request.verification_key_id != 0:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the verification key is not known")
    if task.batch_mode is not BatchMode.LEADER_SELECTED:
        if kinds:
            raise DapAbort(DapProblem.INVALID_MESSAGE, "a time-interval job names a batch")
        return None
    if not kinds or len(request.extensions[0].extension_data) != BATCH_ID_SIZE:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "a leader-selected job does not name its batch")
    return request.extensions[0].extension_data


def prepare_report(party: Party, init: VerifyInit, now: float) -> Verified | Rejection:
    """Decrypt, validate, check the token and verify one report."""
    share = init.report_share
    metadata = share.report_metadata
    try:
        opened = open_report_share(party, metadata, share.public_share, share.encrypted_input_share, now)
    except ReportRejected as rejected:
        final = rejected.code is not ReportError.REPORT_TOO_EARLY
        return Rejection(metadata.report_id, rejected.code, rejected.cause, final=final)
    try:
        party.task.vdaf.decode_public_share(share.public_share)
        party.task.vdaf.decode_input_share(1, opened.payload)
    except DecodeError:
        return Rejection(metadata.report_id, ReportError.INVALID_MESSAGE, "share-malformed", opened.nullifier)
    try:
        finished = ping_pong.helper_initialized(
            party.task.vdaf,
            party.verify_key,
            party.task.ctx,
            None,
            metadata.report_id,
            share.public_share,
            opened.payload,
            init.payload,
        )
    except (DecodeError, VerifyError):
        return Rejection(metadata.report_id, ReportError.VDAF_VERIFY_ERROR, "proof", opened.nullifier)
    accepted = Accepted(metadata.report_id, metadata.time, opened.nullifier, finished.out_share)
    return Verified(accepted, opened.payload, finished.outbound)


def respond(outcome: Verified | Rejection) -> VerifyResp:
    """The answer for one report."""
    if isinstance(outcome, Rejection):
        return VerifyResp.rejected(outcome.report_id, outcome.code)
    return VerifyResp.continued(outcome.report_id, outcome.outbound)
