"""What one DAP version determines: domain tag, HPKE info strings, VDAF context, report errors, framing.

A further draft (or the RFC, tag "dap") is one more row here; the tag appears nowhere else in Tacit. Recipes are DAP-18;
``JANUS_MAIN`` is for tests against peers that implement it (``tacit serve interop``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import ReportError

_CLIENT = 1
_COLLECTOR = 0


@dataclass(frozen=True, slots=True)
class DapVersion:
    """The constants of one version of DAP.

    ``report_errors`` are the codes that may be sent; the two ``unknown_config`` codes are the errors for a share under
    an unknown HPKE configuration, on upload and during aggregation.
    """

    name: str
    tag: bytes
    report_errors: frozenset[ReportError]
    upload_unknown_config: ReportError
    aggregation_unknown_config: ReportError
    least_task_info: int = 1
    """Bytes of the shortest ``task_info``."""
    batch_in_selector: bool = False
    """An aggregation job names its batch in a ``PartialBatchSelector`` in place of its extensions."""
    vector_prefix: int = 0
    """Bytes of the length before the vector that ends ``AggregationJobInitReq``, ``AggregationJobContinueReq`` and
    ``AggregationJobResp``; 0: it runs to the end of the body."""
    creates_by_put: bool = False
    """The party that requests a job or an aggregate share chooses its id (16 bytes) and sends PUT, in place of POST and
    Location."""

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
    name="dap-18",
    tag=b"dap-18",
    report_errors=frozenset(ReportError),
    upload_unknown_config=ReportError.OUTDATED_CONFIG,
    aggregation_unknown_config=ReportError.HPKE_DECRYPT_ERROR,
)
"""The wire format of draft-ietf-ppm-dap-18."""

JANUS_MAIN = DapVersion(
    name="janus-main",
    tag=b"dap-18",
    report_errors=frozenset(ReportError) - {ReportError.OUTDATED_CONFIG},
    upload_unknown_config=ReportError.HPKE_UNKNOWN_CONFIG_ID,
    aggregation_unknown_config=ReportError.HPKE_UNKNOWN_CONFIG_ID,
    least_task_info=0,
    batch_in_selector=True,
    vector_prefix=4,
    creates_by_put=True,
)
"""The protocol of Janus's main branch (divviup/janus at 4ab28a36): DAP-18's tag, seals and structs, with the framing of
aggregation jobs and the resource ids of earlier drafts, and DAP-19's empty ``task_info``."""

VERSIONS = {version.name: version for version in (DAP_18, JANUS_MAIN)}
"""Every DAP version that is spoken, by name."""
