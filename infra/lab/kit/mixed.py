"""Parties and recipes of secure aggregation behind a shuffler, and what devices send to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.reports import BoundToken, issuer_key, token_source
from infra.lab.kit.shuffled import SHUFFLER_OPERATOR, SHUFFLER_URL
from tacit import hpke
from tacit.aggregator.keys import HpkeKey
from tacit.codec import b64url
from tacit.messages import HpkeConfig
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.devices import device_side
from tacit.models.interfaces.mixed import MixedChannel
from tacit.models.parties import SHUFFLER
from tacit.models.secure_aggregation.form import SecureAggregationParties
from tacit.ports import Entropy
from tacit.recipe.derive import randomizer_of, slot_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.recipe.writing.survey import Survey
from tacit.signing import generate_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import OptIn


class MixedKit(RecipeKit):
    """The parties of ``RecipeKit``, and a shuffler between gateway and leader."""

    def __init__(self, seed: bytes | int = 0, urls: Mapping[str, str] | None = None) -> None:
        super().__init__(seed, urls)
        entropy = SeededEntropy(seed).child("mixed kit")
        self.keys[SHUFFLER] = generate_signing_key(entropy)
        pair = hpke.generate_key_pair(entropy)
        config = HpkeConfig(22, hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM, pair.public)
        self.shuffler_key = HpkeKey(config, pair)

    @property
    def policy(self) -> Policy:
        """The policy of ``RecipeKit``, with the shuffler as another trusted server."""
        usual = super().policy
        pin = AggregatorPin(url=SHUFFLER_URL, signing_key=self._public(SHUFFLER))
        return usual.model_copy(update={"aggregators": {**(usual.aggregators or {}), SHUFFLER_OPERATOR: pin}})

    def parties(self) -> SecureAggregationParties:
        """The recipe's member ``parties``, with the shuffler."""
        shuffler = {
            "operator": SHUFFLER_OPERATOR,
            "url": SHUFFLER_URL,
            "hpke_config": b64url(self.shuffler_key.config.encode()),
            "signing_key": self._public(SHUFFLER),
        }
        body = {**super().parties().model_dump(mode="json"), SHUFFLER: shuffler}
        return SecureAggregationParties.model_validate(body)

    def survey(self, **options: Any) -> Survey:
        """The survey of ``RecipeKit``, whose reports pass the shuffler."""
        return super().survey(**{"through": SHUFFLER, **options})

    def shuffler_opt_in(self, recipe: Recipe) -> SignedLeaf:
        body = OptIn(recipe_hash=recipe.hash_text, task_id=recipe.hash_text, role=SHUFFLER)
        return sign_leaf(LeafType.OPT_IN, body, SHUFFLER_OPERATOR, self.keys[SHUFFLER])


@dataclass
class MixedDevices:
    """A population of devices of one recipe: their tokens, and the reports that they seal to the shuffler."""

    recipe: Recipe
    entropy: Entropy = field(default_factory=lambda: SeededEntropy(b"devices"))

    def __post_init__(self) -> None:
        channel = device_side(self.recipe.model).channel(self.recipe, issuer_key().token_key.spki)
        if not isinstance(channel, MixedChannel):
            raise TypeError("the recipe names no shuffler")
        self.channel: MixedChannel = channel
        self._tokens = token_source(issuer_key(), self.entropy)

    def token(self) -> BoundToken:
        """A fresh token of the recipe's slot."""
        return self._tokens(slot_of(self.recipe))

    def measurement(self, answer: int) -> Any:
        """``answer`` as the device randomises it before it is shared."""
        return device_randomiser_of(randomizer_of(self.recipe)).randomise(answer, self.entropy)

    def report(self, answer: int = 0, token: BoundToken | None = None) -> bytes:
        """The body of a report of ``answer`` as it is sent to the shuffler, with ``token`` or a fresh one."""
        bound = token or self.token()
        return self.channel.submission(self.measurement(answer), bound.token, bound.preimages, self.entropy).body
