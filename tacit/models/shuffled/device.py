"""The shuffled model: a device seals each of its messages to the analyzer, and all of them together to the shuffler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tacit.models.interfaces.one_server import AnalyzerChannel, AnalyzerDevice
from tacit.models.parties import SHUFFLER
from tacit.models.shuffled.form import Shuffled
from tacit.models.shuffled.task import bundling_of, shuffler_task
from tacit.ports import Entropy
from tacit.recipe.model import Recipe
from tacit.task.shuffled import Bundling
from tacit.tokens.slots import TokenVerifier


@dataclass(frozen=True)
class ShuffledChannel(AnalyzerChannel):
    """The shuffler's upload resource of one recipe."""

    bundling: Bundling = field(repr=False)

    def payload(self, measurement: list[int], entropy: Entropy) -> bytes:
        """The sealed messages of one device, one after another (``Bundling.bundle``)."""
        return self.bundling.bundle(measurement, entropy)


class ShuffledDevice(AnalyzerDevice):
    name: ClassVar[str] = Shuffled.name
    server: ClassVar[str] = SHUFFLER

    def channel(self, recipe: Recipe, slot_key: bytes) -> ShuffledChannel:
        """The upload resource of the recipe. Raises the refusals of ``shuffler_task``."""
        task = shuffler_task(recipe, slot_key)
        return ShuffledChannel(task, TokenVerifier(slot_key, task.slot), bundling_of(recipe, slot_key))
