"""Recipes of the two pan-private models as an analyst proposes them, and the parties of both models."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import OPERATOR, AnalyzerKit
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit
from tacit.aggregator.keys import state_key_text
from tacit.aggregator.state_keys import generate_state_key
from tacit.codec import b64url
from tacit.models.pan_private.form import PanPrivate, PanPrivateParties
from tacit.models.pan_private_single.form import PanPrivateSingle, PanPrivateSingleParties
from tacit.panprivate.elgamal import PrivateKey
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey

TWO, ONE = PanPrivate.name, PanPrivateSingle.name
CELLS = ((TWO, "count"), (TWO, "histogram"), (ONE, "count"), (ONE, "histogram"), (ONE, "mean"))
"""The statistics that each of the two models answers."""
STEP_SECONDS, STEPS = 60, 10
MOST = 4


class WatchingKit(AnalyzerKit):
    """All parties of recipes of both models; leader and helper have keys for the devices' state."""

    def __init__(self, seed: bytes | int = 0) -> None:
        super().__init__(seed)
        self._without_analyzer = RecipeKit(seed)
        entropy = SeededEntropy(seed).child("watching kit")
        self.state_keys: dict[str, PrivateKey] = {role: generate_state_key(entropy) for role in ("leader", "helper")}

    @property
    def default_policy(self) -> Policy:
        """The default policy, with this cast's analyst, issuer, gateway and servers as the trusted ones."""
        usual = self._without_analyzer.policy
        pin = AggregatorPin(url=self.url, signing_key=b64url(self.keys["analyzer"].public))
        return usual.model_copy(update={"aggregators": {**(usual.aggregators or {}), OPERATOR: pin}})

    def parties_of(self, model: str) -> PanPrivateParties | PanPrivateSingleParties:
        """The parties of recipes of ``model``, which watch an event, with the keys of their states."""
        if model == ONE:
            return PanPrivateSingleParties.model_validate(self.single_parties())
        body = self.parties().model_dump(mode="json")
        for role, key in self.state_keys.items():
            body[role] = {**body[role], "state_key": state_key_text(key)}
        return PanPrivateParties.model_validate(body)

    def watched_survey(self, model: str, statistic: str, **members: Any) -> Survey:
        """A survey that asks 1,000 devices whether they were visited in the ten minutes before NOW; ``members`` are
        members to replace."""
        start = NOW // STEP_SECONDS * STEP_SECONDS
        most = {} if statistic == "count" else {"most": MOST}
        period = {"start": start - STEPS * STEP_SECONDS, "step_seconds": STEP_SECONDS, "steps": STEPS}
        body = {
            "name": f"visits-{statistic}",
            "model": model,
            "metric": "visit",
            "statistic": statistic,
            "encoder": {"kind": "occurrences", **period, **most},
            "population": 1_000,
            "rate": Decimal("0.5"),
            "start": start,
            "duration": 3_600,
            "epoch": EPOCH,
            "slot": 0,
        }
        return Survey.from_body({**body, **members})

    def watched_recipe(self, model: str, statistic: str, **members: Any) -> Recipe:
        return propose(self.watched_survey(model, statistic, **members), self.parties_of(model))
