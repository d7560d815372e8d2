"""Targeting: what a census attests, and what each rule on the audience refuses (SA2 5.5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import CENSUS_ATTRIBUTES, NOW, RecipeKit, census_question, changed, with_sampling
from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.logview.view import Bundle, LogView
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.census import STDERRS, Census, attest, census_for, counts_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, vdaf_of
from tacit.recipe.encoder import MISSING, encoder_of
from tacit.recipe.encoder_specs import MAX_CELLS, Attributes
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy, parse_policy
from tacit.rules.table import check
from tacit.time_format import format_second
from tacit.tlog.checkpoint import Checkpoint, sign_checkpoint
from tacit.tlog.entries import BundleEntry
from tacit.tlog.leaves import MAX_ENTRY_SIZE, LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_inclusion

KIT = RecipeKit()
CENSUS = KIT.census()
REPORTS = 500
TRUTH = (120, 20, 60, 200, 40, 50, 10)
"""Devices by (locale, os): de-linux, de-mac, en-linux, en-mac, fr-linux, fr-mac, and none of these."""
POLICY = KIT.policy.model_copy(update={"attributes": dict(CENSUS_ATTRIBUTES), "min_audience": 100})
TARGETED = KIT.recipe(name="in-german", slot=1, criteria={"locale": "de"})
RULES = {
    "audience-not-allowed",
    "audience-attribute",
    "audience-rate",
    "census-form",
    "audience-floor",
    "importance-late",
    "importance-attested",
}


def expected_counts(census: Recipe, truth: Sequence[int]) -> list[int]:
    """The krr counts whose estimates are nearest to ``truth``; nobody is of the cells that it leaves out."""
    truth = [*truth, *[0] * (census.randomizer.categories - len(truth))]
    keep, other = map(float, randomizer_of(census).output_probabilities())  # type: ignore[attr-defined]
    reports = sum(truth)
    counts = [round(reports * other + (keep - other) * one) for one in truth]
    counts[counts.index(max(counts))] += reports - sum(counts)
    return counts


def without(body: dict[str, Any], member: str) -> dict[str, Any]:
    """A recipe's body whose encoder does not state ``member``, with one category less."""
    del body["question"]["encoder"][member]
    body["randomizer"]["categories"] -= 1
    return body


def census_of(truth: Sequence[int] = TRUTH, census: Recipe = CENSUS, index: int = 5, **changes: Any) -> Census:
    counts = expected_counts(census, truth)
    leader, helper = (KIT.census_share(census, role, sum(truth), counts) for role in ("leader", "helper"))
    return dataclasses.replace(Census(census, {"leader": leader, "helper": helper}, index), **changes)


def with_helper(census: Census, update: dict[str, Any]) -> Census:
    helper = census.shares["helper"].model_copy(update=update)
    return dataclasses.replace(census, shares={**census.shares, "helper": helper})


def context(*censuses: Census, now: float = NOW, index: int | None = None) -> Context:
    return Context(Stage.PUBLISH, now, index=index, censuses=censuses)


def refusals(recipe: Recipe, *censuses: Census, policy: Policy = POLICY, **options: Any) -> dict[str, str]:
    found = check(recipe, policy, context(*censuses, **options), only=RULES)
    return {refusal.rule: refusal.detail for refusal in found}


def live_log(*leaves: SignedLeaf) -> LiveLog:
    """The log of these leaves as a device reads it."""
    entries = [leaf.encode() for leaf in leaves]
    tree = MemoryTree(entries)
    note = sign_checkpoint(Checkpoint(KIT.log_policy.origin, tree.size, tree.root()), KIT.keys["log"])
    proofs = (tuple(prove_inclusion(tree.read, index, tree.size)) for index in range(tree.size))
    bundle = Bundle(note, (), tuple(BundleEntry(*one) for one in zip(range(tree.size), entries, proofs, strict=True)))
    return LiveLog.from_entries(LogView(KIT.log_policy).accept(bundle, LeafSigners(POLICY)))


def share_leaves(census: Recipe = CENSUS, truth: Sequence[int] = TRUTH) -> list[SignedLeaf]:
    counts = expected_counts(census, truth)
    return [KIT.census_share_leaf(census, role, sum(truth), counts) for role in ("leader", "helper")]


# Form


def test_a_census_asks_for_every_conjunction_in_one_order() -> None:
    labels = encoder_of(CENSUS.question).labels
    assert labels[:3] == ("locale=de,os=linux", "locale=de,os=mac", "locale=en,os=linux")
    assert CENSUS.is_census
    assert not TARGETED.is_census
    assert CENSUS.randomizer.categories == len(labels) == 7
    turned = census_question(dict(reversed(list(CENSUS_ATTRIBUTES.items()))))
    assert encoder_of(turned).labels == labels
    assert encoder_of(CENSUS.question).encode("locale=en,os=mac") == 3
    for nowhere in ("locale=en,os=windows", None):
        assert encoder_of(CENSUS.question).encode(nowhere) == 6
        unstated = Recipe.from_body(without(CENSUS.body(), "missing"))
        assert encoder_of(unstated.question).encode(nowhere) is MISSING


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"locale": ("de",)},
        {"locale": ("de", "de")},
        {"Locale": ("de", "en")},
        {"locale": ("de=1", "en")},
        {name: tuple("abcdef") for name in ("one", "two", "three", "four")},
        dict.fromkeys(("one", "two", "three", "four", "five"), ("a", "b")),
    ],
)
def test_a_census_that_is_ambiguous_or_too_large_has_no_form(attributes: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Attributes(kind="attributes", attributes=attributes)


@pytest.mark.parametrize("criteria", [{}, {"Locale": "de"}, {"locale": "d,e"}, dict.fromkeys("abcde", "x")])
def test_criteria_are_one_to_four_attributes_with_one_value_each(criteria: dict[str, str]) -> None:
    with pytest.raises(DecodeError, match="audience"):
        changed(TARGETED, "audience.criteria", criteria)


def test_the_share_of_the_largest_census_fits_into_an_entry_of_the_log() -> None:
    largest = {"one": tuple(f"v{n}" for n in range(33)), "two": tuple(f"v{n}" for n in range(31))}
    census = KIT.census(largest)
    counts = [0] * MAX_CELLS
    leaf = KIT.census_share_leaf(census, "leader", 10**6, counts)
    assert len(leaf.encode()) < MAX_ENTRY_SIZE // 2


# What a census attests


@pytest.mark.parametrize("criteria", [{}, {"locale": "de"}])
def test_importance_sampling_counts_on_no_more_devices_than_a_census_attests(criteria: dict[str, str]) -> None:
    asked = KIT.recipe(name="unequal", slot=1, **({"criteria": criteria} if criteria else {}))
    census = census_of()
    floor = attest(census, criteria).floor
    assert floor >= 80
    policy = POLICY.model_copy(update={"min_audience": 80})

    def counting(devices: int) -> Recipe:
        return with_sampling(asked, importance={"default": 0, "default_rate": "0.3", "devices": devices})

    assert refusals(counting(floor), census, policy=policy) == {}
    told = refusals(counting(floor + 1), census, policy=policy)
    assert set(told) == {"importance-attested"}
    assert f"attests {floor} devices" in told["importance-attested"]
    assert "one that attests at least 100 devices would pass" in refusals(counting(100))["importance-attested"]
    alone = with_sampling(asked, importance={"default": 0, "default_rate": "0.3"})
    assert "importance-attested" not in refusals(alone), "its claim counts on one device"


def test_devices_are_counted_on_only_where_they_have_time_to_decide() -> None:
    """An analyst who publishes in the last seconds of the time for deciding leaves only the devices that poll in them,
    and the number of messages then tells up to ln(s/s0) whatever a census attests."""
    asked = KIT.recipe(name="unequal", slot=1)
    counting = with_sampling(asked, importance={"default": 0, "default_rate": "0.3", "devices": 80})
    alone = with_sampling(asked, importance={"default": 0, "default_rate": "0.3"})
    start = asked.interval.start

    def told(recipe: Recipe, stage: Stage, now: float) -> str | None:
        found = check(recipe, POLICY, Context(stage, now), only={"importance-late"})
        return found[0].detail if found else None

    for stage in Stage:
        late = told(counting, stage, start + 895)
        assert (late is not None) is (stage in {Stage.PUBLISH, Stage.LOGGED}), "devices decide in the first quarter"
        assert late is None or late.endswith(f"a start after {format_second(start + 895)} would pass")
        assert told(counting, stage, start) is None
        assert told(alone, stage, start + 895) is None, "its claim counts on one device"
        short = changed(counting, "interval.duration", 60)
        assert (told(short, stage, start) or "").endswith("an interval of 1800 would pass")


def test_the_two_shares_add_up_to_the_counts_and_the_floor_is_four_errors_below_the_estimate() -> None:
    census = census_of()
    assert counts_of(census) == tuple(expected_counts(CENSUS, TRUTH))
    whole = estimator_of(randomizer_of(CENSUS)).estimate(counts_of(census), REPORTS, SampleDesign(1.0))
    cell = attest(census, {"locale": "de", "os": "linux"})
    assert cell.estimate == pytest.approx(whole.values[0])
    assert cell.stderr == pytest.approx(whole.stderrs[0])
    assert cell.floor == max(0, int(cell.estimate - STDERRS * cell.stderr))
    german = attest(census, {"locale": "de"})
    assert german.estimate == pytest.approx(sum(whole.values[:2]))
    assert german.estimate == pytest.approx(140, abs=5)
    assert german.stderr == pytest.approx((whole.stderrs[0] ** 2 + whole.stderrs[1] ** 2) ** 0.5)


def test_no_conjunction_has_more_devices_than_the_census_stands_for() -> None:
    """As many dishonest devices could make it look that answer a cell without randomising."""
    shares = [KIT.census_share(CENSUS, role, REPORTS, [REPORTS, 0, 0, 0, 0, 0, 0]) for role in ("leader", "helper")]
    assert (
        attest(Census(CENSUS, dict(zip(("leader", "helper"), shares, strict=True)), 5), {"os": "linux"}).estimate
        <= REPORTS
    )
    raw = estimator_of(randomizer_of(CENSUS)).estimate([REPORTS, 0, 0, 0, 0, 0, 0], REPORTS, SampleDesign(1.0))
    assert raw.values[0] > REPORTS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["krr", "rappor", "flips"])
def test_the_error_of_a_sum_of_cells_is_never_understated(name: str) -> None:
    """200 censuses of 600 devices at q = 0.5: the spread of the sum's estimates is at most the stated error. The bound
    of 1.35 errors on an estimated standard deviation fails with probability below 1e-6 (chi square, 199 degrees)."""
    census = KIT.census(randomizer=name, rate=CENSUS.rate / 2, population=1200, min_batch_size=400)
    randomizer, cells = randomizer_of(census), (0, 2, 4)
    generator, entropy = np.random.default_rng(7), SeededEntropy(b"cells").child(name)
    found, errors = [], []
    for _ in range(200):
        counts, reports = np.zeros(7, dtype=int), 0
        for category, devices in enumerate((200, 50, 100, 150, 0, 100)):
            for _ in range(generator.binomial(devices, 0.5)):
                answer = device_randomiser_of(randomizer).randomise(category, entropy)
                if answer is not None:
                    reports += 1
                    counts += np.eye(7, dtype=int)[answer] if isinstance(answer, int) else np.array(answer)
        estimate = estimator_of(randomizer).estimate(counts.tolist(), reports, SampleDesign(0.5))
        found.append(sum(estimate.values[cell] for cell in cells))
        errors.append(sum(estimate.stderrs[cell] ** 2 for cell in cells) ** 0.5)
    assert np.std(found, ddof=1) < 1.35 * np.mean(errors)
    assert abs(np.mean(found) - 300) < 5 * np.mean(errors) / 200**0.5


def test_shares_that_are_not_of_one_batch_attest_nothing() -> None:
    good = census_of()
    vdaf = vdaf_of(CENSUS)
    foreign = b64url(vdaf.encode_agg_share([12345] * 7))
    bad = [
        with_helper(good, {"report_count": REPORTS + 1}),
        with_helper(good, {"aggregate_share": foreign}),
        with_helper(good, {"aggregate_share": "AAAA"}),
        census_of([one // 4 for one in TRUTH]),
    ]
    words = ("500 and 501", "be the sum", "bytes", "B = 400")
    for census, word in zip(bad, words, strict=True):
        with pytest.raises(Refusal, match=word):
            attest(census, {"locale": "de"})
        assert word in refusals(TARGETED, census)["audience-floor"]


def test_only_leaves_that_each_aggregator_signed_itself_make_a_census() -> None:
    recipe, (leader, helper) = KIT.recipe_leaf(CENSUS), share_leaves()
    assert [one.recipe.hash for one in live_log(recipe, leader, helper).censuses] == [CENSUS.hash]
    assert live_log(recipe, leader).censuses == ()
    impostor = sign_leaf(LeafType.CENSUS_SHARE, helper.body, "someone.example", KIT.keys["analyst"])
    assert live_log(recipe, leader, impostor).censuses == ()
    both_by_one = sign_leaf(LeafType.CENSUS_SHARE, helper.body, "helper.example", KIT.keys["leader"])
    assert live_log(recipe, leader, both_by_one).censuses == ()
    other_task = {**helper.body, "task_id": b64url(bytes(32))}
    forged = sign_leaf(LeafType.CENSUS_SHARE, other_task, "helper.example", KIT.keys["helper"])
    assert live_log(recipe, leader, forged).censuses == ()
    no_census = {**share_leaves()[0].body, "recipe_hash": TARGETED.hash_text}
    stray = sign_leaf(LeafType.CENSUS_SHARE, no_census, "leader.example", KIT.keys["leader"])
    assert live_log(KIT.recipe_leaf(TARGETED), stray).censuses == ()


def test_every_reader_takes_the_newest_census_that_was_complete_before_the_recipe() -> None:
    older, newer = census_of(index=5), census_of(index=9, census=KIT.census(start=NOW // 60 * 60 + 60))
    assert census_for(TARGETED, (newer, older), None, 0) is newer
    assert census_for(TARGETED, (newer, older), 9, 0) is older
    assert census_for(TARGETED, (newer, older), 5, 0) is None
    assert census_for(TARGETED, (newer, older), None, newer.recipe.interval.end) is None


# Rules


def test_a_targeted_recipe_passes_where_the_census_attests_enough_devices() -> None:
    linux = KIT.recipe(slot=2, criteria={"os": "mac", "locale": "en"})
    assert refusals(linux, census_of([20, 20, 20, 400, 20, 20])) == {}
    assert refusals(CENSUS) == {}
    assert refusals(KIT.recipe(), policy=KIT.policy) == {}


def test_a_floor_that_is_not_attested_is_refused_with_the_numbers() -> None:
    said = refusals(TARGETED, census_of())
    assert list(said) == ["audience-floor"]
    assert "census census attests" in said["audience-floor"]
    assert "locale=de" in said["audience-floor"]
    assert "at least 100 are needed" in said["audience-floor"]
    none = refusals(TARGETED)["audience-floor"]
    assert "no census of the last 90 days" in none
    assert "at least 100 devices would pass" in none
    late = CENSUS.interval.end + POLICY.census_max_age_seconds
    assert "no census" in refusals(TARGETED, census_of([400, 20, 20, 20, 20, 20]), now=late)["audience-floor"]
    assert refusals(TARGETED, census_of([400, 20, 20, 20, 20, 20]), now=late - 1) == {}


def test_dummies_of_a_targeted_recipe_count_on_no_more_devices_than_are_attested() -> None:
    census = census_of([400, 20, 20, 20, 20, 20])
    floor = attest(census, TARGETED.criteria).floor
    assert floor >= 100
    for population, passes in ((floor, True), (floor + 1, False)):
        dummies = {"intensity": "40", "population": population}
        said = refusals(changed(TARGETED, "sampling", {"rate": "0.5", "dummies": dummies}), census)
        assert (said == {}) is passes
    assert f"dummies count on {floor + 1} devices, the census attests {floor} with locale=de" in said["audience-floor"]


def test_a_census_of_other_parties_another_population_or_other_values_does_not_count() -> None:
    enough = [400, 20, 20, 20, 20, 20]
    assert refusals(TARGETED, census_of(enough)) == {}
    key = b64url(bytes(31) + b"\x01")
    for path, value in (
        ("parties.leader.operator", "other.example"),
        ("parties.helper.signing_key", key),
        ("audience.population", "elsewhere"),
        ("parties.issuer.name", "other.example"),
        ("parties.issuer.signing_key", key),
        ("parties.attester.operator", "other.example"),
        ("parties.relay.url", "https://other.example/"),
        ("parties.gateway.signing_key", key),
    ):
        other = changed(CENSUS, path, value)
        assert "no census" in refusals(TARGETED, census_of(enough, other))["audience-floor"]
    french = KIT.recipe(slot=2, criteria={"locale": "it"})
    policy = POLICY.model_copy(update={"attributes": {"locale": ("de", "it")}})
    assert "no census" in refusals(french, census_of(enough), policy=policy)["audience-floor"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "no recipe may ask for attribute locale; none may"),
        ({"os": ("linux", "mac")}, "no recipe may ask for attribute locale; os may be asked for"),
        ({"locale": ("en", "fr"), "os": ("linux", "mac")}, "locale may not be de; allowed are en, fr"),
    ],
)
def test_an_attribute_or_value_outside_the_allow_list_is_refused(
    attributes: dict[str, tuple[str, ...]], words: str
) -> None:
    policy = POLICY.model_copy(update={"attributes": attributes})
    for recipe in (TARGETED, CENSUS):
        assert words in refusals(recipe, policy=policy)["audience-attribute"]


def test_a_targeted_recipe_samples_at_most_at_the_cap_and_others_as_they_like() -> None:
    eager = changed(TARGETED, "sampling.rate", "0.51")
    assert "q = 0.51" in refusals(eager, census_of())["audience-rate"]
    assert "cap of 0.5" in refusals(eager, census_of())["audience-rate"]
    assert "audience-rate" not in refusals(CENSUS)
    assert "audience-rate" not in refusals(changed(KIT.recipe(), "sampling.rate", "0.9"))


def test_a_census_has_no_criteria_and_one_batch() -> None:
    targeted = changed(CENSUS, "audience.criteria", {"locale": "de"})
    assert "leave the criteria out" in refusals(targeted)["census-form"]
    assert "interval_end, not at_B" in refusals(KIT.census(close="at_B"))["census-form"]
    filled = changed(KIT.census(), "sampling.dummies", {"intensity": "20", "population": 1000})
    assert "no dummies" in refusals(filled)["census-form"]


def test_a_policy_names_attributes_with_their_values() -> None:
    policy = parse_policy(b'min_audience = 50\n[attributes]\nlocale = ["de", "en"]\n', "policy.toml")
    assert (policy.attributes, policy.min_audience) == ({"locale": ("de", "en")}, 50)
    assert (Policy().attributes, Policy().min_audience, Policy().max_targeted_rate) == ({}, 10_000, "0.5")
