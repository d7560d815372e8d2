"""The Helper's part of one report in an aggregation job (DAP-18 section 4.5.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError
from tacit.messages import VerifyInit, VerifyResp
from tacit.roles.aggregator import Party, Rejection
from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import VerifyError
from tests.kit.oracles.aggregator import Accepted, open_report_share


@dataclass(frozen=True)
class Verified:
    """A report that verified: what would be committed, and the message that finishes it at the Leader."""

    accepted: Accepted
    payload: bytes = field(repr=False)
    outbound: bytes = field(repr=False)

    @property
    def report_id(self) -> bytes:
        """The id of the verified report."""
        return self.accepted.report_id


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
