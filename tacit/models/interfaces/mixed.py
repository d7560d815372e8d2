"""DAP reports that pass through a shuffler (P11, P25), on devices and for the shuffler: the report that leader and
helper open is the payload of a report to the shuffler, which checks the token, keeps the payload, and passes on all of
them together in a random order.

The token is the one that leader and helper check. The shuffler sees neither of the two secrets behind its nonce, so it
can count the token, and cannot put it into a report of its own (P10). Both reports have ids of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tacit import media_types
from tacit.messages import REPORT_ID_SIZE
from tacit.models.forms import form_of
from tacit.models.interfaces.device import Channel, Submission
from tacit.models.interfaces.one_server import AnalyzerDevice, task_of_one_server
from tacit.models.parties import SHUFFLER
from tacit.ports import Entropy
from tacit.recipe.model import Recipe
from tacit.roles.client import report_size
from tacit.task import Task
from tacit.task.one_server import Contents, OneServerTask
from tacit.tokens.binding import Preimages


def mixing_task(recipe: Recipe, task: Task) -> OneServerTask:
    """The shuffler's task, whose payloads are reports of the DAP ``task``. Raises refusal ``hpke-key-invalid`` or
    ``task-hpke``, and ``model-unsupported`` for a recipe that names no shuffler."""
    return task_of_one_server(recipe, task.token_key_spki, 1, report_size(task), role=SHUFFLER, passes_on=True)


@dataclass(frozen=True)
class MixedChannel(Channel):
    """The shuffler's upload resource; ``inner`` makes the report for leader and helper."""

    inner: Channel
    task: OneServerTask

    @property
    def url(self) -> str:
        """The shuffler's URL for reports."""
        return self.task.url("reports")

    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """Seal the inner report to the shuffler, with the token alone beside it."""
        inner = self.inner.submission(measurement, token, preimages, entropy)
        report = self.task.seal(entropy(REPORT_ID_SIZE), Contents(token, None, inner.body), entropy)
        return Submission(self.url, media_types.ONE_SERVER_REPORT, report.encode())


def mix_channel(recipe: Recipe, task: Task, channel: Channel) -> Channel:
    """``channel``, which makes reports of ``task``, behind the recipe's shuffler where it names one. Raises as
    ``mixing_task``."""
    if not form_of(recipe.model).is_mixed(recipe.parties):
        return channel
    return MixedChannel(channel, mixing_task(recipe, task))


class MixedDevice(AnalyzerDevice):
    """Sends reports to a shuffler, and reads its answers: a report that it keeps is sent once and never asked about
    again (P11)."""

    name: ClassVar[str] = "through-shuffler"
    server: ClassVar[str] = SHUFFLER

    def channel(self, recipe: Recipe, slot_key: bytes) -> Channel:
        """Raises ``ValueError``: the sides of the recipes' models make the reports."""
        raise ValueError("a report through a shuffler is made by the side of the recipe's model")
