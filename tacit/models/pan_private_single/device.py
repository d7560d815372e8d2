"""Local pan-privacy with one server: a device sends its randomised counters, which only the analyzer can open (P24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from tacit import bhttp, media_types
from tacit.errors import REFUSAL_PREFIX
from tacit.messages import REPORT_ID_SIZE
from tacit.models.faces.device import Channel, DeviceSide, Fate, Submission, Verdict
from tacit.models.faces.watched import asks_whether, made_once, most_of, public_key
from tacit.models.pan_private_single.form import PanPrivateSingle, analyzer_of
from tacit.models.pan_private_single.task import one_server_task
from tacit.panprivate.elgamal import Ciphertext
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.stored import OneServer
from tacit.ports import Entropy
from tacit.problem import party_of, problem_type
from tacit.recipe.derive import members_of, randomizer_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import INVALID, OVER, REPLAYED, Contents, OneServerTask
from tacit.tokens.binding import Preimages
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import Token

TERMINAL = (INVALID, OVER, REPLAYED)
"""Refusals of the report itself. After any other answer (for example, the analyzer does not know the recipe yet) a
retry may succeed."""


@dataclass(frozen=True)
class AnalyzerChannel(Channel):
    """The analyzer's upload resource of one recipe."""

    task: OneServerTask
    verifier: TokenVerifier

    @property
    def url(self) -> str:
        """The URL to which reports are sent."""
        return self.task.url("reports")

    def submission(
        self, measurement: Sequence[Ciphertext], token: bytes, preimages: Preimages, entropy: Entropy
    ) -> Submission:
        """Make a report from the randomised cells of a state (``tacit.panprivate.single_server``)."""
        if len(measurement) != self.task.cells:
            raise ValueError(f"an answer to this recipe must have {self.task.cells} cells")
        if not self.verifier.takes(token) or Token.decode(token).nonce != preimages.nonce:
            raise ValueError("the token does not belong to the recipe's slot, or has another nonce")
        payload = b"".join(cell.encode() for cell in measurement)
        report = self.task.seal(entropy(REPORT_ID_SIZE), Contents(token, preimages, payload), entropy)
        return Submission(self.url, PanPrivateSingleDevice.media_type, report.encode())


class PanPrivateSingleDevice(DeviceSide):
    """Model ``pan-private-single``."""

    name: ClassVar[str] = PanPrivateSingle.name
    media_type: ClassVar[str] = media_types.ONE_SERVER_REPORT

    def channel(self, recipe: Recipe, slot_key: bytes) -> AnalyzerChannel:
        """The upload resource of the recipe. Raises the refusals of ``one_server_task``."""
        task = one_server_task(recipe, slot_key)
        return AnalyzerChannel(task, TokenVerifier(slot_key, task.slot))

    def verdict(self, response: bhttp.Response) -> Verdict:
        """The meaning of the status or of a problem document. Only the known type is kept, not the document's words."""
        if 200 <= response.status < 300:
            return Verdict(Fate.STORED, "durably stored")
        problem = problem_type(response.content)
        known = next((rule for rule in TERMINAL if problem == REFUSAL_PREFIX + rule), None)
        party = party_of(response.content, "the analyzer")
        said = f"{party} answered {response.status}" + (f", {known}" if known else "")
        return Verdict(Fate.REFUSED if known else Fate.LATER, said)

    def stored(self, recipe: Recipe) -> OneServer:
        """Counters that are encrypted to the analyzer."""
        return made_once(recipe, lambda: self._made(recipe))

    def _made(self, recipe: Recipe) -> OneServer:
        key = public_key(analyzer_of(recipe.parties).state_key)
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
