"""What one DAP version fixes: domain tag, HPKE info strings, VDAF context, report errors.

A further draft (or the RFC, tag "dap") is one more row here; nothing else in Tacit spells the tag.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import ReportError

_CLIENT = 1
_COLLECTOR = 0


@dataclass(frozen=True, slots=True)
class DapVersion:
    """The constants of one version of DAP.

    ``report_errors`` are the codes that may be sent; the two ``unknown_config`` codes say what a share under
    an unknown HPKE configuration gives on upload and during aggregation.
    """

    tag: bytes
    report_errors: frozenset[ReportError]
    upload_unknown_config: ReportError
    aggregation_unknown_config: ReportError

    def input_share_info(self, server_role: int) -> bytes:
        """HPKE info of an input share from the Client to ``server_role``."""
        return self.tag + b" input share" + bytes([_CLIENT, server_role])

    def aggregate_share_info(self, server_role: int) -> bytes:
        """HPKE info of an aggregate share from ``server_role`` to the Collector."""
        return self.tag + b" aggregate share" + bytes([server_role, _COLLECTOR])

    def vdaf_context(self, task_id: bytes) -> bytes:
        """``ctx`` of every VDAF call in the task: the tag, then the 32-byte task id."""
        return self.tag + task_id


DAP_18 = DapVersion(
    tag=b"dap-18",
    report_errors=frozenset(ReportError),
    upload_unknown_config=ReportError.OUTDATED_CONFIG,
    aggregation_unknown_config=ReportError.HPKE_DECRYPT_ERROR,
)
