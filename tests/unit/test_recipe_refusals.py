"""What refusals say: every rule once, with what is wrong and what would pass."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client_agent import device_rules
from client_agent.config import AgentConfig, Budget
from client_agent.journal import Entry, State
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, RecipeKit, changed
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.ledger.account import Charge, Cost
from tacit.messages import HpkeConfig
from tacit.methods.registry import METHODS
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import slot_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, AggregatorPin, Policy
from tacit.rules.table import RULES, check
from tacit.time_format import format_second

KIT = RecipeKit()
GOOD = KIT.recipe()
FULL = KIT.recipe(rate=Decimal(1), population=300)
CLAIMED, BESIDE = (GOOD.privacy.epsilon[name] for name in ("aggregator", "aggregator_with_relay"))
OTHER_KEY = b64url(bytes(31) + b"\x01")
LEADER = GOOD.parties.servers()["leader"]
START, END = EPOCH * EPOCH_SECONDS, (EPOCH + 1) * EPOCH_SECONDS
P384 = b64url(HpkeConfig(9, 0x0011, 2, 2, bytes(97)).encode())
ACTIVE = Context(
    stage=Stage.ACTIVE,
    now=NOW,
    leaf=KIT.recipe_leaf(GOOD),
    index=0,
    slot_owner=GOOD.hash,
    directory=KIT.directory(),
    opt_ins={role: KIT.opt_in(GOOD, role) for role in ("leader", "helper")},
)
POLICY = Policy()
LEADER_ALONE = {"opt_ins": {"leader": KIT.opt_in(GOOD, "leader")}}


def helper_saying(update: dict[str, Any]) -> dict[str, Any]:
    """The context in which the helper's opt-in says something else."""
    helper = KIT.opt_in(GOOD, "helper").model_copy(update=update)
    return {"opt_ins": {**ACTIVE.opt_ins, "helper": helper}}


@dataclass(frozen=True)
class Case:
    """``rule`` refuses ``recipe`` under a policy and a context that differ from good ones by these; its words hold
    ``wrong`` and ``passing``."""

    rule: str
    recipe: Recipe
    wrong: str
    passing: str
    policy: dict[str, Any] = dataclasses.field(default_factory=dict)
    context: dict[str, Any] = dataclasses.field(default_factory=dict)


def bad(rule: str, path: str, value: Any, wrong: str, passing: str, *, of: Recipe = GOOD, **policy: Any) -> Case:
    """The recipe ``of`` with one member changed."""
    return Case(rule, changed(of, path, value), wrong, passing, policy)


PARTIES = [
    bad("analyst-unknown", "parties.analyst.operator", "someone.example", "someone.example", "trusts analyst.example"),
    bad("analyst-unknown", "parties.analyst.signing_key", OTHER_KEY, OTHER_KEY, b64url(KIT.keys["analyst"].public)),
    bad("issuer-unknown", "parties.issuer.signing_key", OTHER_KEY, OTHER_KEY, b64url(KIT.keys["issuer"].public)),
    bad("gateway-unknown", "parties.gateway.operator", "someone.example", "someone.example", "trusts gateway.example"),
    Case("aggregator-unknown", GOOD, "leader leader.example", "trusts nobody", {"aggregators": {}}),
    Case(
        "aggregator-unknown",
        GOOD,
        f"is at {LEADER.url}",
        "trusts http://127.0.0.1:9 with",
        {
            "aggregators": {
                LEADER.operator: AggregatorPin(url="http://127.0.0.1:9", signing_key=LEADER.signing_key),
            }
        },
    ),
    bad("operators-equal", "parties.relay.operator", "gateway.example", "both run by gateway.example", "different"),
    bad(
        "url-invalid", "parties.leader.url", "https://a.example/", "https://a.example/ ends", "https://a.example passes"
    ),
    bad("url-invalid", "parties.leader.url", "http://a.example", "plain http", "https://a.example passes"),
    bad("url-invalid", "parties.helper.url", "ftp://a.example", "ftp", "https://host[:port][/path] passes"),
    bad("url-invalid", "parties.helper.url", "https://u@a.example", "no user", "https://host[:port][/path] passes"),
    bad("url-invalid", "parties.helper.url", LEADER.url, LEADER.url, "each needs its own"),
    bad("hpke-key-invalid", "parties.helper.hpke_config", LEADER.hpke_config, "helper and leader", "its own"),
    bad("hpke-key-invalid", "parties.helper.hpke_config", P384, "0x0011, 0x0002, 0x0002", "use X25519"),
    bad("hpke-key-invalid", "parties.helper.hpke_config", "AAAA", "helper: ", "base64url passes"),
    bad(
        "signing-key-invalid", "parties.gateway.signing_key", b64url(bytes(32)), "gateway: ", "generate an Ed25519 key"
    ),
    bad("signing-key-shared", "parties.helper.signing_key", LEADER.signing_key, "leader and helper", "their own"),
    bad("issuer-mismatch", "token.issuer", "elsewhere.example", "elsewhere.example", "issuer is issuer.example"),
    bad("slot-key-missing", "token.slot", 99, "no slot 99", "it has 0, 1, 2, 3"),
    bad("slot-key-missing", "token.epoch", EPOCH + 3, f"epoch {EPOCH + 3}", f"before epoch {EPOCH + 2}"),
    Case("slot-taken", GOOD, f"slot 0 of epoch {EPOCH}", "take a free one", context={"slot_owner": bytes(32)}),
]
DESIGN = [
    bad(
        "model-unsupported",
        "model",
        "telepathy",
        "model telepathy",
        "and shuffled are",
    ),
    bad("audience-not-allowed", "audience.population", "one-village", "'one-village'", "choose one of all"),
    bad("randomizer-not-allowed", "randomizer.name", "identity", "'identity'", f"{', '.join(METHODS)} are"),
    bad("randomizer-parameters", "randomizer.epsilon0", "0", "krr with epsilon0 0:", "from 0.000001 to 40"),
    bad("randomizer-parameters", "randomizer.max_weight", 3, "krr has max_weight 3", "leave it out"),
    bad("randomizer-parameters", "randomizer.scale", 3, "krr has scale 3", "leave it out"),
    bad(
        "rejection-too-likely",
        "randomizer",
        {"name": "rappor", "categories": 16, "epsilon0": "2", "max_weight": 1},
        "max_weight 1 rejects",
        "at most 0.5 passes; take 5",
    ),
    bad(
        "randomizer-vdaf-mismatch", "vdaf.length", 17, "has Prio3Histogram of length 17", "Prio3Histogram of length 16"
    ),
    bad("encoder-mismatch", "question.statistic", "count", "not buckets", "needs an encoder boolean"),
    bad("vdaf-parameters", "vdaf.chunk_length", 17, "chunk_length 17", "from 1 to 16"),
    bad("vdaf-parameters", "vdaf.length", 2000, "length 2000", "limit of 1024"),
    bad("sampling-rate", "sampling.rate", "0", "q = 0", "above 0 and at most 1"),
    bad("sampling-cap", "sampling.rate", "0.5", "q = 0.5", "cap of 0.25", max_sampling_rate="0.25"),
    bad("sampling-one-claimed", "sampling.rate", "1", CLAIMED, f"claim {BESIDE}"),
    bad("batch-floor", "batch.min_batch_size", 99, "B = 99", "floor of 100"),
    bad("batch-too-large", "batch.min_batch_size", 10_000_001, "B = 10000001", "limit of 10000000"),
    bad("batch-mode", "batch.mode", "leader_selected", "not leader_selected", "needs mode time_interval"),
    bad(
        "contributions-over-population",
        "batch.expected_contributions",
        5_000_001,
        "more than 10000000 devices send",
        "5000000; the policy's max_devices",
        max_devices=10_000_000,
    ),
    bad("contributions-below-batch", "batch.expected_contributions", 199, "199", "expect at least 200"),
    bad(
        "interval-unaligned",
        "interval.start",
        NOW + 1,
        f"start {format_second(NOW + 1)}",
        f"{format_second(NOW + 60)} and 3600 are the next",
    ),
    bad("interval-over", "interval.start", NOW - 7_200, "3600 seconds ago", f"must end after {NOW}"),
    bad("interval-too-long", "interval.duration", 32 * 86_400, str(32 * 86_400), f"limit of {31 * 86_400}"),
    bad(
        "interval-outside-epoch",
        "interval.start",
        END - 60,
        f"{format_second(END - 60)} to",
        f"a start from {format_second(START)} to {format_second(END - 3600)}",
    ),
    bad("interval-outside-epoch", "interval.duration", 172_800, "172800", f"at most {EPOCH_SECONDS} passes"),
]
CLAIMS = [
    bad("claim-parameters", "privacy.n", 250, "n = 250", "B = 200"),
    bad("claim-parameters", "privacy.epsilon0", "1", "epsilon0 1,", f"claim {GOOD.randomizer.epsilon0}"),
    bad("delta-cap", "privacy.delta", "0.00001", "delta 0.00001", "at most 0.000001"),
    bad("claim-mechanism", "privacy.mechanism", "trust-me", "says trust-me", f"claim {GOOD.privacy.mechanism}"),
    bad("claim-understated", "privacy.epsilon.aggregator", "0.5", "epsilon 0.5", f"give {CLAIMED}; claim"),
    bad("claim-cap", "privacy.epsilon.aggregator", "1.1", "epsilon 1.1", "cap of 1; lower epsilon0 or raise B"),
    bad("claim-cap", "privacy.epsilon.both_aggregators_with_relay", "9", "epsilon 9", "cap of 8; lower epsilon0 until"),
    bad("claim-half-batch", "randomizer.epsilon0", "6", "at B/2 = 100 epsilon is", "B of at least"),
    bad(
        "account-unknown",
        "privacy.account",
        "other",
        "no account other",
        "it has default",
        accounts={"default": AccountLimit(epsilon="10", delta="0.00001", window_seconds=86_400)},
    ),
    bad(
        "account-analyst",
        "privacy.account",
        "default",
        "analyst.example may not charge account default",
        "it may charge own",
        accounts={
            name: AccountLimit(epsilon="10", delta="0.00001", window_seconds=86_400, analysts=(analyst,))
            for name, analyst in (("default", "other.example"), ("own", "analyst.example"))
        },
    ),
    Case(
        "budget-spent",
        GOOD,
        f"this recipe's {CLAIMED}",
        "at most epsilon 0.3",
        {"accounts": {"default": AccountLimit(epsilon="1.3", delta="0.00001", window_seconds=86_400)}},
        {"charges": (Charge("default", b"one", "earlier", NOW, NOW + 60, Cost(Decimal(1), Decimal("0.000001"))),)},
    ),
]
LOG = [
    Case("recipe-signature", GOOD, "not signed", "analyst.example must sign it", context={"leaf": None}),
    Case(
        "recipe-signature",
        GOOD,
        "another recipe",
        f"hash {GOOD.hash_text}",
        context={"leaf": KIT.recipe_leaf(KIT.recipe(name="other"))},
    ),
    Case("recipe-in-log", GOOD, GOOD.hash_text, "publish it first", context={"index": None}),
    Case(
        "opt-in-missing",
        GOOD,
        "no opt-in of helper",
        "both must opt in",
        context=LEADER_ALONE,
    ),
    Case(
        "opt-in-mismatch",
        GOOD,
        "helper seed-2",
        "both must use the same",
        context=helper_saying({"seed_id": "seed-2"}),
    ),
    Case(
        "opt-in-mismatch",
        GOOD,
        f"task {b64url(bytes(32))}",
        f"must be for helper, {GOOD.hash_text}",
        context=helper_saying({"task_id": b64url(bytes(32))}),
    ),
    Case(
        "opt-in-mismatch",
        GOOD,
        "the opt-in of helper",
        "must confirm a verify key",
        context=helper_saying({"seed_id": None, "verify_key_confirmation": None}),
    ),
]
CASES = [*PARTIES, *DESIGN, *CLAIMS, *LOG]
ELSEWHERE = {
    "norm-unproved": "test_recipe_norm.py",
    "series-ended": "test_series_rules.py",
    "result-size": "test_shuffled_model.py",
    "importance-not-supported": "test_recipe_samples.py",
    "importance-count-leak": "test_recipe_samples.py",
    "dummies-invalid": "test_recipe_samples.py",
    "population-cap": "test_recipe_samples.py",
    "importance-devices": "test_recipe_samples.py",
    "importance-late": "test_recipe_audience.py",
    "importance-attested": "test_recipe_audience.py",
    "audience-attribute": "test_recipe_audience.py",
    "audience-rate": "test_recipe_audience.py",
    "audience-floor": "test_recipe_audience.py",
    "census-form": "test_recipe_audience.py",
    "watch-question": "test_recipe_watched.py",
    "watch-randomizer": "test_recipe_watched.py",
    "watch-form": "test_recipe_watched.py",
    "watch-period": "test_recipe_watched.py",
    "watch-work": "test_recipe_watched.py",
    "decryption-bound": "test_recipe_watched.py",
    "state-key-invalid": "test_recipe_watched.py",
    "series-missing": "test_series_rules.py",
    "series-round": "test_series_rules.py",
    "series-mismatch": "test_series_rules.py",
    "series-donation": "test_series_rules.py",
    "round-candidates": "test_encoder_prefixes.py",
    "round-model": "test_encoder_update.py",
    "series-claim": "test_series_rules.py",
}
"""Rules whose words have a table of their own, with the recipes that they need."""


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.rule}" for number, case in enumerate(CASES)])
def test_a_refusal_says_what_is_wrong_and_what_would_pass(case: Case) -> None:
    policy = KIT.policy.model_copy(update=case.policy)
    context = dataclasses.replace(ACTIVE, **case.context)
    (refusal,) = check(case.recipe, policy, context, only={case.rule})
    assert case.wrong in refusal.detail
    assert case.passing in refusal.detail
    assert "\n" not in refusal.detail
    assert len(refusal.detail) < 400


def test_every_rule_is_in_the_table() -> None:
    assert {rule.name for rule in RULES} == {case.rule for case in CASES} | set(ELSEWHERE)
    for rule, file in ELSEWHERE.items():
        assert f'"{rule}"' in Path(__file__).with_name(file).read_text()


def test_the_batch_size_that_a_refusal_names_does_pass_and_little_less_does_not() -> None:
    """For each randomizer; the answer takes a device tens of milliseconds of its processor, not seconds."""
    policy = KIT.policy.model_copy(update={"max_epsilon_half_batch": "0.5"})
    recipe = KIT.recipe()
    began = time.thread_time()
    (refusal,) = check(recipe, policy, ACTIVE, only={"claim-half-batch"})
    assert time.thread_time() - began < 1
    size = int(refusal.detail.rpartition("at least ")[2].split()[0])
    fits, close = (changed(recipe, "batch.min_batch_size", number) for number in (size, size * 19 // 20))
    assert check(fits, policy, ACTIVE, only={"claim-half-batch"}) == []
    assert check(close, policy, ACTIVE, only={"claim-half-batch"}) != []


def test_where_no_batch_that_is_looked_at_would_pass_the_knobs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def watched(recipe: Recipe, n: int | None = None) -> Any:
        looked.append(n or 0)
        return claim_of(recipe, n)

    monkeypatch.setattr("tacit.rules.privacy.claim_of", watched)
    policy = KIT.policy.model_copy(update={"max_epsilon_half_batch": "0.0001"})
    (refusal,) = check(GOOD, policy, ACTIVE, only={"claim-half-batch"})
    assert refusal.detail.endswith("over the cap of 0.0001; lower epsilon0 or raise B")
    assert len(looked) <= 10
    assert max(looked) <= 8192


def config(*, relay_url: str = GOOD.parties.relay.url, epoch_seconds: int = EPOCH_SECONDS) -> AgentConfig:
    """As much of a device's configuration as its rules read."""
    issuer = SimpleNamespace(epoch_seconds=epoch_seconds)
    return cast(AgentConfig, SimpleNamespace(relay_url=relay_url, issuer=issuer, budget=Budget()))


@pytest.mark.parametrize(
    ("rule", "own", "entries", "wrong", "passing"),
    [
        (
            "relay-mismatch",
            config(relay_url="https://mine.example"),
            [],
            GOOD.parties.relay.url,
            "https://mine.example",
        ),
        (
            "interval-outside-epoch",
            config(epoch_seconds=7200),
            [],
            f"epoch {EPOCH}, {format_second(EPOCH * 7200)} to",
            f"a start from {format_second(EPOCH * 7200)} to {format_second(EPOCH * 7200 + 3600)} passes",
        ),
        (
            "slot-taken",
            config(),
            [Entry(b"x" * 32, "first", State.SENT, NOW, slot=slot_of(GOOD))],
            f"met recipe first on slot 0 of epoch {EPOCH}",
            "take a free one",
        ),
        (
            "budget-spent",
            config(),
            [Entry(b"x" * 32, "first", State.SENT, NOW, charged_epsilon="9.9", charged_delta="0.000001")],
            f"this recipe's {CLAIMED}",
            "at most epsilon 0.1000 still fits",
        ),
        (
            "budget-spent",
            config(),
            [
                Entry(
                    b"x" * 32,
                    "first",
                    State.SENT,
                    NOW,
                    charged_epsilon="0.017",
                    charged_delta="0.000001",
                    charged_with_relay="19.5",
                )
            ],
            "claims (b), an aggregator with the relay: account device",
            "at most epsilon 0.5000 still fits",
        ),
    ],
)
def test_a_device_says_in_its_journal_what_is_wrong_and_what_would_pass(
    rule: str, own: AgentConfig, entries: list[Entry], wrong: str, passing: str
) -> None:
    context = dataclasses.replace(ACTIVE, directory=None)
    refusals: list[Refusal] = device_rules.check(GOOD, own, POLICY, context, entries)
    (refusal,) = [one for one in refusals if one.rule == rule]
    assert wrong in refusal.detail
    assert passing in refusal.detail


def test_a_clock_that_jumps_ahead_frees_no_budget() -> None:
    charged = Entry(b"x" * 32, "first", State.SENT, NOW, charged_epsilon="9.9", charged_delta="0.000001")
    for years in (1, 2, 50):
        context = dataclasses.replace(ACTIVE, now=NOW + years * 366 * 86_400)
        refused = device_rules.check(GOOD, config(), POLICY, context, [charged])
        assert "budget-spent" in [refusal.rule for refusal in refused], "the issuer signed no epoch of that time"
    ahead = dataclasses.replace(charged, decided_at=NOW + 366 * 86_400)
    assert device_rules.check(GOOD, config(), POLICY, dataclasses.replace(ACTIVE, now=NOW), [ahead]), (
        "nor one that was set back"
    )


def test_a_policy_without_local_guarantee_is_named_with_the_epsilon_that_passes() -> None:
    shares = KIT.recipe(randomizer="flips")
    (refusal,) = check(shares, Policy(), dataclasses.replace(ACTIVE, stage=Stage.DRAFT), only={"claim-cap"})
    assert "unbounded" in refusal.detail
    assert "epsilon0 of at most 8 passes" in refusal.detail


def test_a_recipe_that_takes_every_device_is_told_the_claim_to_make() -> None:
    claimed = changed(FULL, "privacy.epsilon.aggregator", "0.1")
    (refusal,) = check(claimed, KIT.policy, ACTIVE, only={"sampling-one-claimed"})
    assert f"claim {FULL.privacy.epsilon['aggregator_with_relay']} there" in refusal.detail


def test_a_refusal_names_times_as_the_recipe_has_them_and_as_people_read_them() -> None:
    assert format_second(1_800_000_000) == "1800000000 (2027-01-15 08:00:00 UTC)"
    assert [format_second(2**width) for width in (40, 53, 64, 80)] == [str(2**width) for width in (40, 53, 64, 80)]


def test_of_a_devices_budget_each_analyst_has_its_share_and_no_more() -> None:
    own = GOOD.parties.analyst
    policy = Policy(analysts={own.operator: own.signing_key, "other.example": OTHER_KEY}, shares={"other.example": 3})
    cost, context = Decimal(CLAIMED), dataclasses.replace(ACTIVE, directory=None)

    def refusal(analyst: str, spent: str, policy: Policy = policy) -> str:
        entry = Entry(b"x" * 32, "first", State.SENT, NOW, charged_epsilon=spent, charged_delta="0", analyst=analyst)
        return "; ".join(one.detail for one in device_rules.check(GOOD, config(), policy, context, [entry]))

    assert refusal("other.example", "7") == "", "what another spends of its share is not ours"
    for spender in (own.operator, ""):
        assert "account device, share of analyst.example" in refusal(spender, f"{Decimal('2.5') - cost / 2:f}")
        assert refusal(spender, f"{Decimal('2.5') - cost / 2:f}", POLICY) == "", "alone it has all of it"
    assert "account device," in refusal("other.example", f"{10 - cost / 2:f}"), "nor is more spent than there is"
    assert policy.budget_share(config().budget.account, "third.example") is None


def test_shares_of_a_budget_are_at_most_the_budget_for_any_weights() -> None:
    budget = Budget(epsilon="1.0000001", delta="0.00001").account
    names = [f"{number}.example" for number in range(7)]
    policy = Policy(
        analysts=dict.fromkeys(names, OTHER_KEY), shares={name: 1 + 3 * at for at, name in enumerate(names)}
    )
    shares = [share for name in names if (share := policy.budget_share(budget, name)) is not None]
    assert len(shares) == len(names)
    assert Decimal("0.99999") < sum(share.epsilon for share in shares) <= budget.epsilon
    assert sum(share.delta for share in shares) <= budget.delta
