"""Local pan-privacy with one server: a device sends its randomised counters, which only the analyzer can open (P24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from tacit.models.interfaces.one_server import AnalyzerChannel, AnalyzerDevice
from tacit.models.interfaces.watched import WatchedDeviceSide, asks_whether, made_once, public_key
from tacit.models.one_server import analyzer_of
from tacit.models.pan_private_single.form import PanPrivateSingle, state_key_of
from tacit.models.pan_private_single.task import one_server_task
from tacit.panprivate.elgamal import Ciphertext
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.stored import OneServer
from tacit.ports import Entropy
from tacit.recipe.derive import members_of, randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.watch_work import most_of
from tacit.tokens.slots import TokenVerifier


@dataclass(frozen=True)
class StateChannel(AnalyzerChannel):
    """The analyzer's upload resource, for randomised cells of a state (``tacit.panprivate.single_server``)."""

    def payload(self, measurement: Sequence[Ciphertext], entropy: Entropy) -> bytes:
        """The ciphertexts one after another. ``ValueError`` for another number of cells than the task's."""
        del entropy
        if len(measurement) != self.task.cells:
            raise ValueError(f"an answer to this recipe must have {self.task.cells} cells")
        return b"".join(cell.encode() for cell in measurement)


class PanPrivateSingleDevice(AnalyzerDevice, WatchedDeviceSide):
    name: ClassVar[str] = PanPrivateSingle.name

    def channel(self, recipe: Recipe, slot_key: bytes) -> StateChannel:
        """The upload resource of the recipe. Raises the refusals of ``one_server_task``."""
        task = one_server_task(recipe, slot_key)
        return StateChannel(task, TokenVerifier(slot_key, task.slot))

    def stored(self, recipe: Recipe) -> OneServer:
        """Counters that are encrypted to the analyzer."""
        return made_once(recipe, lambda: self._make(recipe))

    def _make(self, recipe: Recipe) -> OneServer:
        key = public_key(state_key_of(analyzer_of(recipe.parties)))
        return OneServer(NonZero(key) if asks_whether(recipe) else Occurrences(key, most_of(recipe)))

    def randomised(self, recipe: Recipe, state: bytes, entropy: Entropy) -> Sequence[Ciphertext]:
        """The ciphertexts of randomised numbers: one for a count or a mean, one per cell for a histogram."""
        stored, members = self.stored(recipe), members_of(recipe.randomizer)
        cells, machine = stored.cells(state), stored.machine
        if isinstance(machine, NonZero):
            return machine.answer(cells, Decimal(members["epsilon0"]), entropy)
        share = randomizer_of(recipe).noise_share
        if share is not None:
            return (machine.mean(cells, share.scale, share.flips, entropy),)
        return machine.histogram(cells, Decimal(members["epsilon0"]), entropy)
