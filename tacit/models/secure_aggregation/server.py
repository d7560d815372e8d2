"""The shuffler before leader and helper: it keeps sealed reports, and passes them on to the leader (P11, P25)."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError
from tacit.messages.slices import slice_report
from tacit.models.interfaces.mixed import mixing_task
from tacit.models.interfaces.server import ServerSide
from tacit.ports import StateKey
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Read, Reading
from tacit.roles.client import report_size
from tacit.task.one_server import OneServerTask
from tacit.task.onward import Onward, ToLeader


@dataclass(frozen=True, slots=True)
class SealedReports(Reading):
    """A payload is one DAP report, which is kept as it is; its envelope alone is read. ``start``: the time that every
    report states, in units of the precision (P28), so that none is marked by another."""

    start: int

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """One report. Raises ``ReportRejected`` for bytes that are no report, or one that differs from the others in
        what everybody sees: another time, or a public extension."""
        del report_id
        try:
            report = slice_report(payload)
        except DecodeError as error:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "report-malformed") from error
        if report.time != self.start or report.public_extensions:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "report-marked")
        return Read((1,), payload)

    def shown(self, numbers: tuple[int, ...], record: bytes) -> dict[str, str | int]:
        """Sizes alone: no share opens here."""
        del numbers
        return {"sealed_reports": 1, "bytes": len(record)}


class MixingServer(ServerSide):
    """The shuffler's side of every model with two aggregators."""

    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """See ``mixing_task``. Raises also the refusals of ``task_of``."""
        return mixing_task(recipe, task_of(recipe, slot_key))

    def reading(self, recipe: Recipe, key: StateKey | None) -> SealedReports:
        """Sealed reports, which are kept until they are shuffled."""
        del key
        return SealedReports(recipe.interval.start // recipe.batch.time_precision)

    def onward(self, recipe: Recipe, slot_key: bytes) -> Onward:
        """The sealed reports as they are, to the leader."""
        task = task_of(recipe, slot_key)
        return ToLeader.of(task, report_size(task))
