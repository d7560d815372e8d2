"""What the models with one server have in common on devices: the task, the analyzer's upload resource, and the meaning
of its answers (P24)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit import bhttp, media_types
from tacit.answers import is_final
from tacit.errors import REFUSAL_PREFIX, Refusal
from tacit.messages import REPORT_ID_SIZE
from tacit.models.interfaces.device import Channel, DeviceSide, Fate, Submission, Verdict
from tacit.models.one_server import ANALYZER
from tacit.ports import Entropy
from tacit.problem import party_of, problem_type
from tacit.recipe.derive import hpke_config, slot_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import INVALID, OVER, REPLAYED, Contents, OneServerTask
from tacit.tokens.binding import Preimages
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import Token

TERMINAL = (INVALID, OVER, REPLAYED)
"""Refusals of the report itself. After any other answer (for example, the analyzer does not know the recipe yet) a
retry may succeed."""


def task_of_one_server(
    recipe: Recipe,
    token_key_spki: bytes,
    cells: int,
    payload_size: int,
    *,
    role: str = ANALYZER,
    passes_on: bool = False,
) -> OneServerTask:
    """The recipe's task at the server in this ``role``: a report has a payload of ``payload_size`` bytes, an aggregate
    ``cells`` numbers; ``token_key_spki`` is the slot's key from the issuer's directory leaf; ``passes_on`` as in
    ``OneServerTask``. Raises refusal ``model-unsupported`` for a recipe without such a server, ``hpke-key-invalid`` or
    ``task-hpke``."""
    server = recipe.parties.server(role)
    if server is None:
        raise Refusal("model-unsupported", f"the recipe's model has no {role} that takes reports")
    return OneServerTask(
        recipe_hash=recipe.hash,
        role=role,
        server_url=server.url,
        hpke_config=hpke_config(server.hpke_config),
        cells=cells,
        payload_size=payload_size,
        start_seconds=recipe.interval.start,
        end_seconds=recipe.interval.end,
        min_batch_size=recipe.batch.min_batch_size,
        expected_contributions=recipe.batch.expected_contributions,
        slot=slot_of(recipe),
        token_key_spki=token_key_spki,
        passes_on=passes_on,
    )


@dataclass(frozen=True)
class AnalyzerChannel(Channel):
    """The upload resource of one recipe at the server that takes its reports."""

    task: OneServerTask
    verifier: TokenVerifier

    @property
    def url(self) -> str:
        """The server's URL for reports."""
        return self.task.url("reports")

    @abstractmethod
    def payload(self, measurement: Any, entropy: Entropy) -> bytes:
        """The payload of a report with ``measurement``. ``ValueError`` for one that the recipe does not allow."""

    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """Seal one report to the server. ``ValueError`` for a measurement that the recipe does not allow, or a token
        for another nonce."""
        payload = self.payload(measurement, entropy)
        if not self.verifier.takes(token) or Token.decode(token).nonce != preimages.nonce:
            raise ValueError("the token does not belong to the recipe's slot, or has another nonce")
        report = self.task.seal(entropy(REPORT_ID_SIZE), Contents(token, preimages, payload), entropy)
        return Submission(self.url, media_types.ONE_SERVER_REPORT, report.encode())


class AnalyzerDevice(DeviceSide):
    """The device side of a model whose reports go to one ``server``, the analyzer unless the model says otherwise."""

    media_type: ClassVar[str] = media_types.ONE_SERVER_REPORT
    server: ClassVar[str] = ANALYZER

    def verdict(self, response: bhttp.Response) -> Verdict:
        """The meaning of the status or of a problem document. Only the known type is kept, not the document's words."""
        if 200 <= response.status < 300:
            return Verdict(Fate.STORED, "durably stored")
        problem = problem_type(response.content)
        known = next((rule for rule in TERMINAL if problem == REFUSAL_PREFIX + rule), None)
        party = party_of(response.content, f"the {self.server}")
        said = f"{party} answered {response.status}" + (f", {known}" if known else "")
        is_over = known is not None and is_final(response.status, response.content)
        return Verdict(Fate.REFUSED if is_over else Fate.LATER, said)
