"""The errors of DAP: problems with which an aggregator refuses a request, and why it refuses a single report."""

from __future__ import annotations

import enum

from tacit.errors import DAP_ERROR_PREFIX, Abort, TacitError


class DapProblem(enum.StrEnum):
    """Problem types of DAP-18 section 3.6 (and ``invalidTask`` of taskprov)."""

    INVALID_MESSAGE = "invalidMessage"
    UNRECOGNIZED_TASK = "unrecognizedTask"
    UNRECOGNIZED_AGGREGATION_JOB = "unrecognizedAggregationJob"
    BATCH_INVALID = "batchInvalid"
    INVALID_BATCH_SIZE = "invalidBatchSize"
    INVALID_AGGREGATION_PARAMETER = "invalidAggregationParameter"
    BATCH_MISMATCH = "batchMismatch"
    STEP_MISMATCH = "stepMismatch"
    BATCH_OVERLAP = "batchOverlap"
    UNSUPPORTED_EXTENSION = "unsupportedExtension"
    INVALID_EXTENSION = "invalidExtension"
    INVALID_TASK = "invalidTask"


class DapAbort(Abort):
    """An ``Abort`` whose problem type is one of DAP's."""

    def __init__(
        self,
        problem: DapProblem,
        detail: str = "",
        *,
        task_id: str | None = None,
        extensions: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            DAP_ERROR_PREFIX + problem.value,
            detail,
            status=404 if problem in _NOT_FOUND else 400,
            title=_TITLES[problem],
            task_id=task_id,
            extensions=extensions,
            headers=headers,
        )
        self.problem = problem


_NOT_FOUND = {DapProblem.UNRECOGNIZED_TASK, DapProblem.UNRECOGNIZED_AGGREGATION_JOB}

_TITLES = {
    DapProblem.INVALID_MESSAGE: "The message could not be parsed or is not allowed here.",
    DapProblem.UNRECOGNIZED_TASK: "The task is not known to this aggregator.",
    DapProblem.UNRECOGNIZED_AGGREGATION_JOB: "The aggregation job is not known to this aggregator.",
    DapProblem.BATCH_INVALID: "The query does not name a valid batch.",
    DapProblem.INVALID_BATCH_SIZE: "The batch holds fewer reports than the task's minimum.",
    DapProblem.INVALID_AGGREGATION_PARAMETER: "The aggregation parameter is not valid for the VDAF.",
    DapProblem.BATCH_MISMATCH: "Leader and Helper do not agree on the batch.",
    DapProblem.STEP_MISMATCH: "The aggregation job is at another step.",
    DapProblem.BATCH_OVERLAP: "The batch overlaps one that was already collected.",
    DapProblem.UNSUPPORTED_EXTENSION: "The message holds an extension that is not supported.",
    DapProblem.INVALID_EXTENSION: "The message's extensions are not well formed.",
    DapProblem.INVALID_TASK: "This aggregator does not take part in the task.",
}


class ReportError(enum.IntEnum):
    """Why one report does not count (upload errors and VerifyResp). Stores and counters keep these numbers: up to 11
    they are the codes of DAP-18 section 4.5.3. What stands on the wire is the version's (``DapVersion.code_of``), since
    DAP-19 removed three errors and numbered the later ones anew."""

    BATCH_COLLECTED = 1
    REPORT_REPLAYED = 2
    REPORT_DROPPED = 3
    HPKE_UNKNOWN_CONFIG_ID = 4
    HPKE_DECRYPT_ERROR = 5
    VDAF_VERIFY_ERROR = 6
    TASK_EXPIRED = 7
    INVALID_MESSAGE = 8
    REPORT_TOO_EARLY = 9
    TASK_NOT_STARTED = 10
    OUTDATED_CONFIG = 11
    UNKNOWN_VERIFICATION_KEY_ID = 12
    UNSUPPORTED_EXTENSION = 13


class ReportRejected(TacitError):
    """One report is refused; ``code`` is sent to the peer, ``cause`` (a short fixed word) goes into counters."""

    def __init__(self, code: ReportError, cause: str) -> None:
        super().__init__(f"{code.name.lower()}: {cause}")
        self.code = code
        self.cause = cause
