"""Released results of every pan-private model and statistic against the truth, over hundreds of batches.

A device's answer has exactly the law of the recipe's method (``tests/unit/test_panprivate_laws.py`` enumerates it), so
batches are drawn by that law. Some devices saw more events than count, and some never had a state: both are truth here.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.messages import Interval
from tacit.methods.flips import Flips
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.models.collectors import COLLECTORS
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tests.kit.statistics import SKEW_SLACK, normality
from tests.kit.watched import CELLS, WatchedKit

RUNS, ALPHA = 400, 1e-5
RANDOM = 20_261_125
EVENTS = {0: 120, 1: 60, 2: 40, 3: 20, 7: 10}
"""How many devices saw how many events."""
STATELESS = 30
"""Devices without a state answer as if they had seen nothing."""
KIT = WatchedKit(b"watched estimates")


def answers_of(recipe: Recipe) -> np.ndarray:
    """The true answer of every device."""
    encoder = recipe.question.encoder
    assert isinstance(encoder, Occurrences)
    seen = np.repeat(list(EVENTS), list(EVENTS.values()))
    answers: np.ndarray = np.minimum(np.concatenate([seen, np.zeros(STATELESS, dtype=np.int64)]), encoder.most)
    return answers


def holders(recipe: Recipe, answers: np.ndarray) -> list[np.ndarray]:
    """Per row of the result, which devices belong to it."""
    rows = len(labels(recipe))
    return [answers > 0] if rows == 1 else [answers == row for row in range(rows)]


def drawn(recipe: Recipe, answers: np.ndarray, random: np.random.Generator) -> tuple[int, ...]:
    """The sum over one batch of what devices send."""
    method = randomizer_of(recipe)
    if isinstance(method, Flips):
        return (int(method.scale * answers.sum() + random.binomial(method.flips * len(answers), 0.5)),)
    assert isinstance(method, Rr | Rappor)
    own, other = map(float, method.output_probabilities())
    held = [int(row.sum()) for row in holders(recipe, answers)]
    return tuple(int(random.binomial(one, own) + random.binomial(len(answers) - one, other)) for one in held)


def scores(recipe: Recipe) -> list[list[float]]:
    """Per batch and row: (estimate - truth) / standard error, both as the result document states them."""
    random, answers = np.random.default_rng(RANDOM), answers_of(recipe)
    mean = recipe.question.statistic == "mean"
    truth = [float(answers.mean())] if mean else [float(row.sum()) for row in holders(recipe, answers)]
    interval = Interval(recipe.interval.start // 60, recipe.interval.duration // 60)
    found = []
    for batch in range(RUNS):
        aggregate = AggregateResult(len(answers), interval, drawn(recipe, answers, random))
        document = COLLECTORS[recipe.model].release(recipe, str(batch), 0, aggregate, float(recipe.interval.end))
        rows = zip(document["buckets"], truth, strict=True)
        found.append([(row["estimate"] - true) / row["stderr"] for row, true in rows])
    return found


def chi_square(found: list[list[float]]) -> tuple[float, float]:
    """The sum of squares over all batches of the first row, and the probability of one as large."""
    total = math.fsum(row[0] ** 2 for row in found)
    return total, float(stats.chi2.sf(total, len(found)))


@pytest.mark.false_alarm(6 * ALPHA, "p-values of four tests of normality and two tails of chi-square", runs=3)
@pytest.mark.parametrize(("model", "statistic"), CELLS)
def test_results_miss_the_truth_as_their_standard_errors_say(model: str, statistic: str) -> None:
    found = scores(KIT.watched(model, statistic))
    assert normality(found, coverage_slack=SKEW_SLACK).smallest() > ALPHA
    assert ALPHA < chi_square(found)[1] < 1 - ALPHA


@pytest.mark.parametrize(("model", "statistic"), CELLS)
def test_an_estimate_that_is_off_by_half_a_standard_error_is_noticed(model: str, statistic: str) -> None:
    found = scores(KIT.watched(model, statistic))
    assert normality([[score + 0.5 for score in row] for row in found]).smallest() < ALPHA
    wide = [[1.25 * score for score in row] for row in found]
    assert chi_square(wide)[1] < ALPHA
