"""Recipes whose devices watch an event: what is proposed passes every rule, and what is hostile is refused by name."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any

import pytest

from client_agent.panprivate.recipes import plan_of
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit, changed
from infra.lab.kit.watched import CELLS, MOST, ONE, STEP_SECONDS, STEPS, TWO, WatchingKit
from tacit.codec import b64url
from tacit.errors import DecodeError, FieldError, UsageError
from tacit.ledger.account import ChargeState
from tacit.recipe.charges import charge_of
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, task_configuration, task_id
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.watch_work import seconds_for, update_work, work_per_second
from tacit.recipe.writing.builder import propose
from tacit.rules import table as rules
from tacit.rules.watching import MAX_DECRYPTED
from tacit.time_format import format_second

KIT = WatchingKit()
RECIPES = {cell: KIT.watched_recipe(*cell) for cell in CELLS}
TWO_COUNT, ONE_MEAN = RECIPES[TWO, "count"], RECIPES[ONE, "mean"]
TWO_HISTOGRAM, ONE_COUNT = RECIPES[TWO, "histogram"], RECIPES[ONE, "count"]
START = TWO_COUNT.interval.start
RULES = (
    "watch-question",
    "watch-randomizer",
    "watch-form",
    "watch-period",
    "watch-work",
    "decryption-bound",
    "state-key-invalid",
)
SERIES = b64url(bytes(range(32)))
NOT_CANONICAL = b64url(bytes([1] + [0] * 30 + [0x80]))


def refused(recipe: Recipe, policy: Policy | None = None, now: float = NOW - 10) -> dict[str, str]:
    context = Context(Stage.DRAFT, now, directory=KIT.directory())
    return {one.rule: one.detail for one in rules.check(recipe, policy or KIT.default_policy, context)}


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_what_is_proposed_passes_every_rule_of_the_default_policy(cell: tuple[str, str]) -> None:
    recipe = RECIPES[cell]
    published = Context(Stage.PUBLISH, NOW - 10, leaf=KIT.recipe_leaf(recipe), directory=KIT.directory())
    assert rules.check(recipe, KIT.default_policy, published) == []
    assert Recipe.decode(recipe.encode()).hash == recipe.hash


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_labels_are_those_of_the_statistic(cell: tuple[str, str]) -> None:
    expected = {"count": ("nonzero",), "histogram": ("0", "1", "2", "3", "4+"), "mean": ("mean",)}
    assert labels(RECIPES[cell]) == expected[cell[1]]


def test_two_servers_have_a_task_and_one_has_the_recipes_hash() -> None:
    configuration = task_configuration(TWO_HISTOGRAM)
    assert configuration.task_info == TWO_HISTOGRAM.hash
    assert task_id(TWO_HISTOGRAM) != TWO_HISTOGRAM.hash
    assert task_id(ONE_COUNT) == ONE_COUNT.hash


def bad(rule: str, recipe: Recipe, path: str, value: Any, *words: str) -> Any:
    name = f"{rule}: {recipe.model} {path} {str(value)[:40]}"
    return pytest.param(rule, changed(recipe, path, value), words, id=name)


BOOLEAN = {"kind": "boolean"}
LOWER = {"default": 0, "default_rate": "0.1"}
LONG_AGO = START - 400 * 86_400
HOSTILE = [
    bad("watch-question", TWO_COUNT, "question.encoder", BOOLEAN, "occurrences, not boolean"),
    bad("watch-question", ONE_COUNT, "question.encoder", BOOLEAN, "occurrences, not boolean"),
    bad("watch-question", TWO_COUNT, "question.encoder.most", 2, "most must be 1, not 2"),
    bad("watch-question", TWO_HISTOGRAM, "question.statistic", "mean", "not support mean", "choose count or histogram"),
    bad("watch-question", ONE_MEAN, "question.statistic", "sum", "not support sum", "mean"),
    bad("watch-question", TWO_COUNT, "question.metric", "Visits!", "not an event's name"),
    bad("watch-question", TWO_COUNT, "question.metric", "visit\n", "not an event's name"),
    bad("watch-question", TWO_COUNT, "question.metric", ".visit", "not an event's name"),
    bad("watch-randomizer", TWO_HISTOGRAM, "randomizer.name", "oue", "needs the randomizer rappor, not oue"),
    bad("watch-randomizer", TWO_HISTOGRAM, "randomizer.max_weight", 4, "max_weight 4", "5, the number of categories"),
    bad("watch-randomizer", ONE_COUNT, "randomizer.name", "flips", "needs the randomizer rr"),
    bad("watch-form", TWO_COUNT, "sampling.importance", LOWER, "no sampling.importance"),
    bad("watch-form", ONE_COUNT, "sampling.dummies", {"intensity": "40", "population": 1_000}, "no sampling.dummies"),
    bad("watch-form", ONE_MEAN, "aggregator_noise", {"flips": 4}, "no aggregator_noise"),
    bad("watch-form", TWO_COUNT, "series", {"hash": SERIES, "index": 0}, "no series"),
    bad(
        "watch-period", TWO_COUNT, "question.encoder.steps", STEPS + 1, "11 steps", format_second(START + STEP_SECONDS)
    ),
    bad("watch-period", ONE_COUNT, "question.encoder.start", START, "start the interval at", "or later"),
    bad("watch-period", ONE_MEAN, "question.encoder.step_seconds", 1 << 25, "start the interval at"),
    bad("watch-period", TWO_COUNT, "question.encoder.start", 0, "366 days (31622400 seconds) are allowed"),
    bad("watch-period", TWO_COUNT, "question.encoder.start", LONG_AGO, "keep their state for 34560000 seconds"),
    bad(
        "watch-work", TWO_HISTOGRAM, "question.encoder.most", 63, "2084 multiplications", "1008 per update", "1000 pass"
    ),
    bad("decryption-bound", ONE_MEAN, "randomizer.scale", MAX_DECRYPTED, "1048576 can be decrypted"),
    bad("state-key-invalid", TWO_COUNT, "parties.leader.state_key", b64url(bytes(32)), "leader: the identity"),
    bad(
        "state-key-invalid", ONE_COUNT, "parties.analyzer.state_key", NOT_CANONICAL, "analyzer: ", "generated state key"
    ),
    bad("state-key-invalid", TWO_COUNT, "parties.helper.state_key", b64url(b"\xff" * 32), "helper: "),
    bad("randomizer-vdaf-mismatch", TWO_COUNT, "vdaf.name", "Prio3Count", "needs Prio3CountVec of length 1"),
    bad("randomizer-vdaf-mismatch", TWO_HISTOGRAM, "vdaf.length", 4, "needs Prio3CountVec of length 5"),
    bad("randomizer-vdaf-mismatch", TWO_HISTOGRAM, "vdaf.max_weight", 5, "needs Prio3CountVec of length 5"),
    bad("vdaf-parameters", TWO_HISTOGRAM, "vdaf.chunk_length", 2, "chunk_length 2"),
    bad(
        "encoder-mismatch",
        TWO_HISTOGRAM,
        "question.encoder.most",
        MOST + 1,
        "6 categories, but the randomizer states 5",
    ),
    bad("encoder-mismatch", ONE_MEAN, "question.encoder.most", MOST + 1, "values up to 5"),
    bad("batch-mode", ONE_COUNT, "batch.close", "at_B", "must close interval_end, not at_B"),
    bad("operators-equal", ONE_COUNT, "parties.analyzer.operator", "issuer.example", "issuer and analyzer"),
    bad("operators-equal", TWO_COUNT, "parties.helper.operator", "leader.example", "leader and helper"),
    bad("aggregator-unknown", ONE_COUNT, "parties.analyzer.url", "https://elsewhere.example", "analyzer analyzer.ex"),
    bad("hpke-key-invalid", ONE_COUNT, "parties.analyzer.hpke_config", "AAAA", "analyzer: "),
    bad("claim-understated", ONE_COUNT, "privacy.epsilon.analyzer", "0.9", "analyzer: epsilon 0.9", "claim at least"),
    bad("claim-understated", ONE_MEAN, "privacy.epsilon.analyzer", "0.9", "analyzer: epsilon 0.9"),
    bad("claim-understated", ONE_COUNT, "privacy.epsilon.release", "0.1", "release: epsilon 0.1"),
    bad("claim-understated", TWO_COUNT, "privacy.epsilon.intruder_with_aggregator", "8", "claim at least that"),
    bad("claim-understated", ONE_COUNT, "privacy.epsilon.intruder_with_analyzer", "1", "claim at least that"),
    bad(
        "claim-cap", TWO_COUNT, "privacy.epsilon.both_aggregators_with_relay", "unbounded", "without a local guarantee"
    ),
    bad("claim-cap", ONE_COUNT, "privacy.epsilon.analyzer", "9", "over the cap of 8"),
    bad("claim-cap", ONE_COUNT, "privacy.epsilon.release", "1.5", "over the cap of 1"),
    bad("claim-mechanism", ONE_COUNT, "privacy.mechanism", "rr-exact+sampling", "claim rr-exact"),
]


@pytest.mark.parametrize(("rule", "recipe", "words"), HOSTILE)
def test_what_is_hostile_is_refused_by_name_and_told_what_passes(
    rule: str, recipe: Recipe, words: tuple[str, ...]
) -> None:
    found = refused(recipe)
    assert rule in found, found
    assert all(word in found[rule] for word in words), found[rule]
    assert "\n" not in found[rule]


def test_leader_and_helper_need_state_keys_of_their_own() -> None:
    leader = TWO_COUNT.body()["parties"]["leader"]["state_key"]
    found = refused(changed(TWO_COUNT, "parties.helper.state_key", leader))
    assert found["state-key-invalid"] == "helper and leader have the same state_key; each needs its own"


def test_no_other_model_watches_an_event() -> None:
    encoder = TWO_HISTOGRAM.question.encoder.canonical()
    found = refused(changed(RecipeKit().recipe(), "question.encoder", encoder))
    assert "model pan-private or pan-private-single asks" in found["watch-question"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("steps", 0),
        ("steps", (1 << 20) + 1),
        ("step_seconds", 0),
        ("step_seconds", (1 << 25) + 1),
        ("most", 0),
        ("most", 257),
        ("start", -1),
        ("start", 2**53),
        ("steps", "10"),
        ("start", True),
    ],
)
def test_members_out_of_range_make_no_recipe(path: str, value: Any) -> None:
    with pytest.raises(DecodeError, match=path):
        changed(TWO_HISTOGRAM, f"question.encoder.{path}", value)


def test_the_smallest_policy_bounds_the_numbers_of_a_result_with_one_server_too() -> None:
    small = KIT.default_policy.model_copy(update={"max_length": 4})
    assert "5 numbers are over the limit of 4" in refused(RECIPES[ONE, "histogram"], small)["watch-randomizer"]
    short = KIT.default_policy.model_copy(update={"max_watch_seconds": STEPS * STEP_SECONDS})
    assert refused(TWO_COUNT, short) == {}
    shorter = short.model_copy(update={"max_watch_seconds": STEPS * STEP_SECONDS - 1})
    assert set(refused(TWO_COUNT, shorter)) == {"watch-period"}


def test_work_is_counted_in_what_an_update_multiplies_and_longer_steps_make_room_for_events() -> None:
    updates = {cell: update_work(recipe) for cell, recipe in RECIPES.items()}
    assert updates == {cell: 2 * plan_of(recipe).stored.size // 64 for cell, recipe in RECIPES.items()}
    assert (update_work(RecipeKit().recipe()), work_per_second(RecipeKit().recipe())) == (0, 0)
    busy = changed(TWO_HISTOGRAM, "question.encoder.most", 16)
    assert work_per_second(busy) == -(-256 * (STEP_SECONDS + 1 + 16) // STEP_SECONDS) == 329
    small = KIT.default_policy.model_copy(update={"max_watch_work": 328})
    assert "329 multiplications per second (256 per update), at most 328 pass" in refused(busy, small)["watch-work"]
    enough = seconds_for(busy, 328)
    assert f"steps of {enough} seconds, or a smaller most would" in refused(busy, small)["watch-work"]
    assert enough is not None
    for seconds, passes in ((enough, True), (enough - 1, False)):
        longer = changed(busy, "question.encoder.step_seconds", seconds)
        assert ("watch-work" not in refused(longer, small)) == passes
    assert seconds_for(busy, 256) is None
    assert refused(busy, small.model_copy(update={"max_watch_work": 256}))["watch-work"].endswith(
        "; a smaller most would"
    )


def test_an_account_is_charged_what_the_one_server_learns_and_else_what_an_aggregator_does() -> None:
    for recipe, adversary in ((ONE_MEAN, "analyzer"), (ONE_COUNT, "analyzer"), (TWO_COUNT, "aggregator")):
        charge = charge_of(recipe, ChargeState.ACTIVE)
        assert charge.cost.epsilon == Decimal(recipe.privacy.epsilon[adversary])
        assert charge.cost.delta == recipe.delta


def test_no_unbounded_claim_but_the_models_own_needs_a_policy_that_allows_it() -> None:
    for recipe in RECIPES.values():
        unbounded = {name for name, value in claim_of(recipe).items() if math.isinf(value)}
        assert unbounded == {name for name in recipe.privacy.epsilon.root if name.startswith("intruder_with_")}
        assert claim_of(recipe)["intruder"] == 0


def test_with_two_servers_the_target_is_that_of_secure_aggregation() -> None:
    rr, rappor = (randomizer_of(RECIPES[TWO, statistic]) for statistic in ("count", "histogram"))
    for method, most in ((rr, Decimal("0.0001")), (rappor, Decimal("0.0002"))):
        size, delta = TWO_COUNT.batch.min_batch_size, float(TWO_COUNT.delta)
        assert method.aggregate_epsilon(size, delta) <= 1
        higher = dataclasses.replace(method, epsilon0=method.epsilon0 + 5 * most)  # type: ignore[attr-defined, type-var]
        assert higher.aggregate_epsilon(size, delta) > 1


@pytest.mark.parametrize("model", [TWO, ONE])
def test_a_report_is_always_sent(model: str) -> None:
    method = randomizer_of(RECIPES[model, "histogram"])
    assert method.reject_probability == 0


def test_with_one_server_epsilon_is_what_a_single_report_tells() -> None:
    recipe = KIT.watched_recipe(ONE, "count", epsilon=Decimal("2.5"), population=100_000)
    assert recipe.randomizer.epsilon0 == recipe.privacy.epsilon["analyzer"] == "2.5"
    capped = KIT.watched_recipe(ONE, "count", epsilon=Decimal(9), max_epsilon0=Decimal(3))
    assert capped.randomizer.epsilon0 == "3"
    mean = KIT.watched_recipe(ONE, "mean", epsilon=Decimal(4))
    assert 3.9 < float(mean.privacy.epsilon["analyzer"]) <= 4
    crowd = {"encoder": {**ONE_MEAN.question.encoder.canonical(), "most": 256}}
    with pytest.raises(UsageError, match="the noise of one device cannot hide up to 256 events at epsilon 1"):
        KIT.watched_recipe(ONE, "mean", **crowd)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"model": "hearsay"}, "model: must be one of secure-aggregation, pan-private, pan-private-single"),
        ({"model": "secure-aggregation"}, "model: must be pan-private or pan-private-single"),
        ({"encoder": {"kind": "boolean"}}, "encoder: model pan-private asks how often an event happened"),
        ({"statistic": "mean"}, "statistic: model pan-private has count, histogram, and no mean"),
        ({"statistic": "count"}, "encoder.most: does not belong to a count"),
        ({"encoder.most": None}, "encoder.most: is needed"),
        ({"encoder.steps": 0}, "encoder.steps: must be at least 1"),
        ({"encoder.low": 3}, "encoder.low: does not belong to `occurrences`"),
        ({"metric": "Doctor visits"}, "metric: must name an event"),
        ({"dummies": "auto"}, "dummies: must be left out in model pan-private"),
        ({"aggregator_flips": 2}, "aggregator_flips: must be left out in model pan-private"),
        ({"randomizer": "krr"}, "randomizer: a histogram needs rappor, not krr"),
        ({"mechanism": "flips"}, "mechanism: a histogram needs rappor, not flips"),
        ({"model": ONE, "close": "at_B"}, "close: must be `interval_end` in model pan-private-single"),
    ],
)
def test_a_survey_names_the_member_that_does_not_fit(members: dict[str, Any], message: str) -> None:
    survey = KIT.watched_survey(TWO, "histogram").model_dump(mode="json", exclude_unset=True)
    parts = {name.partition(".")[2]: value for name, value in members.items() if name.startswith("encoder.")}
    whole = {name: value for name, value in members.items() if "." not in name}
    changed_survey = {**survey, "encoder": {**survey["encoder"], **parts}, **whole}
    with pytest.raises(FieldError) as caught:
        type(KIT.watched_survey(TWO, "histogram")).from_body(changed_survey)
    assert str(caught.value).startswith(message)


def test_a_survey_without_a_start_watches_from_the_next_step_on() -> None:
    survey = KIT.watched_survey(TWO, "count", encoder={"kind": "occurrences", "steps": 3, "step_seconds": 60})
    with pytest.raises(FieldError, match=r"encoder\.start"):
        survey.question()
    watched = survey.encoder
    assert watched is not None
    assert watched.from_now(60 * EPOCH).start == 60 * (EPOCH + 1)  # type: ignore[union-attr]
    assert watched.from_now(60 * EPOCH + 59.9).start == 60 * (EPOCH + 1)  # type: ignore[union-attr]


def test_a_survey_says_whose_parties_it_needs() -> None:
    with pytest.raises(FieldError, match="model: pan-private needs other parties than these: analyst, leader, helper"):
        propose(KIT.watched_survey(TWO, "count"), RecipeKit().parties())
