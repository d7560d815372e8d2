"""The local model: a device seals its randomised answer to the analyzer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tacit.methods.packing import Packing, packing_of
from tacit.models.interfaces.one_server import AnalyzerChannel, AnalyzerDevice
from tacit.models.local.form import Local
from tacit.models.local.task import local_task
from tacit.ports import Entropy
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.tokens.slots import TokenVerifier


@dataclass(frozen=True)
class LocalChannel(AnalyzerChannel):
    """The analyzer's upload resource of one recipe."""

    packing: Packing = field(repr=False)

    def payload(self, measurement: Any, entropy: Entropy) -> bytes:
        """The measurement as ``Packing.pack`` encodes it, with its errors. Draws nothing."""
        del entropy
        return self.packing.pack(measurement)


class LocalDevice(AnalyzerDevice):
    name: ClassVar[str] = Local.name

    def channel(self, recipe: Recipe, slot_key: bytes) -> LocalChannel:
        """The upload resource of the recipe. Raises the refusals of ``local_task``."""
        task = local_task(recipe, slot_key)
        return LocalChannel(task, TokenVerifier(slot_key, task.slot), packing_of(randomizer_of(recipe)))
