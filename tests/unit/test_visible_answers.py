"""An analyst is warned before publishing where the noise of a plan exceeds what its answers can be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from infra.lab.kit.recipes import RecipeKit, survey_from
from tacit.methods.estimators.registry import estimator_of
from tacit.operations.outlook import hidden_words, outlook
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.writing.builder import propose

KIT = RecipeKit()


def asking(edges: str, devices: int) -> Recipe:
    encoder = {"kind": "buckets", "edges": [int(edge) for edge in edges.split(",")]}
    return asking_for("histogram", encoder, devices)


def asking_for(statistic: str, encoder: dict[str, Any], devices: int, **options: Any) -> Recipe:
    question = Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})
    base = KIT.recipe()
    survey = survey_from(
        name="visits",
        question=question,
        population=devices,
        token=base.token,
        start=base.interval.start,
        duration=base.interval.duration,
        rate=Decimal(1),
        min_batch_size=int(devices * 0.8),
        **options,
    )
    return propose(survey, base.parties)


@pytest.mark.parametrize(("edges", "devices", "warned"), [
    ("0,1", 60, False),
    ("0,1,2,4,8", 60, True),
    ("0,1,2,4,8", 3000, False),
    (",".join(map(str, range(16))), 300, True),
])  # fmt: skip
def test_a_plan_is_warned_of_where_an_even_share_is_below_the_margin(edges: str, devices: int, warned: bool) -> None:
    recipe = asking(edges, devices)
    method = randomizer_of(recipe)
    share = devices / method.cells
    margin = 1.96 * max(estimator_of(method).expected_stderrs([share] * method.cells, devices, design_of(recipe)))
    words = hidden_words(recipe)
    assert (margin > share, words is not None) == (warned, warned)
    assert outlook(recipe).document().get("warnings", []) == ([] if words is None else [words])


def test_the_warning_says_how_many_answers_the_noise_leaves_visible() -> None:
    words = hidden_words(asking("0,1,2,4,8", 60))
    assert words is not None
    assert words.startswith(
        "the noise hides most answers: an even share of 5 answers is 12 devices each, and the margin is ±"
    )
    assert "ask for at most " in words


@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("randomizer", ["one-bit", "flips"])
@pytest.mark.parametrize(("low", "high"), [(0, 50), (-20, 5), (100, 101)])
def test_a_sum_or_mean_is_warned_of_where_its_margin_exceeds_a_quarter_of_its_range(
    statistic: str, randomizer: str, low: int, high: int
) -> None:
    warned = set()
    for devices in (20, 200, 20_000):
        encoder = {"kind": "number", "low": low, "high": high}
        recipe = asking_for(statistic, encoder, devices, randomizer=randomizer)
        each = 1 if statistic == "mean" else devices
        middle, span = each * (low + high) / 2, each * (high - low)
        (stderr,) = estimator_of(randomizer_of(recipe)).expected_stderrs([middle], devices, design_of(recipe))
        words = hidden_words(recipe)
        assert (words is not None) == (1.96 * stderr > span / 4)
        assert words is None or "ask more devices, or a narrower range" in words
        warned.add(words is not None)
    assert warned == {True, False}
