"""A series and its rounds: form, what a round may differ in, each rule, and how a reader of a log joins them."""

from __future__ import annotations

import copy
import dataclasses
from decimal import Decimal
from typing import Any, Literal

import pytest

from infra.lab.kit.bundles import signed_bundle
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit, changed
from tacit.errors import DecodeError
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.charges import series_charge
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Interval, Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.recipe.series import Ended, Series
from tacit.rules import series_table as series_rules
from tacit.rules.series import total_problem
from tacit.rules.table import check
from tacit.time_format import format_second
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree

KIT = RecipeKit()
SERIES = KIT.series()
FREE = KIT.series(donation_slots=None, name="survey")
ROUND = KIT.round(SERIES)


def altered(series: Series, path: str, value: Any) -> Series:
    """The series with the member at ``path`` replaced."""
    body = copy.deepcopy(series.body())
    *parents, last = path.split(".")
    at: Any = body
    for parent in parents:
        at = at[parent]
    at[last] = value
    return Series.from_body(body)


def context(series: Series | None, recipe: Recipe, **more: Any) -> Context:
    owner = None if series is None else recipe.hash
    base = Context(
        Stage.LOGGED,
        NOW,
        leaf=KIT.recipe_leaf(recipe),
        index=2,
        slot_owner=recipe.hash,
        directory=KIT.directory(),
        series=series,
        round_owner=owner,
    )
    return dataclasses.replace(base, **more)


def refused(recipe: Recipe, series: Series | None, policy: Policy = KIT.policy, **more: Any) -> list[str]:
    return [refusal.rule for refusal in check(recipe, policy, context(series, recipe, **more))]


def detail(recipe: Recipe, series: Series) -> str:
    (refusal,) = check(recipe, KIT.policy, context(series, recipe))
    return refusal.detail


@pytest.mark.parametrize("series", [SERIES, FREE], ids=["donation", "independent"])
def test_every_round_of_a_series_is_accepted(series: Series) -> None:
    for index in range(series.rounds):
        assert refused(KIT.round(series, index), series) == []
        assert refused(KIT.round(series, index, "weights: 1, 2, 3"), series) == []


def test_the_encoding_is_canonical_and_decodes_to_the_same_series() -> None:
    again = Series.decode(SERIES.encode())
    assert again == SERIES
    assert again.hash == SERIES.hash != FREE.hash
    with pytest.raises(DecodeError, match="null"):
        Series.from_body({**FREE.body(), "donation": None})


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("template.name", "x", "name belong to the rounds"),
        ("template.question.round_input", "x", "question.round_input belong"),
        ("template.randomizer.epsilon0", 3, "epsilon0"),
        ("rounds", 0, "rounds"),
        ("rounds", 10_001, "rounds"),
        ("donation.slots", 0, "donation.slots"),
        ("slots.per_epoch", 257, "slots.per_epoch"),
        ("name", "UPPER", "name"),
        ("interval.duration", 366 * 86_400 + 60, "a series must not last longer than 31622400 seconds"),
        ("claim.relation", "deletion", "claim.relation"),
        ("claim.epsilon.aggregator", "unbounded", "aggregator"),
    ],
)
def test_a_malformed_series_is_refused_by_the_member_that_is_wrong(path: str, value: Any, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        altered(SERIES, path, value)


@pytest.mark.parametrize("text", ["", "x" * 16_385, 3])
def test_a_round_input_is_text_of_at_most_16384_characters(text: Any) -> None:
    with pytest.raises(DecodeError, match="round_input"):
        changed(ROUND, "question.round_input", text)
    assert changed(ROUND, "question.round_input", "x" * 16_384).question.round_input


def test_slots_run_through_the_epochs_in_the_order_of_the_rounds() -> None:
    series = altered(altered(FREE, "slots", {**FREE.slots.model_dump(), "slot": 5, "per_epoch": 2}), "rounds", 5)
    found = [(series.token(index).epoch - EPOCH, series.token(index).slot) for index in range(5)]
    assert found == [(0, 5), (0, 6), (1, 5), (1, 6), (2, 5)]


def test_a_round_whose_series_is_not_in_the_log_waits_for_it() -> None:
    assert refused(ROUND, None) == ["series-missing"]
    assert check(ROUND, KIT.policy, Context(Stage.DRAFT, NOW)) == [], "a draft is not looked up"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("name", "another-0", "must begin with training-"),
        ("question.text", "Something else?", "question differ from"),
        ("batch.expected_contributions", 700, "batch differ from"),
        ("privacy.account", "clinic", "privacy differ from"),
        ("token.slot", 1, "round 0 must have the tokens of issuer.example, epoch 20000, slot 0"),
        ("token.epoch", EPOCH + 1, "slot 0"),
    ],
)
def test_a_round_may_differ_only_in_what_belongs_to_a_round(path: str, value: Any, words: str) -> None:
    recipe = changed(ROUND, path, value)
    found = {refusal.rule: refusal.detail for refusal in check(recipe, KIT.policy, context(SERIES, recipe))}
    assert words in found["series-mismatch"]


def test_a_round_outside_the_series_time_is_a_mismatch() -> None:
    begin, end = FREE.interval.start, FREE.interval.end
    for start, duration in ((begin - 60, 120), (end - 60, 120)):
        recipe = FREE.round(0, Interval(start=start, duration=duration))
        assert "must be within the series" in detail(recipe, FREE)
    assert refused(FREE.round(0, Interval(start=begin + 60, duration=120)), FREE) == [], "else its time is free"


def test_another_series_than_the_named_one_is_a_mismatch() -> None:
    assert "names another series" in detail(ROUND, altered(SERIES, "name", "train"))


def test_a_round_beyond_the_last_one_is_refused() -> None:
    recipe = changed(KIT.round(FREE), "series.index", 3)
    assert "from 0 to 2; there is no round 3" in detail(recipe, FREE)


def test_the_first_recipe_in_the_log_that_fits_is_the_round() -> None:
    other = KIT.round(SERIES, 0, "another input")
    assert refused(other, SERIES, round_owner=ROUND.hash, slot_owner=other.hash) == ["series-round"]
    assert refused(ROUND, SERIES, round_owner=ROUND.hash) == []


@pytest.mark.parametrize(("start", "duration"), [(0, 3_540), (60, 3_540), (60, 3_600)])
def test_with_donation_a_round_has_its_window_and_no_other(start: int, duration: int) -> None:
    window = SERIES.window(1)
    recipe = SERIES.round(1, Interval(start=window.start + start, duration=duration))
    assert refused(recipe, SERIES) == ["series-donation"]
    begins = format_second(window.start + start)
    assert f"from {format_second(window.start)} to {format_second(window.end)}, not from {begins}" in detail(
        recipe, SERIES
    )


def test_a_donation_series_that_is_longer_than_its_rounds_is_refused() -> None:
    longer = altered(SERIES, "interval.duration", 4 * 3_600)
    recipe = KIT.round(longer)
    assert refused(recipe, longer) == ["series-donation"]
    assert "3 windows of 3600 seconds are 10800 seconds, not the series' 14400" in detail(recipe, longer)


@pytest.mark.parametrize(
    "name", ["aggregator", "aggregator_with_relay", "both_aggregators", "both_aggregators_with_relay"]
)
@pytest.mark.parametrize("series", [SERIES, FREE], ids=["donation", "independent"])
def test_a_total_claim_below_what_the_rounds_give_is_refused(series: Series, name: str) -> None:
    low = altered(series, f"claim.epsilon.{name}", "0.1")
    assert refused(KIT.round(low), low) == ["series-claim"]
    assert f"{name}: a total epsilon of 0.1 is claimed, the rounds give" in detail(KIT.round(low), low)
    capped = series is SERIES and name == "aggregator"
    high = altered(series, f"claim.epsilon.{name}", "1" if capped else "60")
    assert refused(KIT.round(high), high) == []


@pytest.mark.parametrize("delta", ["0", "0.0000011", "0.0000001"])
def test_a_total_delta_over_the_cap_or_below_the_rounds_is_refused(delta: str) -> None:
    odd = altered(SERIES, "claim.delta", delta)
    assert refused(KIT.round(odd), odd) == ["series-claim"]


def test_with_donation_the_total_keeps_the_caps_of_one_recipe_at_the_batch_size_and_at_half_of_it() -> None:
    """A device answers once, but a round's own claim is that of one slot: without this rule a third of it passes."""
    total = float(SERIES.claim.epsilon["aggregator"])
    assert float(ROUND.privacy.epsilon["aggregator"]) < 0.7 * total
    for name, cap in (("max_epsilon_aggregator", total - 0.01), ("max_epsilon_half_batch", total)):
        tight = KIT.policy.model_copy(update={name: f"{cap:.6f}"})
        said = {one.rule: one.detail for one in check(ROUND, tight, context(SERIES, ROUND))}
        assert f"over the cap of {cap:.6f}" in said["series-claim"]
        assert "series-claim" in {one.rule for one in series_rules.check(SERIES, tight, NOW)}
        assert "claim-cap" not in said, "the round alone passes"
    longer = KIT.series(rounds=FREE.rounds + 3, donation_slots=None, name="survey")
    assert float(longer.claim.epsilon["aggregator"]) > 1 == float(KIT.policy.max_epsilon_aggregator)
    assert refused(KIT.round(longer), longer) == [], (
        "independent rounds are so many recipes, for which there is the account"
    )


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("max_series_epsilon_with_relay", "aggregator_with_relay"),
        ("max_series_epsilon_local", "both_aggregators_with_relay"),
    ],
)
def test_a_policy_caps_the_totals_of_independent_coins_that_no_sampling_lowers(key: str, name: str) -> None:
    stated = Decimal(FREE.claim.epsilon[name])
    assert total_problem(FREE, KIT.policy.model_copy(update={key: str(stated)})) is None
    below = KIT.policy.model_copy(update={key: str(stated - Decimal("0.000001"))})
    problem = total_problem(FREE, below)
    assert problem is not None
    assert f"the total epsilon of {name}, without sampling, is {stated}, over the cap" in problem
    assert total_problem(SERIES, below) is None, "with donation a device answers once"


def test_more_rounds_than_were_claimed_are_understated() -> None:
    more = altered(FREE, "rounds", 4)
    assert refused(KIT.round(more), more) == ["series-claim"]


# A reader of the log


def read(*leaves: SignedLeaf, policy: Policy = KIT.policy) -> LiveLog:
    view = LogView(KIT.log_policy)
    bundle = signed_bundle(MemoryTree(leaf.encode() for leaf in leaves), 0, KIT.keys["log"])
    return LiveLog.from_entries(view.accept(bundle, LeafSigners(policy)))


def test_a_log_joins_rounds_with_their_series_and_the_first_that_fits_has_the_index() -> None:
    other, odd = KIT.round(SERIES, 0, "another input"), changed(ROUND, "question.text", "Something else?")
    log = read(KIT.series_leaf(SERIES), *(KIT.recipe_leaf(one) for one in (odd, ROUND, other)))
    assert [item.series for item in log.series] == [SERIES]
    assert [log.round_of(item.recipe) for item in log.recipes] == [None, SERIES, None]
    found = [log.context(item, NOW) for item in log.recipes]
    assert [one.series for one in found] == [SERIES] * 3
    assert {one.round_owner for one in found} == {ROUND.hash}


def test_a_round_without_its_series_is_a_round_of_nothing() -> None:
    log = read(KIT.recipe_leaf(ROUND))
    assert log.series == ()
    assert log.context(log.recipes[0], NOW).series is None


def test_a_series_is_signed_by_its_own_analyst() -> None:
    forged = sign_leaf(LeafType.SERIES, SERIES.body(), "analyst.example", KIT.keys["leader"])
    assert read(forged).series == ()
    someone = sign_leaf(LeafType.SERIES, SERIES.body(), "someone.example", KIT.keys["analyst"])
    assert read(someone).series == ()
    broken = sign_leaf(LeafType.SERIES, {"version": 1}, "analyst.example", KIT.keys["analyst"])
    assert read(broken).series == ()


# What it charges


def opted_in(recipe: Recipe) -> list[SignedLeaf]:
    return [KIT.recipe_leaf(recipe), *(KIT.opt_in_leaf(recipe, role) for role in ("leader", "helper"))]


def states(log: LiveLog, now: float) -> dict[str, str]:
    return {charge.name: charge.state.value for charge in charges_of(log, now)}


def test_a_series_is_charged_once_with_its_total_over_all_its_time() -> None:
    log = read(KIT.series_leaf(SERIES), *opted_in(ROUND), *opted_in(KIT.round(SERIES, 1)))
    charges = charges_of(log, NOW)
    assert [charge.counts for charge in charges] == [False, False, True]
    assert charges[-1] == series_charge(SERIES, ChargeState.ACTIVE)
    assert str(charges[-1].cost.epsilon) == SERIES.claim.epsilon["aggregator"]
    assert (charges[-1].start, charges[-1].end) == (SERIES.interval.start, SERIES.interval.end)


def test_a_round_that_does_not_fit_is_charged_by_itself() -> None:
    odd = changed(ROUND, "question.text", "Something else?")
    assert states(read(KIT.series_leaf(SERIES), KIT.recipe_leaf(odd)), NOW) == {
        "training-0": "pending",
        "training": "pending",
    }


def test_a_series_gives_its_budget_back_when_its_time_is_over_and_nothing_of_it_was_released() -> None:
    alone = [KIT.series_leaf(SERIES)]
    over = float(SERIES.interval.end)
    assert states(read(*alone), NOW)["training"] == "pending"
    assert states(read(*alone), over)["training"] == "lapsed"
    served = [*alone, *opted_in(ROUND)]
    assert states(read(*served), NOW)["training"] == "active"
    assert states(read(*served), over)["training"] == "active"
    void = [*served, *(KIT.void_leaf(ROUND, role) for role in ("leader", "helper"))]
    assert states(read(*void), over - 1)["training"] == "pending", "another round may still come"
    assert states(read(*void), over) == {"training-0": "covered", "training": "void"}
    half = [*served, KIT.void_leaf(ROUND, "leader")]
    assert states(read(*half), over)["training"] == "active"


def test_a_round_is_weighed_with_the_whole_series_and_not_beside_it() -> None:
    total = SERIES.claim.epsilon["aggregator"]
    limits = {"default": AccountLimit(epsilon=total, delta="0.00001", window_seconds=86_400)}
    policy = KIT.policy.model_copy(update={"accounts": limits})
    own = series_charge(SERIES, ChargeState.ACTIVE)
    assert refused(ROUND, SERIES, policy, charges=()) == []
    assert refused(ROUND, SERIES, policy, charges=(own,)) == []
    other = dataclasses.replace(own, recipe_hash=bytes(32))
    assert refused(ROUND, SERIES, policy, charges=(other,)) == ["budget-spent"]


# Its end


def read_with_ends(*leaves: SignedLeaf) -> LiveLog:
    view = LogView(KIT.log_policy)
    bundle = signed_bundle(MemoryTree(leaf.encode() for leaf in leaves), 0, KIT.keys["log"])
    return LiveLog.from_entries(view.accept(bundle, LeafSigners(KIT.policy, (), KIT.log_policy.log_key.public)))


@pytest.mark.parametrize("role", ["analyst", "log"])
def test_what_comes_after_the_end_of_a_series_is_none_of_its_rounds(role: Literal["analyst", "log"]) -> None:
    before, after = (KIT.recipe_leaf(KIT.round(SERIES, index)) for index in range(2))
    log = read_with_ends(KIT.series_leaf(SERIES), before, KIT.series_end_leaf(SERIES, role), after)
    assert [log.round_of(item.recipe) for item in log.recipes] == [SERIES, None]
    assert log.open_series == ()
    found = [check(item.recipe, KIT.policy, log.context(item, NOW, Stage.LOGGED)) for item in log.recipes]
    assert ["series-ended" in {each.rule for each in one} for one in found] == [False, True]
    by_itself = {charge.name: charge.state for charge in charges_of(log, NOW)}
    assert by_itself["training-1"] is ChargeState.PENDING, "a log that holds it is charged for it beside the series"


def test_an_end_by_somebody_else_ends_nothing() -> None:
    leaf = KIT.series_end_leaf(SERIES)
    strangers = [
        dataclasses.replace(leaf, signer="someone.example"),
        dataclasses.replace(leaf, signature=KIT.series_end_leaf(SERIES, "log").signature),
        sign_leaf(LeafType.SERIES_END, dict(leaf.body), "analyst.example", KIT.keys["leader"]),
        sign_leaf(LeafType.SERIES_END, {**leaf.body, "role": "log"}, "log", KIT.keys["helper"]),
        KIT.series_end_leaf(KIT.series(name="another")),
    ]
    log = read_with_ends(KIT.series_leaf(SERIES), *strangers, KIT.recipe_leaf(ROUND))
    assert log.ended(SERIES.hash) is None
    assert log.round_of(log.recipes[0].recipe) == SERIES


def test_of_two_ends_the_first_counts() -> None:
    ends = KIT.series_end_leaf(SERIES), KIT.series_end_leaf(SERIES, "log")
    log = read_with_ends(KIT.series_leaf(SERIES), KIT.recipe_leaf(ROUND), *ends)
    assert log.ended(SERIES.hash) == Ended(2, ROUND.interval.end)


def test_a_series_that_was_ended_without_a_round_is_not_charged() -> None:
    log = read_with_ends(KIT.series_leaf(SERIES), KIT.series_end_leaf(SERIES))
    assert [charge.counts for charge in charges_of(log, NOW - 10**6)] == [False]
