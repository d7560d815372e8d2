"""Parties and recipes of model ``shuffled``, and bundles as devices make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import SLOT, AnalyzerKit, claimed
from infra.lab.kit.recipes import EPOCH, NOW
from infra.lab.kit.reports import BoundToken, issuer_key, token_source
from tacit import hpke
from tacit.aggregator.keys import HpkeKey
from tacit.codec import b64url
from tacit.messages import HpkeConfig
from tacit.methods.randomisers.shuffled import shuffled_randomiser_of
from tacit.models.parties import SHUFFLER
from tacit.models.shuffled.device import ShuffledChannel, ShuffledDevice
from tacit.models.shuffled.form import Shuffled, ShuffledParties
from tacit.models.shuffled.task import counts_of
from tacit.ports import Entropy
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.signing import generate_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import OptIn, Void

SHUFFLER_URL = "http://127.0.0.1:8089"
SHUFFLER_OPERATOR = "shuffler.example"
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}


class ShuffledKit(AnalyzerKit):
    """All parties of a recipe of this model, with their keys."""

    def __init__(self, seed: bytes | int = 0, urls: Mapping[str, str] | None = None) -> None:
        super().__init__(seed, urls)
        entropy = SeededEntropy(seed).child("shuffled kit")
        self.keys[SHUFFLER] = generate_signing_key(entropy)
        pair, suite = hpke.generate_key_pair(entropy), hpke.DEFAULT_SUITE
        self.shuffler_key = HpkeKey(HpkeConfig(22, suite.kem_id, suite.kdf_id, suite.aead_id, pair.public), pair)
        self.shuffler_url = {SHUFFLER: SHUFFLER_URL, **(urls or {})}[SHUFFLER]

    @property
    def policy(self) -> Policy:
        """The policy of ``AnalyzerKit``, with the shuffler as another trusted server."""
        usual = super().policy
        pin = AggregatorPin(url=self.shuffler_url, signing_key=self._public(SHUFFLER))
        return usual.model_copy(update={"aggregators": {**(usual.aggregators or {}), SHUFFLER_OPERATOR: pin}})

    def shuffled_parties(self) -> ShuffledParties:
        """The parties of recipes of model ``shuffled``."""
        body = self.single_parties()
        del body["analyzer"]["state_key"]
        shuffler = {
            "operator": SHUFFLER_OPERATOR,
            "url": self.shuffler_url,
            "hpke_config": b64url(self.shuffler_key.config.encode()),
            "signing_key": self._public(SHUFFLER),
        }
        return ShuffledParties.model_validate({**body, SHUFFLER: shuffler})

    def stated(self, randomizer: Mapping[str, Any], rate: str = "1", **batch: Any) -> Recipe:
        """A recipe with exactly this ``randomizer``: a count where it has one category, otherwise a histogram of so
        many. ``batch``: members of its batch to replace."""
        number = randomizer["categories"]
        names = [f"c{one}" for one in range(number)]
        encoder = {"kind": "boolean"} if number == 1 else {"kind": "categories", "categories": names}
        statistic = "count" if number == 1 else "histogram"
        question = {"text": "Which?", "metric": "word", "statistic": statistic, "encoder": encoder}
        body = self.recipe().body()
        del body["vdaf"], body["privacy"]
        parties = self.shuffled_parties().model_dump(mode="json")
        body |= {"model": Shuffled.name, "parties": parties, "question": question, "randomizer": dict(randomizer)}
        return claimed({**body, "sampling": {"rate": rate}, "batch": {**body["batch"], **batch}})

    def proposed(self, **members: Any) -> Recipe:
        """The recipe of a survey of 2,000 devices; ``members`` are members to replace."""
        body = {
            "name": "words",
            "model": Shuffled.name,
            "metric": "word",
            "encoder": CATEGORIES,
            "population": 2_000,
            "rate": "1",
            "start": NOW // 60 * 60,
            "duration": 3_600,
            "epoch": EPOCH,
            "slot": 0,
        }
        return propose(Survey.from_body({**body, **members}), self.shuffled_parties())

    def opt_ins(self, recipe: Recipe) -> list[SignedLeaf]:
        return [self.analyzer_opt_in(recipe), self.shuffler_opt_in(recipe)]

    def shuffler_opt_in(self, recipe: Recipe) -> SignedLeaf:
        body = OptIn(recipe_hash=recipe.hash_text, task_id=recipe.hash_text, role=SHUFFLER)
        return sign_leaf(LeafType.OPT_IN, body, SHUFFLER_OPERATOR, self.keys[SHUFFLER])

    def shuffler_void(self, recipe: Recipe) -> SignedLeaf:
        """The shuffler's void leaf: nothing of the recipe was or will be forwarded."""
        body = Void(recipe_hash=recipe.hash_text, task_id=recipe.hash_text, role=SHUFFLER)
        return sign_leaf(LeafType.VOID, body, SHUFFLER_OPERATOR, self.keys[SHUFFLER])


@dataclass
class Bundler:
    """A population of devices of one recipe: their tokens and bundles."""

    recipe: Recipe
    entropy: Entropy
    kit: ShuffledKit = field(default_factory=ShuffledKit)

    def __post_init__(self) -> None:
        self.channel: ShuffledChannel = ShuffledDevice().channel(self.recipe, issuer_key().token_key.spki)
        self._tokens = token_source(issuer_key(), self.entropy)

    def token(self) -> BoundToken:
        """A fresh token of the recipe's slot."""
        return self._tokens(SLOT)

    def counts(self, value: Any) -> list[int]:
        """What a device with this value sends about each cell."""
        answer, method = encoder_of(self.recipe.question).encode(value), counts_of(self.recipe)
        randomiser = shuffled_randomiser_of(method)
        return randomiser.randomise(answer, self.entropy) if isinstance(answer, int) else randomiser.dummy(self.entropy)

    def report(self, counts: list[int], token: BoundToken | None = None) -> bytes:
        """An encoded report with a bundle of these counts."""
        bound = token or self.token()
        return self.channel.submission(counts, bound.token, bound.preimages, self.entropy).body

    def reports(self, *values: Any) -> list[bytes]:
        """One report for each of ``values``, in order, each of a device of its own."""
        return [self.report(self.counts(value)) for value in values]
