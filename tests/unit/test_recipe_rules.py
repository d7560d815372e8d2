"""The rule table: each rule refuses what it must, and a good recipe passes them all."""

from __future__ import annotations

import dataclasses
from decimal import Decimal

import pytest

from infra.lab.kit.recipes import NOW, RecipeKit, bad_recipes, changed
from tacit.codec import b64url
from tacit.errors import Refusal, UsageError
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, vdaf_spec
from tacit.recipe.encoder_specs import Boolean, Categories
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import AggregatorPin, Policy
from tacit.rules.table import RULES, check, require
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.claims import compute_claim
from tests.unit.test_recipe_audience import RULES as AUDIENCE_RULES
from tests.unit.test_recipe_watched import RULES as WATCHED_RULES

KIT = RecipeKit()
GOOD = KIT.recipe()
BAD = bad_recipes(KIT)


def context_of(recipe: Recipe, stage: Stage = Stage.PUBLISH) -> Context:
    return Context(
        stage=stage, now=NOW, leaf=KIT.recipe_leaf(recipe), index=0, slot_owner=None, directory=KIT.directory()
    )


ACTIVE = dataclasses.replace(
    context_of(GOOD, Stage.ACTIVE),
    slot_owner=GOOD.hash,
    opt_ins={role: KIT.opt_in(GOOD, role) for role in ("leader", "helper")},
)


def names(refusals: list[Refusal]) -> list[str]:
    return [refusal.rule for refusal in refusals]


def test_a_good_recipe_passes_every_rule_at_every_stage() -> None:
    for stage in Stage:
        assert check(GOOD, KIT.policy, dataclasses.replace(ACTIVE, stage=stage)) == []
    require(GOOD, KIT.policy, ACTIVE)
    assert check(GOOD, Policy(), ACTIVE) == []


@pytest.mark.parametrize(("rule", "recipe"), BAD, ids=[f"{number}-{rule}" for number, (rule, _) in enumerate(BAD)])
def test_each_mutation_is_refused_by_its_rule_in_one_line(rule: str, recipe: Recipe) -> None:
    refusals = check(recipe, KIT.policy, context_of(recipe))
    assert rule in names(refusals)
    assert all("\n" not in refusal.detail and refusal.detail for refusal in refusals)
    with pytest.raises(Refusal):
        require(recipe, KIT.policy, context_of(recipe))


def test_every_rule_has_a_test_and_a_name_of_its_own() -> None:
    tested = {rule for rule, _ in BAD} | {
        "recipe-signature",
        "recipe-in-log",
        "aggregator-unknown",
        "slot-taken",
        "series-missing",
        "series-ended",
        "series-round",
        "series-mismatch",
        "series-donation",
        "round-candidates",
        "round-model",
        "series-claim",
        "account-unknown",
        "account-analyst",
        "budget-spent",
        "opt-in-missing",
        "opt-in-mismatch",
        "norm-unproved",
        "result-size",
        *AUDIENCE_RULES,
        *WATCHED_RULES,
    }
    assert {rule.name for rule in RULES} == tested
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_recipe_without_signature_or_with_anothers_is_refused() -> None:
    other = KIT.recipe(name="other-question")
    forged = sign_leaf(LeafType.RECIPE, GOOD.body(), "analyst.example", KIT.keys["leader"])
    renamed = sign_leaf(LeafType.RECIPE, GOOD.body(), "someone.example", KIT.keys["analyst"])
    for leaf in (None, KIT.recipe_leaf(other), forged, renamed, KIT.directory_leaf()):
        assert names(check(GOOD, KIT.policy, dataclasses.replace(ACTIVE, leaf=leaf))) == ["recipe-signature"]


def test_an_aggregator_that_the_policy_does_not_pin_with_address_and_key_is_refused() -> None:
    parties = GOOD.parties
    pins = {
        party.operator: AggregatorPin(url=party.url, signing_key=party.signing_key)
        for party in parties.servers().values()
    }
    pinned = KIT.policy.model_copy(update={"aggregators": pins})
    devices = KIT.policy.model_copy(update={"aggregators": None})
    assert check(GOOD, pinned, ACTIVE) == []
    for path, value in (
        ("parties.helper.url", "https://elsewhere.example"),
        ("parties.leader.url", "https://elsewhere.example"),
        ("parties.helper.operator", "someone.example"),
        ("parties.helper.signing_key", b64url(RecipeKit(2).keys["helper"].public)),
    ):
        other = changed(GOOD, path, value)
        assert names(check(other, pinned, context_of(other))) == ["aggregator-unknown"]
        assert names(check(other, devices, context_of(other))) == []
    nobody = KIT.policy.model_copy(update={"aggregators": {}})
    assert names(check(GOOD, nobody, ACTIVE)) == ["aggregator-unknown"]


def test_a_recipe_that_is_not_in_the_log_is_refused() -> None:
    assert names(check(GOOD, KIT.policy, dataclasses.replace(ACTIVE, index=None))) == ["recipe-in-log"]


def test_a_slot_that_another_recipe_took_first_is_refused() -> None:
    assert names(check(GOOD, KIT.policy, dataclasses.replace(ACTIVE, slot_owner=bytes(32)))) == ["slot-taken"]


def test_a_recipe_needs_both_opt_ins() -> None:
    for role in ("leader", "helper"):
        others = {name: opt_in for name, opt_in in ACTIVE.opt_ins.items() if name != role}
        missing = dataclasses.replace(ACTIVE, opt_ins=others)
        (refusal,) = check(GOOD, KIT.policy, missing)
        assert (refusal.rule, role in refusal.detail) == ("opt-in-missing", True)


@pytest.mark.parametrize(
    "change",
    [
        {"seed_id": "seed-2"},
        {"verify_key_confirmation": b64url(bytes(32))},
        {"task_id": b64url(bytes(32))},
        {"recipe_hash": b64url(bytes(32))},
        {"role": "leader"},
    ],
)
def test_opt_ins_must_agree_with_the_recipe_and_each_other(change: dict[str, str]) -> None:
    helper = KIT.opt_in(GOOD, "helper").model_copy(update=change)
    wrong = dataclasses.replace(ACTIVE, opt_ins={**ACTIVE.opt_ins, "helper": helper})
    assert names(check(GOOD, KIT.policy, wrong)) == ["opt-in-mismatch"]


def test_an_opt_in_to_a_recipe_without_a_task_is_a_mismatch() -> None:
    crooked = changed(GOOD, "interval.start", NOW + 1)
    assert "opt-in-mismatch" in names(check(crooked, KIT.policy, ACTIVE))


def test_early_stages_do_not_ask_for_what_cannot_be_there_yet() -> None:
    assert check(GOOD, KIT.policy, Context(Stage.DRAFT, NOW)) == []
    assert names(check(GOOD, KIT.policy, Context(Stage.PUBLISH, NOW))) == ["recipe-signature", "slot-key-missing"]


def test_all_failures_are_reported_at_once_in_the_order_of_the_table() -> None:
    worse = changed(changed(GOOD, "batch.min_batch_size", 50), "sampling.rate", "1")
    found = names(check(worse, KIT.policy, Context(Stage.DRAFT, NOW)))
    assert found == sorted(found, key=[rule.name for rule in RULES].index)
    assert {"sampling-one-claimed", "batch-floor", "claim-parameters"} <= set(found)


def test_full_participation_is_accepted_where_no_sampling_is_claimed() -> None:
    recipe = KIT.recipe(rate=Decimal(1), population=300)
    assert recipe.privacy.mechanism == "shuffle-fmt22"
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []
    capped = KIT.policy.model_copy(update={"max_sampling_rate": "0.9"})
    assert names(check(recipe, capped, Context(Stage.DRAFT, NOW))) == ["sampling-cap"]


def test_a_policy_may_cap_the_claim_against_an_aggregator_with_the_relay() -> None:
    policy = KIT.policy.model_copy(update={"max_epsilon_aggregator_with_relay": "0.9"})
    assert names(check(GOOD, policy, ACTIVE)) == ["claim-cap"]


@pytest.mark.parametrize("url", ["http://localhost:1", "http://[::1]:1", "https://relay.example:443/path"])
def test_loopback_and_https_addresses_are_accepted(url: str) -> None:
    recipe = changed(GOOD, "parties.relay.url", url)
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []


def test_plain_http_to_other_hosts_needs_the_policys_word() -> None:
    recipe = changed(GOOD, "parties.relay.url", "http://relay.example")
    assert names(check(recipe, KIT.policy, Context(Stage.DRAFT, NOW))) == ["url-invalid"]
    policy = KIT.policy.model_copy(update={"insecure_http": True})
    assert check(recipe, policy, Context(Stage.DRAFT, NOW)) == []


def question(encoder: Categories | Boolean) -> Question:
    return Question(
        text="Which?",
        metric="choice",
        encoder=encoder,
        statistic="count" if isinstance(encoder, Boolean) else "histogram",
    )


@pytest.mark.parametrize("randomizer", ["krr", "rappor"])
@pytest.mark.parametrize("population", [300, 2_000, 20_190, 5_000_000])
@pytest.mark.parametrize("rate", ["0.5", "1"])
def test_proposals_for_categories_pass_the_rules(randomizer: str, population: int, rate: str) -> None:
    encoder = Categories(kind="categories", categories=("a", "b", "c", "d"))
    recipe = KIT.recipe(question=question(encoder), randomizer=randomizer, population=population, rate=Decimal(rate))
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []
    assert float(recipe.privacy.epsilon["aggregator_with_relay"]) <= 1


def test_a_proposal_for_a_boolean_question_is_a_count() -> None:
    recipe = KIT.recipe(question=question(Boolean(kind="boolean")))
    assert (recipe.randomizer.name, vdaf_spec(recipe).name) == ("rr", "Prio3Count")
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []


def test_a_proposal_closing_at_b_is_leader_selected() -> None:
    recipe = KIT.recipe(close="at_B")
    assert recipe.batch.mode == "leader_selected"
    assert check(recipe, KIT.policy, Context(Stage.DRAFT, NOW)) == []


def test_the_proposed_claim_is_the_accountants_rounded_up() -> None:
    claim = compute_claim(randomizer_of(GOOD), n=200, sampling_rate=0.5, delta=1e-6)
    stated = GOOD.privacy.epsilon
    assert claim["aggregator"] <= float(stated["aggregator"]) < claim["aggregator"] + 1.1e-6
    assert claim["aggregator_with_relay"] <= float(stated["aggregator_with_relay"]) <= 1
    assert stated["both_aggregators_with_relay"] == GOOD.randomizer.epsilon0
    assert GOOD.batch.expected_contributions == 250
    assert vdaf_spec(GOOD).chunk_length == 6


def test_a_proposal_that_cannot_be_made_says_so_in_one_line() -> None:
    for options, message in (
        ({"randomizer": "magic"}, r"^randomizer: 'magic' is not known"),
        ({"population": 1}, r"^no local epsilon fits B = 0"),
        ({"name": "Not A Name"}, r"^name: takes 1 to 63 of a-z"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            KIT.recipe(**options)
        assert "\n" not in str(caught.value)
