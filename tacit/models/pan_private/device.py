"""Pan-private with two servers: a DAP report as in secure aggregation, whose shares the device made earlier.

A device keeps its cells shared, proved and encrypted to leader and helper; it sends these ciphertexts, cell by cell, as
the payloads of an ordinary report (design rule P23).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from tacit.errors import Refusal
from tacit.messages import Role
from tacit.models.interfaces.device import Channel
from tacit.models.interfaces.mixed import mix_channel
from tacit.models.interfaces.watched import WatchedDeviceSide, asks_whether, made_once, public_key
from tacit.models.pan_private.form import PanPrivate, state_aggregators
from tacit.models.secure_aggregation.device import DapChannel, SecureAggregationDevice
from tacit.panprivate.stored import TwoServers
from tacit.panprivate.two_servers import (
    SharedCell,
    SharedNonZero,
    SharedOccurrences,
    sealed_shares,
    sealed_size,
)
from tacit.panprivate.two_servers import Sharing as StateSharing
from tacit.ports import Entropy
from tacit.recipe.derive import members_of, task_id, task_of
from tacit.recipe.model import Recipe
from tacit.recipe.watch_work import most_of
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


class PanPrivateDevice(SecureAggregationDevice, WatchedDeviceSide):
    name: ClassVar[str] = PanPrivate.name

    def channel(self, recipe: Recipe, slot_key: bytes) -> Channel:
        """The upload resource of the recipe's task, or of its shuffler. Raises as in secure aggregation, and refusal
        ``model-unsupported`` for a recipe whose aggregators have no state keys."""
        task = task_of(recipe, slot_key)
        if task.state_key(Role.LEADER) is None:
            raise Refusal("model-unsupported", "the recipe's aggregators have no state keys")
        return mix_channel(recipe, task, PanPrivateChannel(task))

    def stored(self, recipe: Recipe) -> TwoServers:
        """Cells that are shared between leader and helper, and encrypted to both."""
        return made_once(recipe, lambda: self._make(recipe))

    def _make(self, recipe: Recipe) -> TwoServers:
        leader, helper = (public_key(party.state_key) for party in state_aggregators(recipe.parties))
        sharing = StateSharing(leader, helper, recipe.dap.vdaf_context(task_id(recipe)))
        if asks_whether(recipe):
            return TwoServers(SharedNonZero(sharing))
        return TwoServers(SharedOccurrences(sharing, most_of(recipe)))

    def randomised(self, recipe: Recipe, state: bytes, entropy: Entropy) -> Sequence[SharedCell]:
        stored, epsilon0 = self.stored(recipe), Decimal(members_of(recipe.randomizer)["epsilon0"])
        return stored.machine.answer(stored.cells(state), epsilon0, entropy)
