"""Every struct of DAP-18 as a frozen dataclass with ``encode()`` and a strict ``decode(bytes)``.

Names are the draft's. Limits, trailing bytes and reserved or unassigned code points are checked on reading
(``DecodeError``); ``encode`` raises ``ValueError`` for a value that the format cannot hold.
"""

from tacit.messages.aggregation import (
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobExtensionType,
    AggregationJobInitReq,
    AggregationJobResp,
    ReportShare,
    VerifyContinue,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
)
from tacit.messages.basic import (
    BATCH_ID_SIZE,
    CHECKSUM_SIZE,
    JOB_ID_SIZE,
    REPORT_ID_SIZE,
    TASK_ID_SIZE,
    BatchMode,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    Interval,
    Role,
)
from tacit.messages.collection import (
    AggregateShare,
    AggregateShareReq,
    BatchSelector,
    CollectionJobExtension,
    CollectionJobReq,
    CollectionJobResp,
    Query,
)
from tacit.messages.configuration import TaskConfiguration, TaskExtension, TaskExtensionType
from tacit.messages.extensions import check_report_extensions, strictly_increasing, unknown_types
from tacit.messages.struct import Struct
from tacit.messages.upload import (
    InputShareAad,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    ReportUploadStatus,
    UploadErrors,
    UploadRequest,
)

__all__ = [
    "BATCH_ID_SIZE",
    "CHECKSUM_SIZE",
    "JOB_ID_SIZE",
    "REPORT_ID_SIZE",
    "TASK_ID_SIZE",
    "AggregateShare",
    "AggregateShareReq",
    "AggregationJobContinueReq",
    "AggregationJobExtension",
    "AggregationJobExtensionType",
    "AggregationJobInitReq",
    "AggregationJobResp",
    "BatchMode",
    "BatchSelector",
    "CollectionJobExtension",
    "CollectionJobReq",
    "CollectionJobResp",
    "Extension",
    "HpkeCiphertext",
    "HpkeConfig",
    "HpkeConfigList",
    "InputShareAad",
    "Interval",
    "PlaintextInputShare",
    "Query",
    "Report",
    "ReportMetadata",
    "ReportShare",
    "ReportUploadStatus",
    "Role",
    "Struct",
    "TaskConfiguration",
    "TaskExtension",
    "TaskExtensionType",
    "UploadErrors",
    "UploadRequest",
    "VerifyContinue",
    "VerifyInit",
    "VerifyResp",
    "VerifyRespType",
    "check_report_extensions",
    "strictly_increasing",
    "unknown_types",
]
