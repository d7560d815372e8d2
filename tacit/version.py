"""What one DAP version determines: domain tag, HPKE info strings, VDAF context, report errors, framing.

A further draft (or the RFC, tag "dap") is one more row here; the tag appears nowhere else in Tacit. A recipe names its
version, DAP-18 if it says nothing; ``JANUS_MAIN`` is for tests against peers that implement it (``tacit serve
interop``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from tacit.dap_errors import ReportError
from tacit.errors import DecodeError

_CLIENT = 1
_COLLECTOR = 0


@dataclass(frozen=True, eq=False)
class DapVersion:
    """The constants of one version of DAP. There is one object of each, also in processes that are sent one.

    ``report_codes``: the code of each report error that the version has. ``sent_as``: which of those stands for an
    error that it does not have; together they cover every ``ReportError``.
    """

    name: str
    tag: bytes
    report_codes: Mapping[ReportError, int]
    sent_as: Mapping[ReportError, ReportError]
    least_task_info: int = 1
    """Bytes of the shortest ``task_info``."""
    refuses_key_by_report: bool = False
    """A job under an unknown verification key is answered with an error for each of its reports, so that the Leader can
    try another key, in place of a problem document."""
    batch_in_selector: bool = False
    """An aggregation job names its batch in a ``PartialBatchSelector`` in place of its extensions."""
    vector_prefix: int = 0
    """Bytes of the length before the vector that ends ``AggregationJobInitReq``, ``AggregationJobContinueReq`` and
    ``AggregationJobResp``; 0: it runs to the end of the body."""
    creates_by_put: bool = False
    """The party that requests a job or an aggregate share chooses its id (16 bytes) and sends PUT, in place of POST and
    Location."""
    upload_unknown_config: ReportError = field(default=ReportError.HPKE_UNKNOWN_CONFIG_ID)
    """The error for a share under an unknown HPKE configuration, on upload."""
    aggregation_unknown_config: ReportError = field(default=ReportError.HPKE_UNKNOWN_CONFIG_ID)
    """The same, during aggregation."""

    def code_of(self, error: ReportError) -> int:
        """The code that says ``error`` in this version, or what comes closest to it."""
        code = self.report_codes.get(error)
        return self.report_codes[self.sent_as[error]] if code is None else code

    def error_of(self, code: int) -> ReportError:
        """The error that a peer means by ``code``. Raises ``DecodeError`` for a code that the version does not have."""
        found = self._errors.get(code)
        if found is None:
            raise DecodeError(f"{self.name} has no report error {code}")
        return found

    @cached_property
    def _errors(self) -> dict[int, ReportError]:
        return {code: error for error, code in self.report_codes.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return version_named, (self.name,)

    def input_share_info(self, server_role: int) -> bytes:
        """HPKE info of an input share from the Client to ``server_role``."""
        return self.tag + b" input share" + bytes([_CLIENT, server_role])

    def aggregate_share_info(self, server_role: int) -> bytes:
        """HPKE info of an aggregate share from ``server_role`` to the Collector."""
        return self.tag + b" aggregate share" + bytes([server_role, _COLLECTOR])

    def vdaf_context(self, task_id: bytes) -> bytes:
        """``ctx`` of every VDAF call in the task: the tag, then the 32-byte task id."""
        return self.tag + task_id


_CODES_18 = MappingProxyType({error: int(error) for error in ReportError if error <= ReportError.OUTDATED_CONFIG})
_SAID_18 = MappingProxyType(
    {
        ReportError.UNSUPPORTED_EXTENSION: ReportError.INVALID_MESSAGE,
        ReportError.UNKNOWN_VERIFICATION_KEY_ID: ReportError.INVALID_MESSAGE,
    }
)

DAP_18 = DapVersion(
    name="dap-18",
    tag=b"dap-18",
    report_codes=_CODES_18,
    sent_as=_SAID_18,
    upload_unknown_config=ReportError.OUTDATED_CONFIG,
    aggregation_unknown_config=ReportError.HPKE_DECRYPT_ERROR,
)
"""The wire format of draft-ietf-ppm-dap-18."""

DAP_19 = DapVersion(
    name="dap-19",
    tag=b"dap-19",
    report_codes=MappingProxyType(
        {error: int(error) for error in ReportError if error <= ReportError.VDAF_VERIFY_ERROR}
        | {
            ReportError.INVALID_MESSAGE: 7,
            ReportError.REPORT_TOO_EARLY: 8,
            ReportError.UNKNOWN_VERIFICATION_KEY_ID: 9,
            ReportError.UNSUPPORTED_EXTENSION: 10,
        }
    ),
    sent_as=MappingProxyType(
        {
            ReportError.TASK_EXPIRED: ReportError.REPORT_DROPPED,
            ReportError.TASK_NOT_STARTED: ReportError.REPORT_DROPPED,
            ReportError.OUTDATED_CONFIG: ReportError.HPKE_UNKNOWN_CONFIG_ID,
        }
    ),
    least_task_info=0,
    refuses_key_by_report=True,
)
"""draft-ietf-ppm-dap-19: the structs of DAP-18 under another tag, with other report errors and an empty ``task_info``
allowed. From the merged changes 784, 786, 789 and 790 of the draft's repository and from two implementations, dap-go
and dap-ts, which agree on every code; no test vectors exist, so DAP-18 is what recipes have unless they say
otherwise."""

JANUS_MAIN = DapVersion(
    name="janus-main",
    tag=b"dap-18",
    report_codes=MappingProxyType(
        {error: code for error, code in _CODES_18.items() if error is not ReportError.OUTDATED_CONFIG}
    ),
    sent_as=MappingProxyType({**_SAID_18, ReportError.OUTDATED_CONFIG: ReportError.HPKE_UNKNOWN_CONFIG_ID}),
    least_task_info=0,
    batch_in_selector=True,
    vector_prefix=4,
    creates_by_put=True,
)
"""The protocol of Janus's main branch (divviup/janus at 4ab28a36): DAP-18's tag, seals and structs, with the framing of
aggregation jobs and the resource ids of earlier drafts, and DAP-19's empty ``task_info``."""

VERSIONS: Mapping[str, DapVersion] = {version.name: version for version in (DAP_18, DAP_19, JANUS_MAIN)}
"""Every DAP version that is spoken, by name."""


def version_named(name: str) -> DapVersion:
    """The version of this name. Raises ``KeyError``."""
    return VERSIONS[name]
