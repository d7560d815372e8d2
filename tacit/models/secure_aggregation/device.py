"""Secure aggregation: a device uploads one DAP report to the leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tacit import bhttp
from tacit.answers import is_final
from tacit.dap_errors import DapProblem
from tacit.errors import DAP_ERROR_PREFIX, DecodeError
from tacit.media_types import dap
from tacit.messages import REPORT_ID_SIZE, ReportMetadata, Role, UploadRequest
from tacit.messages.version_codec import decode_upload_errors
from tacit.models.forms import form_of
from tacit.models.interfaces.device import Channel, DeviceSide, Fate, Submission, Verdict
from tacit.models.interfaces.mixed import MixedDevice, mix_channel
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.ports import Entropy
from tacit.problem import party_of, problem_type
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.roles.client import Sharing, bound_report, shard
from tacit.task import Task
from tacit.task.onward import RETRIED
from tacit.tokens.binding import Preimages
from tacit.version import DAP_18, DAP_19, DapVersion

TERMINAL = frozenset(
    {
        DapProblem.INVALID_MESSAGE,
        DapProblem.UNSUPPORTED_EXTENSION,
        DapProblem.INVALID_EXTENSION,
        DapProblem.INVALID_TASK,
    }
)
"""Refusals of the report itself. After any other (for example, the leader does not know the task yet) a retry may
succeed."""


@dataclass(frozen=True)
class DapChannel(Channel):
    """The leader's upload resource of one task."""

    task: Task

    @property
    def url(self) -> str:
        """The leader's URL for reports."""
        return self.task.url(Role.LEADER, "reports")

    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """An upload request with one report, whose time is the beginning of the interval (P28)."""
        task = self.task
        metadata = ReportMetadata(entropy(REPORT_ID_SIZE), task.interval.start)
        sharing = self.sharing(measurement, metadata.report_id, entropy)
        report = bound_report(task, sharing, token, preimages, metadata, entropy)
        return Submission(self.url, SecureAggregationDevice.media_type, UploadRequest((report,)).encode())

    def sharing(self, measurement: Any, report_id: bytes, entropy: Entropy) -> Sharing:
        """The content of the report's plaintexts: the measurement, shared now. Raises ``ValueError``."""
        return shard(self.task, measurement, report_id, entropy)


class SecureAggregationDevice(DeviceSide):
    name: ClassVar[str] = SecureAggregation.name
    media_type: ClassVar[str] = dap("upload-req")
    version: ClassVar[DapVersion] = DAP_18
    """Whose codes the leader's answers have."""

    def channel(self, recipe: Recipe, slot_key: bytes) -> Channel:
        """The upload resource of the recipe's task, or of the shuffler that the recipe names. Raises the refusals of
        ``task_of`` and ``mixing_task``."""
        task = task_of(recipe, slot_key)
        return mix_channel(recipe, task, DapChannel(task))

    def sends_as(self, recipe: Recipe) -> DeviceSide:
        """``MixedDevice`` for a recipe that names a shuffler, and ``Dap19Device`` for one whose task is DAP-19."""
        if form_of(recipe.model).is_mixed(recipe.parties):
            return MixedDevice()
        return self if recipe.dap is self.version else Dap19Device()

    def verdict(self, response: bhttp.Response) -> Verdict:
        """The meaning of the report's status or of a problem document. Only the known type is kept, not the document's
        words."""
        if not 200 <= response.status < 300:
            problem = problem_type(response.content)
            known = next((one for one in DapProblem if problem == DAP_ERROR_PREFIX + one), None)
            party = party_of(response.content, "the leader")
            said = f"{party} answered {response.status}" + (f", {known}" if known else "")
            is_over = known in TERMINAL and is_final(response.status, response.content)
            return Verdict(Fate.REFUSED if is_over else Fate.LATER, said)
        try:
            statuses = decode_upload_errors(response.content, self.version).status
        except DecodeError:
            return Verdict(Fate.LATER, "the leader's answer cannot be read")
        if not statuses:
            return Verdict(Fate.STORED, "durably stored")
        code = statuses[0].error  # only a clock's error passes; every other one is final, OUTDATED_CONFIG too (P11)
        return Verdict(Fate.LATER if code in RETRIED else Fate.REFUSED, code.name.lower())


class Dap19Device(SecureAggregationDevice):
    """Reads a leader's answers to the reports of a DAP-19 task, whose errors have other codes. The sides of the
    recipes' models make the reports."""

    name: ClassVar[str] = "dap-19"
    version: ClassVar[DapVersion] = DAP_19
