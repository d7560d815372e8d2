"""An analyst is warned before publishing where the noise of a plan exceeds what its answers can be."""

from __future__ import annotations

from decimal import Decimal

import pytest

from infra.lab.kit.recipes import RecipeKit, survey_from
from tacit.operations.outlook import hidden_words, outlook
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.writing.builder import propose

KIT = RecipeKit()


def asking(edges: str, devices: int) -> Recipe:
    encoder = {"kind": "buckets", "edges": [int(edge) for edge in edges.split(",")]}
    question = Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": "histogram"})
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
    margin = 1.96 * max(method.expected_stderrs([share] * method.cells, devices, design_of(recipe)))
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
