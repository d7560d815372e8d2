"""Pan-private with two servers: a DAP report as in secure aggregation, whose shares the device made earlier.

A device keeps its cells shared, proved and encrypted to leader and helper; it sends these ciphertexts, cell by cell, as
the payloads of an ordinary report (design rule P23).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.errors import Refusal
from tacit.messages import Role
from tacit.models.forms.pan_private import PanPrivate
from tacit.models.secure_aggregation import DapChannel, SecureAggregationModel
from tacit.panprivate.two_servers import SharedCell, sealed_shares, sealed_size
from tacit.ports import Entropy
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.roles.client import Sharing


@dataclass(frozen=True)
class PanPrivateChannel(DapChannel):
    """The leader's upload resource of a task whose aggregators have state keys."""

    def sharing(self, measurement: Any, report_id: bytes, entropy: Entropy) -> Sharing:
        """The ciphertexts of ``measurement``: the randomised cells (``SharedCell``), as many as the task has. Their
        contents are bound to the task alone, so neither report id nor randomness is used. ``ValueError`` for another
        number of cells."""
        del report_id, entropy
        cells = self.task.vdaf.flp.OUTPUT_LEN
        if len(measurement) != cells or not all(isinstance(cell, SharedCell) for cell in measurement):
            raise ValueError(f"an answer must be {cells} shared cells")
        payloads = dict(zip((Role.LEADER, Role.HELPER), sealed_shares(measurement), strict=True))
        if any(len(payload) != sealed_size(agg_id, cells) for agg_id, payload in enumerate(payloads.values())):
            raise ValueError("a cell has the wrong number of ciphertexts")
        return b"", payloads


class PanPrivateModel(SecureAggregationModel):
    """Model ``pan-private``."""

    name: ClassVar[str] = PanPrivate.name

    def channel(self, recipe: Recipe, slot_key: bytes) -> PanPrivateChannel:
        """The upload resource of the recipe's task. Raises the refusals of ``task_of``, and ``model-unsupported`` for a
        recipe whose aggregators have no state keys."""
        task = task_of(recipe, slot_key)
        if task.state_key(Role.LEADER) is None:
            raise Refusal("model-unsupported", "the recipe's aggregators have no state keys")
        return PanPrivateChannel(task)
