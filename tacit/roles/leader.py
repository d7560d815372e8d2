"""The Leader's part of one aggregation job (DAP-18 sections 4.4 and 4.5.2), without I/O.

``check_upload`` decides what may be stored, ``job_extensions`` makes the extensions of a job's request,
``match_response`` and ``refused_by_helper`` interpret the Helper's answer. The stages over all reports are in
``tacit.roles.jobs``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import TacitError
from tacit.extension_points import PAN_PRIVACY
from tacit.messages import (
    AggregationJobExtension,
    AggregationJobResp,
    BatchMode,
    Role,
    VerifyResp,
    VerifyRespType,
)
from tacit.messages.slices import UploadSlices
from tacit.roles.aggregator import Rejection
from tacit.task import Task
from tacit.vdaf.count_vec import Prio3CountVec

SHARE_OVERHEAD = 2048
"""Bytes that a sealed share may have in addition to field elements: seeds, token extension and framing are under
600."""


class JobAbandonedError(TacitError):
    """The Helper's response does not answer the request; the job cannot be completed."""


def check_upload(task: Task, upload: UploadSlices, now: float) -> None:
    """Check what is decided before a report is stored (section 4.4.2); raises ``ReportRejected``.

    Decryption, extensions and the token are left to the aggregation job. Sizes are not: a share for the Helper that we
    cannot open must not make a job larger than the Helper accepts, because a sent job is never split (P14).
    """
    own, other = upload.config_ids
    helper = task.helper_hpke_config
    if own != task.hpke_config(Role.LEADER).id or (helper is not None and other != helper.id):
        raise ReportRejected(task.version.upload_unknown_config, "hpke-config")
    own_size, other_size = upload.sealed_sizes
    most_own, most_other = (SHARE_OVERHEAD + share_size(task, role) for role in (Role.LEADER, Role.HELPER))
    if upload.public_size > SHARE_OVERHEAD or own_size > most_own or other_size > most_other:
        raise ReportRejected(ReportError.INVALID_MESSAGE, "share-oversized")
    if not task.interval.contains(upload.time):
        raise ReportRejected(ReportError.REPORT_DROPPED, "outside-interval")
    # last: all refusals above are for good, after this one the same report may be uploaded again
    if task.too_early(upload.time, now):
        raise ReportRejected(ReportError.REPORT_TOO_EARLY, "too-early")


def share_size(task: Task, role: Role) -> int:
    """Size in bytes of the part of an aggregator's plaintext share that grows with the measurement: the field elements
    of the Leader's share, the seeds of a Helper's share that has one per cell, or the ciphertexts of either. The rest
    does not grow, and fits into ``SHARE_OVERHEAD`` with token and framing."""
    vdaf = task.vdaf
    if task.state_key(role) is not None:
        size: int = PAN_PRIVACY["sealed-share-size"](int(role is Role.HELPER), vdaf.flp.OUTPUT_LEN)
        return size
    if role is Role.HELPER:
        return vdaf.HELPER_CELL_SIZE * vdaf.length if isinstance(vdaf, Prio3CountVec) else 0
    return vdaf.field.ENCODED_SIZE * (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS)


def report_bytes(task: Task) -> int:
    """Most bytes of a report that ``check_upload`` accepts, without the framing."""
    return 3 * SHARE_OVERHEAD + sum(share_size(task, role) for role in (Role.LEADER, Role.HELPER))


def job_extensions(task: Task, batch_id: bytes | None) -> tuple[AggregationJobExtension, ...]:
    """The extensions of an aggregation job's request, which name its batch. Raises ``ValueError`` where a
    leader-selected job has no ``batch_id``."""
    if task.batch_mode is not BatchMode.LEADER_SELECTED:
        return ()
    if batch_id is None:
        raise ValueError("a leader-selected job needs a batch id")
    return (AggregationJobExtension.leader_selected_batch_id(batch_id),)


def match_response(report_ids: Sequence[bytes], response: AggregationJobResp) -> None:
    """Check that the Helper answered the same reports in the same order; raises ``JobAbandonedError`` otherwise."""
    if [resp.report_id for resp in response.verify_resps] != list(report_ids):
        raise JobAbandonedError("the Helper answered different reports than those sent")
    # `finish` carries no message, and the Leader of Prio3 cannot end without the Helper's
    if any(resp.verify_resp_type is VerifyRespType.FINISH for resp in response.verify_resps):
        raise JobAbandonedError("the Helper finished a report too early")


def refused_by_helper(report_id: bytes, nullifier: bytes, resp: VerifyResp) -> Rejection | None:
    if resp.verify_resp_type is not VerifyRespType.REJECT:
        return None
    code = resp.report_error
    if code is None:
        raise JobAbandonedError("the Helper rejected a report without a reason")
    return Rejection(report_id, code, f"helper-{code.name.lower().replace('_', '-')}", nullifier)
