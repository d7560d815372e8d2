"""Parties and recipes of model ``pan-private-single``, built without an analyst's commands, and reports as devices make
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit
from infra.lab.kit.reports import BoundToken, issuer_key, token_source
from tacit import hpke
from tacit.aggregator.keys import HpkeKey, state_key_text
from tacit.aggregator.state_keys import generate_state_key
from tacit.codec import b64url
from tacit.dp.claim import RELATION, UNBOUNDED
from tacit.messages import HpkeConfig
from tacit.methods.flips import Flips
from tacit.methods.planners.registry import planner_of
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.models.forms import form_of
from tacit.models.interfaces.one_server import AnalyzerChannel
from tacit.models.pan_private_single.device import PanPrivateSingleDevice
from tacit.panprivate.elgamal import Ciphertext, PrivateKey
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.state import encrypt_publicly
from tacit.ports import Entropy
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import randomizer_of, shape_of
from tacit.recipe.encoder_specs import Occurrences as AskedOccurrences
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.signing import generate_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import OptIn, Void
from tacit.tokens.slots import Slot

ANALYZER_URL = "http://127.0.0.1:8086"
OPERATOR = "analyzer.example"
SLOT = Slot("issuer.example", EPOCH, 0)
STEP_SECONDS, STEPS = 60, 10
DEFAULT_MOST = 3


class AnalyzerKit(RecipeKit):
    """All parties of a recipe of this model, with their keys. ``urls`` may also replace the analyzer's URL."""

    def __init__(self, seed: bytes | int = 0, urls: Mapping[str, str] | None = None) -> None:
        super().__init__(seed, urls)
        entropy = SeededEntropy(seed).child("analyzer kit")
        self.keys["analyzer"] = generate_signing_key(entropy)
        pair = hpke.generate_key_pair(entropy)
        suite = hpke.DEFAULT_SUITE
        self.hpke_key = HpkeKey(HpkeConfig(21, suite.kem_id, suite.kdf_id, suite.aead_id, pair.public), pair)
        self.state_key: PrivateKey = generate_state_key(entropy)
        self.url = {"analyzer": ANALYZER_URL, **(urls or {})}["analyzer"]

    @property
    def policy(self) -> Policy:
        """The policy of ``RecipeKit``, with the analyzer as the trusted server, and without caps on claims."""
        pin = AggregatorPin(url=self.url, signing_key=self._public("analyzer"))
        caps = {"max_epsilon_aggregator": "9", "max_epsilon_half_batch": "9", "allow_unbounded_local": True}
        return super().policy.model_copy(update={"aggregators": {OPERATOR: pin}, **caps})

    def single_parties(self) -> dict[str, Any]:
        """The member ``parties`` of a recipe with one server, as JSON."""
        found = self.parties().model_dump(mode="json")
        own = {name: found[name] for name in ("analyst", "relay", "gateway", "attester", "issuer")}
        analyzer = {
            "operator": OPERATOR,
            "url": self.url,
            "hpke_config": b64url(self.hpke_key.config.encode()),
            "signing_key": self._public("analyzer"),
            "state_key": state_key_text(self.state_key),
        }
        return {**own, "analyzer": analyzer}

    def single_recipe(self, statistic: str = "count", *, most: int | None = None, **batch: Any) -> Recipe:
        """Make a recipe that asks every device how often it was visited in the last ten minutes. It runs for an hour
        from NOW, with B = 200. ``most``: k (default: 1 for a count, otherwise 3); ``batch``: members of its batch to
        replace."""
        most = most or (1 if statistic == "count" else DEFAULT_MOST)
        encoder = {"kind": "occurrences", "start": NOW - STEPS * STEP_SECONDS, "step_seconds": STEP_SECONDS}
        question = {
            "text": "How often was it visited?",
            "metric": "visit",
            "statistic": statistic,
            "encoder": {**encoder, "steps": STEPS, "most": most},
        }
        body = self.recipe().body()
        del body["vdaf"], body["privacy"]
        body = {**body, "model": "pan-private-single", "parties": self.single_parties(), "question": question}
        body["randomizer"] = _randomizer(question, statistic, most)
        body["sampling"] = {"rate": "1"}
        body["batch"] = {**body["batch"], **batch}
        return claimed(body)

    def analyzer_opt_in(self, recipe: Recipe) -> SignedLeaf:
        body = OptIn(recipe_hash=recipe.hash_text, task_id=recipe.hash_text, role="analyzer")
        return sign_leaf(LeafType.OPT_IN, body, OPERATOR, self.keys["analyzer"])

    def analyzer_void(self, recipe: Recipe) -> SignedLeaf:
        """The analyzer's void leaf: nothing of the recipe was or will be released."""
        body = Void(recipe_hash=recipe.hash_text, task_id=recipe.hash_text, role="analyzer")
        return sign_leaf(LeafType.VOID, body, OPERATOR, self.keys["analyzer"])


def _randomizer(question: dict[str, Any], statistic: str, most: int) -> dict[str, Any]:
    if statistic == "mean":
        shape = shape_of(Question.model_validate(question))
        members = planner_of(Flips).tuned(shape, Decimal(4), 1, 1e-6).members()
        return {"name": Flips.NAME, **members}
    if statistic == "count":
        return {"name": Rr.NAME, "epsilon0": "4", "categories": 2}
    return {"name": Rappor.NAME, "epsilon0": "4", "categories": most + 1, "max_weight": most + 1}


def claimed(body: dict[str, Any]) -> Recipe:
    """Return the recipe of ``body`` with the claim that follows from its parameters."""
    form = form_of(body["model"])
    epsilon0 = body["randomizer"].get("epsilon0", UNBOUNDED)
    privacy = {"delta": "0.000001", "relation": RELATION, "mechanism": "none", "n": body["batch"]["min_batch_size"]}
    privacy = {**privacy, "epsilon0": epsilon0, "account": "default", "epsilon": form.unclaimed()}
    claim = claim_of(Recipe.from_body({**body, "privacy": privacy}))
    stated = {**privacy, "mechanism": claim.mechanism, "epsilon": claim.rounded_up()}
    return Recipe.from_body({**body, "privacy": stated})


@dataclass
class Reporter:
    """A population of devices of one recipe: their states, tokens and reports."""

    recipe: Recipe
    entropy: Entropy
    kit: AnalyzerKit = field(default_factory=AnalyzerKit)

    def __post_init__(self) -> None:
        spki = issuer_key().token_key.spki
        self.channel: AnalyzerChannel = PanPrivateSingleDevice().channel(self.recipe, spki)
        self._tokens = token_source(issuer_key(), self.entropy)

    def token(self) -> BoundToken:
        """A fresh token of the recipe's slot."""
        return self._tokens(SLOT)

    def cells(self, times: int) -> tuple[Ciphertext, ...]:
        """Make the randomised cells of a device on which the event happened ``times`` times, from the device's own
        state."""
        key, method = self.kit.state_key.public_key(), randomizer_of(self.recipe)
        if self.recipe.question.statistic == "count":
            machine = NonZero(key)
            state = machine.initial(self.entropy)
            for _ in range(times):
                state = machine.step(1, state, self.entropy)
            return machine.answer(state, Decimal(str(self.recipe.epsilon0)), self.entropy)
        asked = cast("AskedOccurrences", self.recipe.question.encoder)
        ladder = Occurrences(key, asked.most)
        state = ladder.initial(self.entropy)
        for _ in range(times):
            state = ladder.step(1, state, self.entropy)
        if isinstance(method, Flips):
            return (ladder.mean(state, method.scale, method.flips, self.entropy),)
        return ladder.histogram(state, Decimal(str(self.recipe.epsilon0)), self.entropy)

    def exact(self, *numbers: int) -> tuple[Ciphertext, ...]:
        """Encrypt exactly these numbers, which no honest device could choose."""
        key = self.kit.state_key.public_key()
        plain = (encrypt_publicly(RISTRETTO255.times_base(RISTRETTO255.scalar(one))) for one in numbers)
        return tuple(key.rerandomise(one, self.entropy) for one in plain)

    def report(self, cells: tuple[Ciphertext, ...], token: BoundToken | None = None) -> bytes:
        """Return an encoded report of these cells."""
        bound = token or self.token()
        return self.channel.submission(cells, bound.token, bound.preimages, self.entropy).body
