"""The Leader's part of one report in an aggregation job (DAP-18 sections 4.4 and 4.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError
from tacit.messages import AggregationJobInitReq, Report, ReportShare, VerifyInit, VerifyResp
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.leader import job_extensions, refused_by_helper
from tacit.task import Task
from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import VerifyError
from tests.kit.oracles.aggregator import Accepted, open_report_share
from tests.kit.oracles.ping_pong import leader_continued


@dataclass(frozen=True)
class Prepared:
    """A report that the Leader holds to be good so far, and its verification state."""

    report_id: bytes
    time: int
    nullifier: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    state: Any = field(repr=False)
    verify_init: VerifyInit = field(repr=False)


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
    return AggregationJobInitReq(
        verification_key_id=0,
        agg_param=b"",
        extensions=job_extensions(task, batch_id),
        verify_inits=tuple(report.verify_init for report in prepared),
    )


def finish_report(party: Party, prepared: Prepared, resp: VerifyResp) -> Accepted | Rejection:
    """End one report with the Helper's answer to it."""
    refusal = refused_by_helper(prepared.report_id, prepared.nullifier, resp)
    if refusal is not None:
        return refusal
    try:
        finished = leader_continued(party.task.vdaf, party.task.ctx, None, prepared.state, resp.payload)
    except (DecodeError, VerifyError):
        return Rejection(prepared.report_id, ReportError.VDAF_VERIFY_ERROR, "proof", prepared.nullifier)
    return Accepted(prepared.report_id, prepared.time, prepared.nullifier, finished.out_share)
