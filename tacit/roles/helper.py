"""The Helper's part of one aggregation job (DAP-18 section 4.5.3), without I/O.

``check_job`` refuses a job as a whole, in the order of the draft's text. The stages over its reports are in
``tacit.roles.jobs``. The service commits the outcome (batch collected, report or token seen before) in one transaction
with the answer.
"""

from __future__ import annotations

from tacit.dap_errors import DapAbort, DapProblem, ReportError
from tacit.messages import (
    BATCH_ID_SIZE,
    AggregationJobExtensionType,
    BatchMode,
)
from tacit.messages.slices import JobSlices
from tacit.roles.aggregator import Rejection
from tacit.roles.jobs import VERIFICATION_KEY_ID, HelperJob
from tacit.roles.rows import Rows
from tacit.task import Task


def knows_key(request: JobSlices) -> bool:
    """Whether the Leader nominates the verification key that a task has (P4)."""
    return request.verification_key_id == VERIFICATION_KEY_ID


def refuse_key(task: Task, request: JobSlices) -> bytes:
    """The answer to a job under an unknown verification key where the version says it for each report. Nothing is kept:
    a Leader may send the same reports again under a key that is known."""
    refusals = [
        Rejection(report.report_id, ReportError.UNKNOWN_VERIFICATION_KEY_ID, "verification-key", final=False)
        for report in request.reports
    ]
    ids = [report.report_id for report in request.reports]
    return HelperJob(ids, Rows([], [], [], b""), [], refusals).respond({}, task.version)


def check_job(task: Task, request: JobSlices) -> bytes | None:
    """Refuse a job that may not be processed (``DapAbort``); returns the batch id of a leader-selected job."""
    report_ids = [report.report_id for report in request.reports]
    kinds = [extension.extension_type for extension in request.extensions]
    if any(kind != AggregationJobExtensionType.LEADER_SELECTED_BATCH_ID for kind in kinds):
        raise DapAbort(DapProblem.UNSUPPORTED_EXTENSION, "an aggregation job extension is not known")
    # only one type is left, so that a second extension repeats it
    if len(kinds) > 1:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "job extensions are not strictly increasing")
    if request.agg_param:
        raise DapAbort(DapProblem.INVALID_AGGREGATION_PARAMETER, "the aggregation parameter is not empty")
    # from here on a report is found by its id (`HelperJob.respond`)
    if len(set(report_ids)) != len(report_ids):
        raise DapAbort(DapProblem.INVALID_MESSAGE, "a report occurs twice in the job")
    if not report_ids:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the job holds no reports")
    if not knows_key(request) and not task.version.refuses_key_by_report:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "the verification key is not known")
    if task.batch_mode is not BatchMode.LEADER_SELECTED:
        if kinds:
            raise DapAbort(DapProblem.INVALID_MESSAGE, "a time-interval job names a batch")
        return None
    if not kinds or len(request.extensions[0].extension_data) != BATCH_ID_SIZE:
        raise DapAbort(DapProblem.INVALID_MESSAGE, "a leader-selected job does not name its batch")
    return request.extensions[0].extension_data
