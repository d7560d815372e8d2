"""The rules on accounts, and void leaves as every reader of a log verifies them."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal

import pytest

from infra.lab.kit.bundles import signed_bundle
from infra.lab.kit.one_server import AnalyzerKit
from infra.lab.kit.recipes import NOW, RecipeKit, changed, with_sampling
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.ledger.account import Charge, ChargeState, Cost
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView, VerifiedEntry
from tacit.recipe.charges import charge_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.policy import AccountLimit, Policy, parse_policy
from tacit.rules.table import check
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.statements import Void

KIT = RecipeKit()
GOOD = KIT.recipe()
COST = Decimal(GOOD.privacy.epsilon["aggregator"])
DELTA = Decimal(GOOD.privacy.delta)


def policy(epsilon: Decimal | str = "2", delta: str = "0.00001", name: str = "default") -> Policy:
    limit = AccountLimit(epsilon=f"{epsilon}", delta=delta, window_seconds=86_400)
    return KIT.policy.model_copy(update={"accounts": {name: limit}})


def context(charges: tuple[Charge, ...] | None) -> Context:
    leaf = KIT.recipe_leaf(GOOD)
    return Context(Stage.LOGGED, NOW, leaf=leaf, index=0, directory=KIT.directory(), charges=charges)


def earlier(epsilon: Decimal | str, delta: Decimal = DELTA, number: int = 1) -> Charge:
    start, end = GOOD.interval.start - 1000, GOOD.interval.end
    cost = Cost(Decimal(epsilon), delta)
    return Charge("default", number.to_bytes(32, "big"), "earlier", start, end, cost, ChargeState.ACTIVE)


def test_an_account_that_the_policy_does_not_list_is_refused() -> None:
    (refusal,) = check(GOOD, policy(name="clinic"), context(()))
    assert (refusal.rule, refusal.detail) == ("account-unknown", "the policy has no account default; it has clinic")
    assert check(GOOD, KIT.policy, context((earlier("50"),))) == [], "a policy without accounts charges nothing"
    assert check(GOOD, policy(), context(None)) == [], "a device does not see the whole log"


def test_a_recipe_over_budget_is_refused_with_the_numbers_and_what_would_pass() -> None:
    assert check(GOOD, policy(), context((earlier("1"),))) == []
    (refusal,) = check(GOOD, policy("1.5"), context((earlier("1"),)))
    assert refusal.rule == "budget-spent"
    for words in ("account default, 1 recipe in 1 day:", "of 1.5 at delta 0.00001", f"this recipe's {COST}"):
        assert words in refusal.detail
    fitting = Decimal(refusal.detail.partition("at most epsilon ")[2].split()[0])
    assert Decimal("0.49") < fitting < COST
    smaller = changed(GOOD, "privacy.epsilon.aggregator", str(fitting))
    rules = [one.rule for one in check(smaller, policy("1.5"), context((earlier("1"),)))]
    assert "budget-spent" not in rules


def test_a_delta_that_is_spent_is_named() -> None:
    (refusal,) = check(GOOD, policy(delta="0.0000015"), context((earlier("0.1"),)))
    assert refusal.rule == "budget-spent"
    assert "delta 0.000001 of 0.00000135 is spent" in refusal.detail
    assert "at most delta 0.00000035 still fits" in refusal.detail


def test_where_everything_is_spent_nothing_more_fits() -> None:
    (refusal,) = check(GOOD, policy("1"), context((earlier("1.2"),)))
    assert refusal.detail.endswith("; nothing more fits")


def test_composition_admits_what_addition_would_not() -> None:
    many = tuple(earlier("0.1", Decimal("0.000000001"), number) for number in range(1, 200))
    assert sum(one.cost.epsilon for one in many) > 19
    assert check(GOOD, policy("12"), context(many)) == []


def test_a_recipe_does_not_pay_for_itself_twice() -> None:
    own = charge_of(GOOD, ChargeState.ACTIVE)
    assert check(GOOD, policy(COST), context((own,))) == []


@pytest.mark.parametrize(
    ("epsilon", "delta", "seconds"), [("0", "0.1", 1), ("1", "1", 1), ("1", "0", 1), ("1", "0.1", 0), ("1", "1e-9", 1)]
)
def test_an_account_that_allows_nothing_is_no_account(epsilon: str, delta: str, seconds: int) -> None:
    limit = {"epsilon": epsilon, "delta": delta, "window_seconds": seconds}
    with pytest.raises(UsageError, match="default"):
        parse_policy(json.dumps({"accounts": {"default": limit}}).encode(), "policy.json")
    with pytest.raises(UsageError):
        parse_policy(b'{"accounts": {}}', "policy.json")


def read(*leaves: SignedLeaf) -> LiveLog:
    """What a reader makes of a log of these leaves."""
    view = LogView(KIT.log_policy)
    bundle = signed_bundle(MemoryTree(leaf.encode() for leaf in leaves), 0, KIT.keys["log"])
    return LiveLog.from_entries(view.accept(bundle, LeafSigners(KIT.policy)))


def logged(*voids: SignedLeaf) -> LiveLog:
    leaves = (
        KIT.directory_leaf(),
        KIT.recipe_leaf(GOOD),
        *(KIT.opt_in_leaf(GOOD, role) for role in ("leader", "helper")),
    )
    return read(*leaves, *voids)


def state(log: LiveLog, now: float = NOW) -> ChargeState:
    (charge,) = charges_of(log, now)
    assert charge.cost == Cost(COST, DELTA)
    return charge.state


def test_a_recipe_is_void_once_both_aggregators_say_so() -> None:
    assert state(logged()) is state(logged(), 1e12) is ChargeState.ACTIVE
    assert state(logged(KIT.void_leaf(GOOD, "leader")), 1e12) is ChargeState.ACTIVE
    both = logged(KIT.void_leaf(GOOD, "leader"), KIT.void_leaf(GOOD, "helper"))
    assert state(both) is ChargeState.VOID
    (live,) = both.recipes
    assert live.voids.keys() == live.opt_ins.keys() == {"leader", "helper"}
    assert not read(KIT.directory_leaf(), KIT.void_leaf(GOOD, "leader")).unreadable


def test_claims_with_the_relay_have_a_balance_of_their_own() -> None:
    """What the relay learns of one importance recipe was 300 times what any ledger counted."""
    limit = AccountLimit(epsilon="50", delta="0.00001", window_seconds=86_400, epsilon_with_relay="1.5")
    limited = KIT.policy.model_copy(update={"accounts": {"default": limit}})
    before = dataclasses.replace(earlier("0.01"), epsilon_with_relay=Decimal("0.6"))
    (refusal,) = check(GOOD, limited, context((before,)))
    assert refusal.rule == "budget-spent"
    assert "claims (b), an aggregator with the relay: account default, 1 recipe" in refusal.detail
    assert "at most epsilon 0.9000 still fits" in refusal.detail
    assert check(GOOD, limited, context((earlier("0.01"),))) == []
    assert check(GOOD, policy("50"), context((before,))) == [], "an account that does not limit them"
    stated = charge_of(GOOD, ChargeState.PENDING).with_relay().cost.epsilon
    assert stated == Decimal(GOOD.privacy.epsilon["aggregator_with_relay"]) > COST


def test_what_taking_part_tells_the_relay_is_capped_by_default() -> None:
    crowd = KIT.recipe(population=20_000, epsilon=Decimal("0.6"))
    told = {"default": 0, "default_rate": "0.004", "devices": 10_000}
    (refusal,) = check(with_sampling(crowd, importance=told), KIT.policy, context(()), only={"claim-cap"})
    assert "aggregator_with_relay: epsilon 5.4" in refusal.detail
    assert "over the cap of 4" in refusal.detail


def test_a_recipe_in_which_answers_decide_who_sends_is_never_given_back() -> None:
    unequal = with_sampling(GOOD, importance={"default": 0, "default_rate": "0.4"})
    leaves = [KIT.directory_leaf(), KIT.recipe_leaf(unequal)]
    for role in ("leader", "helper"):
        leaves += [KIT.opt_in_leaf(unequal, role), KIT.void_leaf(unequal, role)]
    (charge,) = charges_of(read(*leaves), 1e12)
    assert charge.state is ChargeState.UNREFUNDED
    assert charge.counts, "both have seen how many messages came, whether or not they were released"
    lapsed = read(KIT.directory_leaf(), KIT.recipe_leaf(unequal), KIT.opt_in_leaf(unequal, "leader"))
    assert [one.state for one in charges_of(lapsed, 1e12)] == [ChargeState.LAPSED], "no device ever answered"


def test_what_an_analyzer_voids_is_never_given_back_because_it_opens_reports_as_they_come() -> None:
    kit = AnalyzerKit()
    recipe = kit.single_recipe()
    leaves = [kit.recipe_leaf(recipe), kit.analyzer_opt_in(recipe), kit.analyzer_void(recipe)]
    entries = [VerifiedEntry(index, leaf) for index, leaf in enumerate(leaves)]
    log = LiveLog.from_entries(entries)
    (live,) = log.recipes
    assert live.voids.keys() == {"analyzer"}
    (charge,) = charges_of(log, 1e12)
    assert (charge.state, charge.counts) == (ChargeState.UNREFUNDED, True)


def test_a_void_leaf_with_a_forged_signature_is_refused_by_every_reader() -> None:
    body = KIT.void_leaf(GOOD, "helper").body_as(Void)
    forged = sign_leaf(LeafType.VOID, body, "helper.example", KIT.keys["analyst"])
    leader = KIT.void_leaf(GOOD, "leader")
    assert state(logged(leader, forged)) is ChargeState.ACTIVE
    opt_in = KIT.opt_in_leaf(GOOD, "leader")
    retyped = dataclasses.replace(KIT.void_leaf(GOOD, "leader"), signature=opt_in.signature)
    assert logged(retyped).recipes[0].voids == {}


def test_a_void_leaf_of_another_party_or_task_counts_for_nothing() -> None:
    leader, body = KIT.void_leaf(GOOD, "leader"), KIT.void_leaf(GOOD, "helper").body_as(Void)
    strangers = sign_leaf(LeafType.VOID, body, "analyst.example", KIT.keys["analyst"])
    assert state(logged(leader, strangers)) is ChargeState.ACTIVE
    other = body.model_copy(update={"task_id": b64url(bytes(32))})
    mistaken = sign_leaf(LeafType.VOID, other, "helper.example", KIT.keys["helper"])
    assert state(logged(leader, mistaken)) is ChargeState.ACTIVE


def test_a_void_leaf_is_known_by_a_recipe_that_was_read_before() -> None:
    void = KIT.void_leaf(GOOD, "leader")
    assert LeafSigners(KIT.policy).keys_of([void]) == [None]
    known = LeafSigners(KIT.policy, [KIT.recipe_leaf(GOOD)]).keys_of([void])
    assert known == [KIT.keys["leader"].public]
    assert SignedLeaf.decode(void.encode()) == void
    log = LiveLog.from_entries([VerifiedEntry(0, KIT.recipe_leaf(GOOD)), VerifiedEntry(1, void)])
    assert log.recipes[0].voids.keys() == {"leader"}
