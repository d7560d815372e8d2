"""Parties with keys, and recipes and leaves signed by them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import count
from math import isqrt
from typing import Any, Literal

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import issuer_key
from tacit import hpke
from tacit.codec import b64url
from tacit.messages import HpkeConfig, Role
from tacit.methods.rappor import Rappor
from tacit.models.secure_aggregation.form import SecureAggregationParties, aggregators_of
from tacit.ohttp import generate_key_config
from tacit.recipe.derive import task_id, vdaf_of
from tacit.recipe.encoder import answer_label
from tacit.recipe.encoder_specs import Attributes, Buckets
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.recipe.series import LOG_SIGNER, Series
from tacit.recipe.writing.builder import propose, with_claim
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import ImportancePlan, Survey
from tacit.signing import SigningKey, generate_signing_key
from tacit.task import verify_key_confirmation, verify_key_of
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import CensusShare, OptIn, SeriesEnd, Void
from tacit.tlog.token_directories import IssuerDirectory, SlotKey
from tacit.tokens.blind_rsa import TokenKey

EPOCH = 20_000
EPOCH_SECONDS = 86_400
NOW = EPOCH * EPOCH_SECONDS + 3_600
KEY_ROTATION = 30 * EPOCH_SECONDS
KEY_PERIOD = NOW // KEY_ROTATION
"""``NOW``: one hour into the epoch, in POSIX seconds; ``KEY_PERIOD``: the gateway's key period at that time."""

SIGNERS = ("analyst", "leader", "helper", "gateway", "issuer", "log")
URLS = {
    "leader": "http://127.0.0.1:8081",
    "helper": "http://127.0.0.1:8082",
    "relay": "http://127.0.0.1:8083",
}
FACTORS = 1 << 16
"""Below it no prime divides a modulus of the kit, so that a message or factor of blinding has no inverse with a
probability of about 2 / (FACTORS log FACTORS) = 3e-6."""
Change = tuple[str, str, Any]
"""A rule, the member of a recipe that breaks it, and its value."""

VISITS = Question(
    text="How many doctor visits?",
    metric="mdvis",
    encoder=Buckets(kind="buckets", edges=tuple(range(16))),
    statistic="histogram",
)


CENSUS_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {"os": ("linux", "mac"), "locale": ("de", "en", "fr")}
"""Allowed in the tests' policies; the census of ``RecipeKit.census`` counts their conjunctions."""


def census_question(attributes: Mapping[str, tuple[str, ...]] | None = None) -> Question:
    """A census over ``attributes`` (name -> categories; default: ``CENSUS_ATTRIBUTES``)."""
    asked = dict(attributes or CENSUS_ATTRIBUTES)
    encoder = Attributes(kind="attributes", attributes=asked, missing="none of these")
    return Question(text="Which devices are there?", metric="attributes", encoder=encoder, statistic="histogram")


def survey_from(**options: Any) -> Survey:
    """Make a survey from its members, or in short form: ``question`` (asked as it is, without further categories) and
    ``token`` of a recipe, and ``default`` (encoded), ``default_rate``, ``non_default_share`` and ``devices`` for
    importance sampling. Raises ``FieldError``."""
    question, token = options.pop("question"), options.pop("token", None)
    body: dict[str, Any] = {"missing": "ignore", **dict(question), **options}
    del body["round_input"]
    if token is not None:
        body |= {"epoch": token.epoch, "slot": token.slot}
    plan = {name: body.pop(name) for name in ImportancePlan.model_fields if name in body}
    if "default" in plan:
        plan["default"] = answer_label(question, plan["default"])
    return Survey.from_body({**body, **({"importance": plan} if plan else {})})


class RecipeKit:
    """All parties of a recipe with all their keys, which no single party ever holds; reproducible by ``seed``.

    ``urls`` replaces addresses of leader, helper and relay.
    """

    def __init__(self, seed: bytes | int = 0, urls: Mapping[str, str] | None = None) -> None:
        self._entropy = SeededEntropy(seed).child("recipe kit")
        self.keys: dict[str, SigningKey] = {name: generate_signing_key(self._entropy) for name in SIGNERS}
        self.key_pairs = {
            role: hpke.generate_key_pair(self._entropy) for role in (Role.COLLECTOR, Role.LEADER, Role.HELPER)
        }
        self.verify_key_seed = self._entropy(32)
        self._urls = {**URLS, **(urls or {})}

    @property
    def log_policy(self) -> LogPolicy:
        """What a reader demands of the cast's log: its key, and no witness."""
        return LogPolicy(NoteKey("log.example/tacit", self.keys["log"].public))

    @property
    def policy(self) -> Policy:
        """The default policy, with this cast's analyst, issuer, gateway and aggregators as the trusted ones, and more
        devices, so that recipes may state the usual contributions beside a rate at which no coin says yes."""
        return Policy(
            max_devices=10**14,
            analysts={"analyst.example": self._public("analyst")},
            issuers={"issuer.example": self._public("issuer")},
            gateways={"gateway.example": self._public("gateway")},
            aggregators={
                f"{name}.example": AggregatorPin(url=self._urls[name], signing_key=self._public(name))
                for name in ("leader", "helper")
            },
        )

    def _public(self, name: str) -> str:
        return b64url(self.keys[name].public)

    def hpke_config(self, role: Role) -> HpkeConfig:
        """The X25519 configuration of a role, whose id is 10 + ``role``."""
        public = self.key_pairs[role].public
        return HpkeConfig(10 + role, hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM, public)

    def parties(self) -> SecureAggregationParties:
        """The parties of recipes of model ``secure-aggregation``."""
        collector, leader, helper = (
            b64url(self.hpke_config(role).encode()) for role in (Role.COLLECTOR, Role.LEADER, Role.HELPER)
        )
        named = {name: {"operator": f"{name}.example", "signing_key": self._public(name)} for name in SIGNERS[:5]}
        body: dict[str, Any] = {
            **named,
            "leader": {**named["leader"], "url": self._urls["leader"], "hpke_config": leader},
            "helper": {**named["helper"], "url": self._urls["helper"], "hpke_config": helper},
            "collector": {"operator": "analyst.example", "hpke_config": collector},
            "relay": {"operator": "relay.example", "url": self._urls["relay"]},
            "attester": {"operator": "attester.example"},
            "issuer": {**named["issuer"], "name": "issuer.example"},
        }
        return SecureAggregationParties.model_validate(body)

    def recipe(self, **options: Any) -> Recipe:
        """A recipe that passes every rule of ``policy`` at NOW: 500 devices, q = 0.5, B = 200, 16 buckets.

        ``options`` are those of ``survey``.
        """
        return propose(self.survey(**options), self.parties())

    def survey(self, **options: Any) -> Survey:
        """The survey that ``recipe`` proposes; ``options`` replace or add members (``survey_from``)."""
        defaults: dict[str, Any] = {
            "name": "doctor-visits",
            "question": VISITS,
            "population": 500,
            "epoch": EPOCH,
            "slot": 0,
            "start": NOW // 60 * 60,
            "duration": 3_600,
        }
        return survey_from(**{**defaults, **options})

    def series(self, rounds: int = 3, donation_slots: int | None = 3, **options: Any) -> Series:
        """A series of ``recipe`` whose rounds of one hour each pass every rule of ``policy`` at NOW: 2,000 devices,
        q = 1 spread over ``donation_slots`` slots, or if that is None an independent coin of 0.5 per round.

        ``options`` are those of ``recipe``.
        """
        rate = Decimal("0.5") if donation_slots is None else Decimal(1)
        recipe = self.recipe(**{"name": "training", "population": 2_000, "rate": rate, **options})
        start, seconds = recipe.interval.start, recipe.interval.duration
        return propose_series(recipe, Shape(rounds, donation_slots, start, seconds, per_epoch=4))

    def round(self, series: Series, index: int = 0, round_input: str | None = None) -> Recipe:
        """The recipe of round ``index`` (from 0); ``round_input``: what it asks, where rounds differ."""
        return series.round(index, series.window(index), round_input)

    def series_leaf(self, series: Series) -> SignedLeaf:
        return sign_leaf(LeafType.SERIES, series.body(), "analyst.example", self.keys["analyst"])

    def series_end_leaf(self, series: Series, role: Literal["analyst", "log"] = "analyst") -> SignedLeaf:
        """The leaf that ends the series, signed by the analyst or by the log's operator."""
        signer = LOG_SIGNER if role == "log" else series.probe.parties.analyst.operator
        body = SeriesEnd(series_hash=series.hash_text, role=role)
        return sign_leaf(LeafType.SERIES_END, body, signer, self.keys[role])

    def recipe_leaf(self, recipe: Recipe) -> SignedLeaf:
        return sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, self.keys["analyst"])

    def opt_in(self, recipe: Recipe, role: str) -> OptIn:
        """The opt-in of "leader" or "helper", with the confirmation of the task's verify key."""
        own = task_id(recipe)
        confirmation = verify_key_confirmation(verify_key_of(self.verify_key_seed, own))
        return OptIn.model_validate(
            {
                "recipe_hash": recipe.hash_text,
                "task_id": b64url(own),
                "role": role,
                "seed_id": "seed-1",
                "verify_key_confirmation": b64url(confirmation),
            }
        )

    def opt_in_leaf(self, recipe: Recipe, role: str) -> SignedLeaf:
        """``opt_in``, signed by the aggregator."""
        return sign_leaf(LeafType.OPT_IN, self.opt_in(recipe, role), f"{role}.example", self.keys[role])

    def void_leaf(self, recipe: Recipe, role: str) -> SignedLeaf:
        """The void leaf of ``role``, signed by the aggregator: nothing of the recipe was or will be released."""
        body = Void.model_validate({"recipe_hash": recipe.hash_text, "task_id": b64url(task_id(recipe)), "role": role})
        return sign_leaf(LeafType.VOID, body, f"{role}.example", self.keys[role])

    def census(self, attributes: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> Recipe:
        """A census of 500 devices, by default over ``CENSUS_ATTRIBUTES``, that every device answers (q = 1)."""
        return self.recipe(**{"name": "census", "question": census_question(attributes), "rate": Decimal(1)} | options)

    def census_share(self, census: Recipe, role: str, reports: int, counts: Sequence[int]) -> CensusShare:
        """The share of ``role``: the leader's is ``counts`` (of the first cells; the others are 0) plus a mask of 7s,
        and the helper's removes the mask."""
        vdaf = vdaf_of(census)
        counts = [*counts, *[0] * (census.randomizer.categories - len(counts))]
        share = [count + 7 for count in counts] if role == "leader" else [vdaf.field.MODULUS - 7] * len(counts)
        return CensusShare.model_validate(
            {
                "recipe_hash": census.hash_text,
                "task_id": b64url(task_id(census)),
                "role": role,
                "report_count": reports,
                "aggregate_share": b64url(vdaf.encode_agg_share(share)),
            }
        )

    def census_share_leaf(self, census: Recipe, role: str, reports: int, counts: Sequence[int]) -> SignedLeaf:
        """``census_share``, signed by the aggregator."""
        body = self.census_share(census, role, reports, counts)
        return sign_leaf(LeafType.CENSUS_SHARE, body, f"{role}.example", self.keys[role])

    def directory(self, epoch: int = EPOCH, slots: int = 4) -> IssuerDirectory:
        """A directory of the issuer. Slot 0 has the key of ``infra.lab.kit.reports.issuer_key()``; the private keys of
        the other slots are unknown."""
        spki = issuer_key().token_key.spki
        keys = [SlotKey(slot=0, token_key=b64url(spki))]
        keys += [SlotKey(slot=slot, token_key=b64url(_other_key(spki, slot))) for slot in range(1, slots)]
        return IssuerDirectory(
            issuer="issuer.example",
            epoch=epoch,
            epoch_seconds=EPOCH_SECONDS,
            request_uri="/token-request",
            keys=keys,
        )

    def directory_leaf(self, epoch: int = EPOCH, slots: int = 4) -> SignedLeaf:
        """``directory``, signed by the issuer."""
        body = self.directory(epoch, slots)
        return sign_leaf(LeafType.ISSUER_DIRECTORY, body, "issuer.example", self.keys["issuer"])

    def ohttp_leaf(self, period: int = KEY_PERIOD, previous: str | None = None) -> SignedLeaf:
        """A key set with a fresh key, by default of the period of NOW, signed by the gateway."""
        config, _ = generate_key_config(period % 256, self._entropy)
        body = OhttpConfig(
            gateway="gateway.example",
            period=period,
            rotation_seconds=KEY_ROTATION,
            active=b64url(config.encode()),
            previous=previous,
        )
        return sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", self.keys["gateway"])


@cache
def _other_key(spki: bytes, slot: int) -> bytes:
    """The token key ``spki`` with another modulus, of which nobody knows the factors. None is below ``FACTORS``: else
    blinding would fail in one run of three, for want of an inverse."""
    for number in count():
        other = spki[:-42] + number.to_bytes(2, "big") + bytes([spki[-40] ^ slot]) + spki[-39:]
        if math.gcd(TokenKey.from_spki(other).n, _small_primes()) == 1:
            return other
    raise AssertionError


@cache
def _small_primes() -> int:
    """The product of the primes below ``FACTORS``."""
    composite = {many for prime in range(2, isqrt(FACTORS) + 1) for many in range(prime * prime, FACTORS, prime)}
    return math.prod(number for number in range(2, FACTORS) if number not in composite)


def changed(recipe: Recipe, path: str, value: Any) -> Recipe:
    """The recipe with the member at ``path`` (such as ``batch.min_batch_size``) replaced."""
    body = copy.deepcopy(recipe.body())
    *parents, last = path.split(".")
    at: Any = body
    for parent in parents:
        at = at[parent]
    at[last] = value
    return Recipe.from_body(body)


def with_sampling(recipe: Recipe, **members: Any) -> Recipe:
    """The recipe with other members of ``sampling`` (``importance``, ``dummies``, ``rate``), and the claim that follows
    from them."""
    body = copy.deepcopy(recipe.body())
    del body["privacy"]
    body["sampling"].update(members)
    return with_claim(body, delta=recipe.delta, account=recipe.privacy.account)


def bad_recipes(kit: RecipeKit) -> list[tuple[str, Recipe]]:
    """(rule, recipe) pairs: each recipe breaks the rule under ``kit.policy`` at NOW; some also break others. All are
    well formed, so that they can be signed."""
    good = kit.recipe()
    changes = [*_bad_parties(good), *_bad_questions(), *_bad_batches(), *_bad_samples(), *_bad_claims()]
    return [(rule, changed(good, path, value)) for rule, path, value in changes]


def _bad_parties(good: Recipe) -> list[Change]:
    other_key = b64url(bytes(31) + b"\x01")
    return [
        *(("model-unsupported", "model", model) for model in ("telepathy", "sorted", "hearsay")),
        ("analyst-unknown", "parties.analyst.operator", "someone.example"),
        ("analyst-unknown", "parties.analyst.signing_key", other_key),
        ("issuer-unknown", "parties.issuer.signing_key", other_key),
        ("issuer-mismatch", "token.issuer", "elsewhere.example"),
        ("gateway-unknown", "parties.gateway.signing_key", other_key),
        ("operators-equal", "parties.relay.operator", "gateway.example"),
        ("operators-equal", "parties.helper.operator", "leader.example"),
        ("operators-equal", "parties.attester.operator", "issuer.example"),
        ("operators-equal", "parties.attester.operator", "analyst.example"),
        ("operators-equal", "parties.issuer.operator", "helper.example"),
        ("url-invalid", "parties.leader.url", "http://leader.example"),
        ("url-invalid", "parties.leader.url", "https://leader.example/"),
        ("url-invalid", "parties.helper.url", "ftp://helper.example"),
        ("url-invalid", "parties.helper.url", "https://user@helper.example"),
        ("url-invalid", "parties.helper.url", aggregators_of(good.parties).leader.url),
        ("url-invalid", "parties.relay.url", "https://relay.example?x"),
        ("url-invalid", "parties.relay.url", "https://relay.example:port"),
        *_bad_hpke_keys(good),
        ("signing-key-invalid", "parties.leader.signing_key", b64url(bytes(32))),
        ("signing-key-shared", "parties.helper.signing_key", aggregators_of(good.parties).leader.signing_key),
    ]


def _bad_hpke_keys(good: Recipe) -> list[Change]:
    weak = b64url(HpkeConfig(9, 0x0010, 1, 1, bytes(65)).encode())
    zero = b64url(HpkeConfig(9, 0x0020, 1, 1, bytes(32)).encode())
    return [
        ("hpke-key-invalid", "parties.leader.hpke_config", aggregators_of(good.parties).collector.hpke_config),
        ("hpke-key-invalid", "parties.leader.hpke_config", "AAAA"),
        ("hpke-key-invalid", "parties.collector.hpke_config", weak),
        ("hpke-key-invalid", "parties.helper.hpke_config", zero),
    ]


def _bad_questions() -> list[Change]:
    return [
        ("audience-not-allowed", "audience.population", "one-village"),
        ("randomizer-not-allowed", "randomizer.name", "identity"),
        ("randomizer-parameters", "randomizer.epsilon0", "0"),
        ("randomizer-parameters", "randomizer.max_weight", 3),
        (
            "rejection-too-likely",
            "randomizer",
            {"name": Rappor.NAME, "categories": 16, "epsilon0": "2", "max_weight": 1},
        ),
        ("randomizer-vdaf-mismatch", "vdaf.name", "Prio3Count"),
        ("randomizer-vdaf-mismatch", "vdaf.length", 17),
        ("encoder-mismatch", "question.encoder", {"kind": "categories", "categories": ["a", "b"]}),
        ("encoder-mismatch", "question.statistic", "count"),
        ("encoder-mismatch", "question.encoder", {"kind": "boolean"}),
        ("vdaf-parameters", "vdaf.chunk_length", 17),
        ("vdaf-parameters", "vdaf.length", 2000),
        ("vdaf-parameters", "vdaf", {"name": "Prio3MultihotCountVec", "length": 16, "chunk_length": 6}),
    ]


def _bad_batches() -> list[Change]:
    return [
        ("sampling-rate", "sampling.rate", "0"),
        ("sampling-rate", "sampling.rate", "1.5"),
        ("sampling-cap", "sampling.rate", "1.5"),
        ("sampling-one-claimed", "sampling.rate", "1"),
        ("batch-floor", "batch.min_batch_size", 99),
        ("batch-too-large", "batch.min_batch_size", 10_000_001),
        ("batch-mode", "batch.mode", "leader_selected"),
        ("batch-mode", "batch.close", "at_B"),
        ("contributions-below-batch", "batch.expected_contributions", 199),
        ("contributions-over-population", "batch.expected_contributions", 10**15),
        ("interval-unaligned", "interval.start", NOW + 1),
        ("interval-over", "interval.start", NOW - 7_200),
        ("interval-too-long", "interval.duration", 32 * 86_400),
        ("interval-outside-epoch", "interval.start", (EPOCH + 1) * EPOCH_SECONDS - 60),
        ("interval-outside-epoch", "interval.start", (EPOCH + 1) * EPOCH_SECONDS + 60),
        ("slot-key-missing", "token.epoch", EPOCH + 3),
        ("slot-key-missing", "token.slot", 99),
    ]


def _bad_samples() -> list[Change]:
    def sample(
        rate: str = "0.5",
        *,
        lower: tuple[int, str] | None = None,
        devices: int | None = None,
        dummies: tuple[str, int] | None = None,
    ) -> Any:
        counted = {} if devices is None else {"devices": devices}
        importance = {} if lower is None else {"importance": {"default": lower[0], "default_rate": lower[1], **counted}}
        added = {} if dummies is None else {"dummies": {"intensity": dummies[0], "population": dummies[1]}}
        return {"rate": rate, **importance, **added}

    return [
        *(
            ("importance-not-supported", "sampling", sample(lower=lower))
            for lower in ((16, "0.1"), (0, "0.6"), (0, "0"))
        ),
        ("importance-not-supported", "sampling", sample("1", lower=(0, "0.1"))),
        ("importance-count-leak", "sampling", sample("0.999", lower=(0, "0.1"))),
        *(
            ("dummies-invalid", "sampling", sample(dummies=dummies))
            for dummies in (("0", 500), ("3", 500), ("150", 500), ("300", 500), ("50", 199), ("50", 1_000_000))
        ),
        ("dummies-invalid", "sampling", sample("1", dummies=("50", 500))),
        ("population-cap", "sampling", sample(lower=(0, "0.1"), devices=1_000_001)),
        ("importance-devices", "sampling", sample(lower=(0, "0.1"), devices=100)),
        ("importance-count-leak", "sampling", sample(lower=(0, "0.1"))),
    ]


def _bad_claims() -> list[Change]:
    return [
        ("claim-parameters", "privacy.n", 250),
        ("claim-parameters", "privacy.epsilon0", "1"),
        ("delta-cap", "privacy.delta", "0.00001"),
        ("delta-cap", "privacy.delta", "0"),
        ("claim-mechanism", "privacy.mechanism", "shuffle-fmt22"),
        ("claim-mechanism", "privacy.mechanism", "trust-me"),
        ("claim-understated", "privacy.epsilon.aggregator", "0.8"),
        ("claim-understated", "privacy.epsilon.aggregator_with_relay", "0.999"),
        ("claim-understated", "privacy.epsilon.both_aggregators", "0.1"),
        ("claim-understated", "privacy.epsilon.both_aggregators_with_relay", "1"),
        ("claim-understated", "randomizer.epsilon0", "3.5"),
        ("claim-cap", "privacy.epsilon.aggregator", "1.1"),
        ("claim-cap", "privacy.epsilon.both_aggregators_with_relay", "9"),
        ("claim-half-batch", "randomizer.epsilon0", "6"),
    ]
