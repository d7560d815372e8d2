"""Recipes that have devices watch an event, for one server and for two, and what is in their reports."""

from __future__ import annotations

import copy
from typing import Any

from infra.lab.kit import one_server
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import AnalyzerKit, claimed
from infra.lab.kit.recipes import NOW as RECIPES_NOW
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.reports import issuer_key
from tacit import hpke
from tacit.aggregator.keys import state_key_text
from tacit.aggregator.state_keys import generate_state_key
from tacit.messages import Role, UploadRequest
from tacit.models.pan_private_single.task import one_server_task
from tacit.models.servers import server_side
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.two_servers import opened_share
from tacit.ports import Entropy
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.leaves import SignedLeaf
from tests.kit.oracles.sealing import open_input_share

SINGLE, SHARED = "pan-private-single", "pan-private"
CELLS = ((SINGLE, "count"), (SINGLE, "histogram"), (SINGLE, "mean"), (SHARED, "count"), (SHARED, "histogram"))
"""Every model and statistic in which a device keeps state."""
STEPS, STEP_SECONDS = one_server.STEPS, one_server.STEP_SECONDS
NOW = RECIPES_NOW
BEGIN = NOW - STEPS * STEP_SECONDS
"""When the first step begins; the last one ends at NOW, where the interval begins."""
MOST = 3
"""k of histograms and means."""


def scripted(first: list[bytes], then: Entropy) -> Entropy:
    """The given draws, and after them those of ``then``."""
    script = iter(first)

    def entropy(length: int) -> bytes:
        drawn = next(script, None)
        if drawn is None:
            return then(length)
        assert len(drawn) == length
        return drawn

    return entropy


class WatchedKit(AnalyzerKit):
    """All parties of such recipes, leader and helper with keys for states, too."""

    def __init__(self, seed: bytes | int = 0) -> None:
        super().__init__(seed)
        self._entropy = SeededEntropy(seed).child("watched kit")
        self.shared_keys: dict[str, PrivateKey] = {
            role: generate_state_key(self._entropy) for role in ("leader", "helper")
        }

    @property
    def policy(self) -> Policy:
        """That of ``AnalyzerKit``, with the aggregators as trusted servers, too."""
        own, others = super().policy, RecipeKit.policy.__get__(self)
        return own.model_copy(update={"aggregators": {**(others.aggregators or {}), **(own.aggregators or {})}})

    def watched(self, model: str = SINGLE, statistic: str = "count", **changes: Any) -> Recipe:
        """A recipe of ``model`` about the event ``visit`` in the ten minutes before NOW, with other members of its body
        by ``changes``."""
        body = copy.deepcopy(self.single_recipe(statistic).body() if model == SINGLE else self._shared(statistic))
        del body["privacy"]
        return claimed({**body, **changes})

    def _shared(self, statistic: str) -> dict[str, Any]:
        single, shared = self.single_recipe(statistic).body(), self.recipe().body()
        for role, key in self.shared_keys.items():
            shared["parties"][role]["state_key"] = state_key_text(key)
        asked = {name: single[name] for name in ("question", "randomizer", "sampling")}
        cells = 1 if statistic == "count" else MOST + 1
        return {
            **shared,
            **asked,
            "model": SHARED,
            "vdaf": {"name": "Prio3CountVec", "length": cells, "chunk_length": 1},
        }

    def leaves(self, recipe: Recipe) -> list[SignedLeaf]:
        """The leaves of the recipe and its opt-ins."""
        if recipe.model == SINGLE:
            return [self.recipe_leaf(recipe), self.analyzer_opt_in(recipe)]
        return [self.recipe_leaf(recipe), *(self.opt_in_leaf(recipe, role) for role in ("leader", "helper"))]

    def opened(self, recipe: Recipe, body: bytes) -> tuple[int, ...]:
        """The numbers of a report, as the server or servers read them."""
        if recipe.model == SHARED:
            return self._opened_by_two(recipe, body)
        task = one_server_task(recipe, issuer_key().token_key.spki)
        report = task.report_in(body)
        enc, sealed, aad = report.sealed.enc, report.sealed.payload, task.aad(report.report_id)
        contents = task.contents(hpke.open_(task.suite, self.hpke_key.key_pair, enc, task.info, aad, sealed))
        return server_side(recipe.model).reading(recipe, self.state_key).read(b"", contents.payload).numbers

    def _opened_by_two(self, recipe: Recipe, body: bytes) -> tuple[int, ...]:
        """The numbers as both servers compute them once HPKE is opened: decrypt, verify, add up."""
        (report,) = UploadRequest.decode(body).reports
        task = task_of(recipe, issuer_key().token_key.spki)
        vdaf, verify_key, nonce, context = task.vdaf, self._entropy(32), self._entropy(16), task.ctx
        sealed = {Role.LEADER: report.leader_encrypted_input_share, Role.HELPER: report.helper_encrypted_input_share}
        parts = []
        for agg_id, (role, share) in enumerate(sealed.items()):
            pair, metadata, public = self.key_pairs[role], report.report_metadata, report.public_share
            payload = open_input_share(task, role, pair, metadata, public, share).payload
            parts.append(opened_share(self.shared_keys[role.name.lower()], agg_id, vdaf.flp.OUTPUT_LEN, payload))
        begun = [
            vdaf.verify_init(verify_key, context, agg_id, None, nonce, None, vdaf.decode_input_share(agg_id, part))
            for agg_id, part in enumerate(parts)
        ]
        message = vdaf.verifier_shares_to_message(context, None, [verifier for _, verifier in begun])
        outs = [vdaf.verify_next(context, state, message) for state, _ in begun]
        return tuple(int(number) for number in vdaf.unshard(None, outs, 1))
