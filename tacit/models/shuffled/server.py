"""The shuffled model's two servers: the shuffler keeps bundles that it cannot read, the analyzer counts messages."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.dap_errors import ReportError, ReportRejected
from tacit.models.interfaces.server import ServerSide
from tacit.models.shuffled.task import analyzer_task, bundling_of, counts_of, shuffler_task
from tacit.ports import StateKey
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Read, Reading
from tacit.task.one_server import OneServerTask
from tacit.task.onward import Onward, ToAnalyzer
from tacit.task.shuffled import Bundling, message_size


@dataclass(frozen=True, slots=True)
class Bundles(Reading):
    """The shuffler's reading: a payload is kept as it is, and counts as one bundle."""

    messages: int
    cells: int

    @property
    def record_size(self) -> int:  # type: ignore[override]
        """Length of a bundle in bytes: all messages of one device."""
        return self.messages * message_size(self.cells)

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """One bundle: the payload is kept as it is, and nothing in it is looked at."""
        del report_id
        return Read((1,), payload)

    def shown(self, numbers: tuple[int, ...], record: bytes) -> dict[str, str | int]:
        """Sizes alone: no message opens here."""
        del numbers
        return {"sealed_messages": self.messages, "bytes": len(record)}


@dataclass(frozen=True, slots=True)
class NoReports(Reading):
    """The analyzer's reading: reports of this model are the shuffler's."""

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """Always raises ``ReportRejected``: nobody seals a report of this model to the analyzer."""
        del report_id, payload
        raise ReportRejected(ReportError.INVALID_MESSAGE, "not-shuffled")


class ShuffledServer(ServerSide):
    """The analyzer's side of model ``shuffled``."""

    def bundling(self, recipe: Recipe, slot_key: bytes) -> Bundling:
        """How devices make the messages of a bundle of ``recipe``. Raises as ``bundling_of``."""
        return bundling_of(recipe, slot_key)

    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The analyzer's task. Raises as ``analyzer_task``."""
        return analyzer_task(recipe, slot_key)

    def reading(self, recipe: Recipe, key: StateKey | None) -> Reading:
        """No report is taken: messages come from the shuffler."""
        del key
        counts_of(recipe)
        return NoReports()


class ShufflerServer(ServerSide):
    """The shuffler's side of model ``shuffled``."""

    def onward(self, recipe: Recipe, slot_key: bytes) -> Onward:
        """The messages of all bundles one by one, to the analyzer."""
        return ToAnalyzer.of(bundling_of(recipe, slot_key))

    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The shuffler's task. Raises as ``shuffler_task``."""
        return shuffler_task(recipe, slot_key)

    def reading(self, recipe: Recipe, key: StateKey | None) -> Bundles:
        """Bundles, which are kept unopened until all of them are shuffled together."""
        del key
        counts = counts_of(recipe)
        return Bundles(counts.messages, counts.cells)
