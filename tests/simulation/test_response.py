"""Devices that stay silent: of whom a release speaks, and whether it notices.

Each run has 600 devices of which 11 % are silent, either anybody or only those with the most frequent answer (the
largest number); which ones is fixed, coins and noise are drawn anew. Intervals of 95 % over ``RUNS`` runs miss more
than ``MOST_MISSES`` times with probability 2e-6 if they miss with probability 0.05, and 2e-5 if with 0.06 (the normal
approximation is rough in small cells); seeds are fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from client_agent.coin import coin
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit, changed, with_sampling
from tacit.dp.binomial import binomial_window
from tacit.errors import UsageError
from tacit.messages import Interval
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.collectors import collector_side
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder_specs import Boolean, Buckets, Number
from tacit.recipe.model import Question, Recipe
from tacit.recipe.response import FALSE_ALARM, MOST_ASKED, asked_by, stated_asked, with_response
from tacit.roles.collector import AggregateResult
from tacit.tlog.canonical import MAX_INTEGER

KIT = RecipeKit()
DEVICES, SILENT, RUNS, MOST_MISSES = 600, 66, 80, 15
HELD = [0] * 300 + [1] * 120 + [2] * 90 + [3] * 60 + [4] * 30
VISITS = Question(
    text="How often?",
    metric="visits",
    encoder=Buckets(kind="buckets", edges=tuple(range(5)), missing="no value"),
    statistic="histogram",
)
SMOKES = Question(
    text="Do you smoke?", metric="smokes", encoder=Boolean(kind="boolean", missing="no"), statistic="count"
)
SCORE = Question(text="Which score?", metric="score", encoder=Number(kind="number", low=-2, high=8), statistic="mean")
TOTAL = SCORE.model_copy(update={"statistic": "sum"})


def asking(question: Question, rate: str = "0.5", **options: Any) -> Recipe:
    """A loud question: at a small epsilon noise would hide that devices are missing."""
    chosen = {"epsilon": Decimal(6), "max_epsilon0": Decimal(7), "min_batch_size": 100, **options}
    return KIT.recipe(question=question, population=DEVICES, rate=Decimal(rate), **chosen)


def cases() -> Iterator[tuple[str, Recipe, list[int]]]:
    """A recipe of each kind, and the encoded answers of its devices."""
    smokers = [int(answer > 0) for answer in HELD]
    yield "krr", asking(VISITS, randomizer="krr"), HELD
    yield "rappor", asking(VISITS, randomizer="rappor"), HELD
    yield "rr", asking(SMOKES, randomizer="rr"), smokers
    yield "everybody", asking(VISITS, "1", randomizer="krr"), HELD
    yield "dummies", with_sampling(asking(VISITS), dummies={"intensity": "20", "population": DEVICES}), HELD
    importance = {"default": 0, "default_rate": "0.4"}
    yield "importance", with_sampling(asking(VISITS, "0.8"), importance=importance), HELD
    yield "noise shares", asking(SMOKES, randomizer="flips"), smokers
    yield "mean", asking(SCORE, randomizer="flips"), [2 * answer for answer in HELD]
    yield "sum", asking(TOTAL, randomizer="flips"), [2 * answer for answer in HELD]


WITHOUT_BOUNDS = {"mean"}
"""Devices without a value are in a mean, so it has no interval for everybody (P34)."""
CASES = {name: (recipe, answers) for name, recipe, answers in cases()}


def silenced(answers: Sequence[int], chosen: str) -> list[int]:
    """The answers of the devices that are not silent."""
    if chosen == "nobody":
        return list(answers)
    if chosen == "anybody":
        return [answer for place, answer in enumerate(answers) if place % 100 >= 11]
    most = max(set(answers), key=answers.count) if chosen == "most frequent" else max(answers)
    left = [answer for answer in answers if answer != most]
    return left + [most] * max(0, len(answers) - SILENT - len(left))


def summed(recipe: Recipe, answers: Sequence[int], seed: str) -> tuple[int, list[int]]:
    """How many contributions come from devices with these answers, and what they add up to."""
    randomizer, entropy = randomizer_of(recipe), SeededEntropy(seed.encode())
    sums, reports = [0] * randomizer.cells, 0
    for answer in answers:
        measurement = None
        if coin(recipe.sampling.rate_of(answer), entropy):
            measurement = device_randomiser_of(randomizer).randomise(answer, entropy)
        if measurement is None and recipe.sampling.dummies and coin(recipe.sampling.dummy_rate, entropy):
            measurement = device_randomiser_of(randomizer).dummy(entropy)
        if measurement is None:
            continue
        reports += 1
        if isinstance(measurement, list):
            sums = [left + right for left, right in zip(sums, measurement, strict=True)]
        elif randomizer.cells == 1:
            sums[0] += measurement
        else:
            sums[measurement] += 1
    return reports, sums


def released(recipe: Recipe, answers: Sequence[int], seed: str) -> dict[str, Any]:
    """The members of a release that speak of answers, for a population that the analyst states."""
    reports, sums = summed(recipe, answers, seed)
    estimate = estimator_of(randomizer_of(recipe)).estimate(sums, reports, design_of(recipe))
    rows = zip(sums, estimate.values, estimate.stderrs, strict=True)
    buckets = [{"count": count, "estimate": value, "stderr": stderr} for count, value, stderr in rows]
    return with_response({"buckets": buckets, "report_count": reports}, recipe, stated_asked(DEVICES))


def truth_of(recipe: Recipe, answers: Sequence[int]) -> list[float]:
    """The numbers that a release estimates, of these devices."""
    if recipe.question.statistic == "histogram":
        return [float(answers.count(cell)) for cell in range(6)]
    if recipe.question.statistic == "count":
        return [float(sum(answers))]
    total = float(sum(answers) - 2 * len(answers))
    return [total / len(answers) if recipe.question.statistic == "mean" else total]


LONG = [pytest.param(one, marks=pytest.mark.slow) for one in ("anybody", "largest")]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["nobody", "most frequent", *LONG])
@pytest.mark.parametrize("name", CASES)
def test_intervals_cover_those_who_answered_and_where_stated_everybody_who_was_asked(name: str, chosen: str) -> None:
    recipe, held = CASES[name]
    answers = silenced(held, chosen)
    own, everybody = truth_of(recipe, answers), truth_of(recipe, held)
    misses = {kind: [0] * len(own) for kind in ("answered", "share", "everybody")}
    verdicts: Counter[str] = Counter()
    for run in range(RUNS):
        document = released(recipe, answers, f"{name} {chosen} {run}")
        verdicts[document["response"]["verdict"]] += 1
        for cell, row in enumerate(document["buckets"]):
            misses["answered"][cell] += abs(row["estimate"] - own[cell]) > 1.96 * row["stderr"]
            if name in WITHOUT_BOUNDS:
                assert "population_low" not in row
            else:
                misses["everybody"][cell] += not row["population_low"] <= everybody[cell] <= row["population_high"]
            if "share" in row:
                share = own[cell] / len(answers)
                misses["share"][cell] += abs(row["share"] - share) > 1.96 * row["share_stderr"]
    assert max(map(max, misses.values())) <= MOST_MISSES, misses
    assert all("share" in row for row in document["buckets"]) == (recipe.question.statistic in {"histogram", "count"})
    if chosen == "nobody":
        assert verdicts.total() - verdicts["expected"] <= 2, "three false alarms have a chance of 1e-4"
        return
    assert verdicts["more"] == 0
    assert verdicts["fewer"] > (RUNS / 20 if len(held) - len(answers) == SILENT else 0), verdicts


def test_an_interval_of_those_who_answered_promises_nothing_of_everybody() -> None:
    """As it was read before results said of whom they speak: one interval in two, or fewer, held the truth."""
    recipe, held = CASES["krr"]
    rows = [released(recipe, silenced(held, "most frequent"), f"bare {run}")["buckets"][0] for run in range(RUNS)]
    assert sum(abs(row["estimate"] - 300) <= 1.96 * row["stderr"] for row in rows) < RUNS / 2


def test_an_asked_number_that_the_contributions_refute_gives_no_interval() -> None:
    recipe, held = CASES["krr"]
    reports, sums = summed(recipe, held, "refuted")
    bare = {"buckets": [{"count": count} for count in sums], "report_count": reports}
    document = with_response(bare, recipe, stated_asked(DEVICES // 3))
    assert document["response"]["verdict"] == "more"
    assert all("share" in row and "population_low" not in row for row in document["buckets"])


def test_a_release_says_what_was_asked_expected_and_counted_as_the_recipe_states_it() -> None:
    recipe = asking(VISITS, randomizer="krr")
    aggregate = AggregateResult(267, Interval(0, 1), (120, 60, 44, 28, 14, 1))
    document = collector_side(recipe.model).release(recipe, "batch", 0, aggregate, 0.0)
    response = document["response"]
    assert response["asked"] == {"least": 599, "most": 600, "by": "recipe"}
    assert response["counted"] == 267
    assert response["answered"]["estimate"] == pytest.approx(534)
    assert response["expected"]["contributions"] == pytest.approx(299.75)
    low, high = response["expected"]["low"], response["expected"]["high"]
    for edge, devices, outside in ((low, 599, range(low)), (high, 600, range(high + 1, 601))):
        first, mass = binomial_window(devices, 0.5, 1e-15)
        tail = sum(mass[place - first] for place in outside if 0 <= place - first < len(mass))
        nearest = mass[edge - first]
        assert tail <= FALSE_ALARM / 2 < tail + nearest, "the bounds are as near as the stated chance lets them be"
    assert response["verdict"] == "expected"
    assert sum(row["share"] for row in document["buckets"]) == pytest.approx(1)


@pytest.mark.parametrize(
    "recipe",
    [
        CASES["importance"][0],
        KIT.round(KIT.series()),
        asking(VISITS, min_batch_size=300),
        changed(asking(VISITS), "batch.close", "at_B"),
    ],
    ids=["importance", "series", "as few as B", "closes at B"],
)
def test_where_the_recipe_cannot_tell_how_many_were_asked_nothing_is_made_up(recipe: Recipe) -> None:
    assert asked_by(recipe) is None
    cells = randomizer_of(recipe).cells
    bare = {"buckets": [{"count": 300 // cells}] * cells, "report_count": 300 // cells * cells}
    document = with_response(bare, recipe)
    assert document["response"]["verdict"] == "unknown"
    assert "expected" not in document["response"]
    assert not any("population_low" in row for row in document["buckets"])
    if recipe.batch.close == "at_B":
        with pytest.raises(UsageError, match="close at B"):
            with_response(bare, recipe, stated_asked(600))


def test_a_number_of_devices_that_nobody_could_ask_costs_no_time() -> None:
    """Chance is summed over a range that grows with the number's root: 2^53 would be a billion terms."""
    recipe = changed(asking(VISITS), "batch.expected_contributions", MAX_INTEGER)
    assert asked_by(recipe) is None
    with pytest.raises(UsageError, match="at most 10,000,000,000"):
        stated_asked(MOST_ASKED + 1)


def test_of_an_importance_sampled_sum_only_the_two_rates_bound_what_a_full_response_brings() -> None:
    default = {"default": 0, "default_rate": "0.3"}
    score = TOTAL.model_copy(update={"encoder": Number(kind="number", low=0, high=8)})
    recipe = with_sampling(asking(score, randomizer="flips"), importance=default)
    flips = randomizer_of(recipe)
    assert isinstance(flips, Flips)

    def verdict(reports: int) -> str:
        count = reports * flips.flips // 2
        bare = {"buckets": [{"count": count}], "report_count": reports}
        return str(with_response(bare, recipe, stated_asked(600))["response"]["verdict"])

    assert [verdict(reports) for reports in (120, 180, 240, 300, 360)] == [
        "fewer",
        "expected",
        "expected",
        "expected",
        "more",
    ]
