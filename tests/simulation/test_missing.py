"""Estimates against the truth with missing values: every method and statistic, at several shares of missing values.

Reports are drawn by the exact law of what a device sends, so that hundreds of batches take a moment. The pan-private
statistics are among them: a watched count is ``rr``, a histogram ``rappor``, a mean ``flips``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from infra.lab.kit.recipes import RecipeKit, changed
from tacit.messages import Interval
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.statistics import STATISTICS, StatisticName
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.krr import Krr
from tacit.methods.rr import Rr
from tacit.models.collectors import collector_side
from tacit.recipe.cautions import cautions
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import encoder_of, labels
from tacit.recipe.model import Recipe
from tacit.recipe.response import Asked, biased_by_missing, with_response
from tacit.recipe.writing.survey import NO_VALUE, Survey
from tacit.roles.collector import AggregateResult
from tests.kit.statistics import NORMAL_95, SKEW_SLACK, normality
from tests.unit.device_path import Law
from tests.unit.test_methods_every import ANSWERS, CASES, VALUES, dummy_law, law, made, summed

RUNS, DEVICES, RATE, ALPHA = 400, 1_200, 0.5, 1e-5
SHARES = (0.0, 0.03, 0.1, 0.3)
RANDOM = 20_261_124
DESIGN = SampleDesign(RATE)


def sums(cells: int, law_of: Law) -> tuple[list[float], NDArray[np.int64]]:
    """The probability of every output, and what each adds to the aggregate and to the number of reports."""
    rows = np.array([summed(cells, output) for output in law_of], dtype=np.int64)
    return [float(probability) for probability in law_of.values()], rows


def estimates(name: str, statistic: str, groups: Sequence[tuple[Law, int]]) -> list[Estimate]:
    """Of batches of groups of devices that share a law."""
    method, random = made(name, statistic), np.random.default_rng(RANDOM)
    tables = [(*sums(method.cells, law_of), devices) for law_of, devices in groups]
    found = []
    for _ in range(RUNS):
        drawn = [random.multinomial(random.binomial(held, RATE), likely) @ rows for likely, rows, held in tables]
        *counts, reports = np.sum(drawn, axis=0).tolist()
        found.append(estimator_of(method).estimate(counts, reports, DESIGN))
    return found


def scores(found: Sequence[Estimate], truth: Sequence[float]) -> list[list[float]]:
    return [
        [(value - true) / error for value, true, error in zip(one.values, truth, one.stderrs, strict=True)]
        for one in found
    ]


def sizes(answers: Sequence[Any], missing: int) -> list[int]:
    """How many devices have each of the answers, half as many each one as the one before it."""
    weights = [2.0**-at for at in range(len(answers))]
    held = [math.floor((DEVICES - missing) * weight / sum(weights)) for weight in weights]
    return [held[0] + DEVICES - missing - sum(held), *held[1:]]


@pytest.mark.false_alarm(8 * ALPHA, "p-values of four tests for each of two methods of few runs", runs=3)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", [name for name, statistic in CASES if statistic == "histogram"])
def test_with_a_category_for_no_value_every_answer_is_estimated_without_bias(name: str, share: float) -> None:
    """The last of three answers is that there is none."""
    missing = round(DEVICES * share)
    truth = [*sizes([0, 1], missing), missing]
    found = estimates(name, "histogram", [(law(name, "histogram", at), held) for at, held in enumerate(truth)])
    assert normality(scores(found, truth), coverage_slack=SKEW_SLACK).smallest() > ALPHA


@pytest.mark.false_alarm(8 * ALPHA, "p-values of four tests", runs=3)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_without_one_each_missing_value_adds_what_the_result_says(
    name: str, statistic: StatisticName, share: float
) -> None:
    missing, answers = round(DEVICES * share), ANSWERS[statistic]
    held = sizes(answers, missing)
    laws = [law(name, statistic, answer) for answer in answers]
    found = estimates(name, statistic, [*zip(laws, held, strict=True), (dummy_law(name, statistic), missing)])
    adds = estimator_of(made(name, statistic)).missing_adds(DESIGN)
    if STATISTICS[statistic].is_ratio:
        values = [answer + 1.0 for answer in answers]
        (added,) = adds
        expected = [(math.fsum(map(math.prod, zip(values, held, strict=True))) + added * missing) / DEVICES]
    else:
        columns = zip(*(VALUES[statistic](answer) for answer in answers), strict=True)
        totals = [math.fsum(map(math.prod, zip(column, held, strict=True))) for column in columns]
        expected = [total + more * missing for total, more in zip(totals, adds, strict=True)]
    if found[0].typical is None:
        assert normality(scores(found, expected), coverage_slack=2 * SKEW_SLACK).smallest() > ALPHA
        return
    for errors in zip(*scores(found, expected), strict=True):  # by errors that are the largest possible
        assert abs(np.mean(errors)) < 4.8 * np.std(errors) / math.sqrt(RUNS)
        assert np.mean(np.abs(errors) <= NORMAL_95) > 0.95 - 4.8 * math.sqrt(0.05 * 0.95 / RUNS)


# Intervals for all devices that were asked

KIT = RecipeKit(b"missing")
SILENT = 0.1


def visits(missing: str | None) -> Recipe:
    """A histogram of four buckets, with or without a category for no value."""
    body = {"kind": "buckets", "edges": [0, 1, 2, 4], **({} if missing is None else {"missing": missing})}
    return KIT.recipe(question=changed(KIT.recipe(), "question.encoder", body).question, population=4_000)


def released(recipe: Recipe, random: np.random.Generator, truth: Sequence[int]) -> dict[str, Any]:
    """A release of devices of which some are silent, and others have no value."""
    randomizer = randomizer_of(recipe)
    assert isinstance(randomizer, Krr)
    own, other = map(float, randomizer.output_probabilities())
    cells = len(labels(recipe))
    rows = [[own if cell == at else other for cell in range(cells)] for at in range(cells)]
    rows += [[1 / cells] * cells] * (len(truth) - cells)
    answering = [random.binomial(held, (1 - SILENT) * float(recipe.rate)) for held in truth]
    counts = np.sum([random.multinomial(sent, row) for sent, row in zip(answering, rows, strict=True)], axis=0)
    result = AggregateResult(int(sum(answering)), Interval(0, 1), tuple(int(count) for count in counts))
    document = collector_side(recipe.model).release(recipe, "", 0, result, 0.0)
    return with_response(document, recipe, Asked(sum(truth), sum(truth), "analyst"))


@pytest.mark.false_alarm(1e-6, "coverage of 0.95 or more in 400 runs below 0.88", runs=3)
@pytest.mark.parametrize("share", SHARES)
def test_intervals_for_all_that_were_asked_hold_whatever_share_has_no_value(share: float) -> None:
    recipe, random = visits(NO_VALUE), np.random.default_rng(RANDOM)
    missing = round(4_000 * share)
    truth = [2_000 - missing // 2, 1_000 - missing // 2, 800, 200, missing]
    documents = [released(recipe, random, truth) for _ in range(RUNS)]
    for row, true in enumerate(truth):
        inside = [
            one["buckets"][row]["population_low"] <= true <= one["buckets"][row]["population_high"] for one in documents
        ]
        assert sum(inside) / RUNS > 0.88, labels(recipe)[row]
    assert not biased_by_missing(recipe)
    assert [cautions(one) for one in documents[:5] if one["response"]["verdict"] == "expected"] == []
    assert documents[0]["missing"] == {"outside": "clipped", "label": NO_VALUE}


@pytest.mark.false_alarm(1e-6, "an estimate and its interval, each at six standard errors of 400 runs", runs=3)
@pytest.mark.parametrize("share", SHARES)
def test_a_count_is_of_the_devices_that_say_yes_whatever_share_has_no_value(share: float) -> None:
    recipe, random = smokes("category"), np.random.default_rng(RANDOM)
    method = randomizer_of(recipe)
    assert isinstance(method, Rr)
    assert encoder_of(recipe.question).encode(None) == 0
    keep, flip = map(float, method.output_probabilities())
    yes, devices = round(1_200 * (1 - share)), 4_000
    inside, errors = 0, []
    for _ in range(RUNS):
        saying, others = (random.binomial(held, (1 - SILENT) * float(recipe.rate)) for held in (yes, devices - yes))
        count = int(random.binomial(saying, keep) + random.binomial(others, flip))
        result = AggregateResult(int(saying + others), Interval(0, 1), (count,))
        bare = collector_side(recipe.model).release(recipe, "", 0, result, 0.0)
        (row,) = with_response(bare, recipe, Asked(devices, devices, "analyst"))["buckets"]
        inside += row["population_low"] <= yes <= row["population_high"]
        errors.append(row["estimate"] - (1 - SILENT) * yes)
    assert inside / RUNS > 0.88
    assert abs(np.mean(errors)) < 6 * np.std(errors) / math.sqrt(RUNS)
    assert not biased_by_missing(recipe)
    assert bare["missing"] == {"outside": "missing", "label": "no"}
    assert biased_by_missing(smokes("ignore"))


def smokes(missing: str) -> Recipe:
    """A yes or no question, as a survey asks it."""
    survey = {"name": "s", "metric": "smokes", "encoder": {"kind": "boolean"}, "population": 4_000, "missing": missing}
    question = Survey.model_validate(survey).question()
    return KIT.recipe(question=question, population=4_000, randomizer="rr")


def test_without_a_category_no_interval_is_given_for_all_and_a_warning_stands_beside_the_result() -> None:
    recipe = visits(None)
    document = released(recipe, np.random.default_rng(RANDOM), [2_000, 900, 700, 300, 100])
    assert biased_by_missing(recipe)
    assert not any("population_low" in row for row in document["buckets"])
    assert all("share" in row for row in document["buckets"])
    assert document["missing"] == {"outside": "clipped", "adds": pytest.approx([0.25] * 4), "biases": True}
    assert "devices without a value cannot be told from others, and each adds 0.25" in cautions(document)[-1]
    assert document["warnings"] == cautions(document), "whoever reads the JSON is told too"
