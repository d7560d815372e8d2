"""A result that lists the answers that stand out: from its collector to every view, without a label for each value."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from infra.lab.kit.recipes import NOW, RecipeKit
from infra.tools.documents.schemas import schema_of
from infra.views.result_page import result_page
from services.admin.pages.charts import over_time
from services.admin.pages.rendering import render
from services.admin.pages.views.published import release_row
from tacit.messages import Interval
from tacit.methods.base.candidate_labels import printable
from tacit.methods.result import MOST_ITEM_BYTES, MOST_ITEMS, Item, Ranked, rows
from tacit.models.secure_aggregation.collector import SecureAggregationCollector
from tacit.operations.tables import csv_bytes, result_rows
from tacit.recipe.model import Recipe
from tacit.recipe.response import Asked, with_response
from tacit.roles.collector import AggregateResult
from tests.unit.test_result_view import shown

KIT = RecipeKit()
HOSTILE = "<b>\u202e\x1b[2Jé\\"
ESCAPED = r"<b>\u202e\x1b[2Jé\\"
FOUND = Ranked((Item("chat.example", 5120.6, 80.0), Item(HOSTILE, 2040.0, 80.0)), 400.2, 0.95)
REST = "very other text of the domain is below 401, with probability 0.95"


class RankingCollector(SecureAggregationCollector):
    """The collector side of a model whose aggregate tells which strings are frequent."""

    def result(self, recipe: Recipe, aggregate: AggregateResult) -> Ranked:
        """The same two strings for every aggregate."""
        del recipe, aggregate
        return FOUND


def released() -> dict[str, Any]:
    return RankingCollector().release(KIT.recipe(), "", 0, AggregateResult(300, Interval(0, 60), ()), float(NOW))


def test_a_release_lists_what_was_found_and_bounds_the_rest() -> None:
    document = json.loads(json.dumps(released()))
    assert document["ranked"] == {
        "items": [
            {"item": "chat.example", "estimate": 5120.6, "stderr": 80.0},
            {"item": HOSTILE, "estimate": 2040.0, "stderr": 80.0},
        ],
        "rest": {"below": 400.2, "probability": 0.95},
        "threshold": {"estimate": 0.0, "false_positive_rate": 1.0},
    }
    assert "buckets" not in document
    assert document["response"]["counted"] == 300
    assert document["privacy"]["n"] == KIT.recipe().privacy.n
    again = with_response(document, KIT.recipe(), Asked(1_000, 1_000, "analyst"))
    assert (again["ranked"], again["response"]["asked"]["most"]) == (document["ranked"], 1_000)
    validator = Draft202012Validator(schema_of("result"))
    validator.validate(document)
    for wrong in ({**document, "buckets": []}, {key: value for key, value in document.items() if key != "ranked"}):
        with pytest.raises(ValidationError):
            validator.validate(wrong)


def test_every_view_shows_the_strings_escaped_and_the_bound() -> None:
    document = released()
    pages = (result_page([document]), render("release.html", release=release_row(document)))
    for text in (shown(document), *pages):
        assert REST in " ".join(text.replace("│", " ").split())
        for words in ("chat.example", "5,121", r"\u202e\x1b[2Jé\\"):
            assert words in text, words
        assert not {"\u202e", "\x1b"} & set(text)
    assert not any("<b>\\" in page for page in pages)
    assert [row["label"] for row in result_rows([document])] == ["chat.example", ESCAPED]
    (_, last) = csv.DictReader(io.StringIO(csv_bytes([document]).decode()))
    assert (last["label"], last["estimate"], last["count"]) == (ESCAPED, "2040.0", "")


def test_a_release_in_which_nothing_stands_out_is_shown_with_its_bound_alone() -> None:
    document = {**released(), **Ranked((), 400.2, 0.95).members()}
    for text in (shown(document), result_page([document]), render("release.html", release=release_row(document))):
        assert REST in " ".join(text.replace("│", " ").split())
    assert result_rows([document]) == []


def test_every_view_says_how_many_devices_have_a_text_that_does_not_fit() -> None:
    ranked = Ranked((Item("chat.example", 90.0, 4.0),), 400.2, 0.95, outside=(2_390.4, 75.0))
    document = {**released(), **json.loads(json.dumps(ranked.members()))}
    assert document["ranked"]["outside"] == {"estimate": 2_390.4, "stderr": 75.0}
    Draft202012Validator(schema_of("result")).validate(document)
    for text in (shown(document), result_page([document]), render("release.html", release=release_row(document))):
        words = " ".join(text.replace("│", " ").split())
        assert "texts that do not fit it are on 2,390 ± 147 devices, and never listed" in words
    assert "texts that do not fit it are neither counted nor listed" in " ".join(
        shown(released()).replace("│", " ").split()
    )
    with pytest.raises(ValueError, match="finite"):
        Ranked((), 1.0, 1.0, outside=(math.nan, 1.0))


def test_over_time_an_answer_has_points_where_it_was_found() -> None:
    other = {**released(), **Ranked((Item("chat.example", 9.0, 1.0), Item("new", 8.0, 1.0)), 5.0, 0.9).members()}
    charts = over_time([released(), other])
    assert [(chart["label"], len(chart["points"])) for chart in charts] == [("chat.example", 2), ("new", 1)]


@pytest.mark.parametrize(
    ("items", "below", "probability", "words"),
    [
        ([Item(str(at), 1.0, 1.0) for at in range(MOST_ITEMS + 1)], 1.0, 0.5, "more than 1,000"),
        ([Item("é" * (MOST_ITEM_BYTES // 2) + "x", 1.0, 1.0)], 1.0, 0.5, "from 1 to 256 bytes"),
        ([Item("", 1.0, 1.0)], 1.0, 0.5, "from 1 to 256 bytes"),
        ([Item("\ud800", 1.0, 1.0)], 1.0, 0.5, "not a text"),
        ([Item("a", float("nan"), 1.0)], 1.0, 0.5, "finite"),
        ([Item("a", 1.0, -1.0)], 1.0, 0.5, "finite"),
        ([Item("a", 2.0, 1.0), Item("a", 1.0, 1.0)], 1.0, 0.5, "twice"),
        ([Item("a", 1.0, 1.0), Item("b", 2.0, 1.0)], 1.0, 0.5, "falling order"),
        ([], 0.0, 0.5, "above 0"),
        ([], 1.0, 1.1, "up to 1"),
    ],
)
def test_no_result_is_larger_or_less_ordered_than_readers_expect(
    items: list[Item], below: float, probability: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Ranked(tuple(items), below, probability)


def test_the_bounds_are_allowed_and_escaping_loses_nothing() -> None:
    longest = Item("é" * (MOST_ITEM_BYTES // 2), 1.0, 0.0)
    assert len(Ranked((longest, *(Item(str(at), 1.0, 1.0) for at in range(MOST_ITEMS - 1))), 1.0, 1.0).items) == 1_000
    assert printable("ordinary, é 你") == "ordinary, é 你"
    assert printable("a\nb\\n") == "a\\nb\\\\n"
    assert rows({"name": "older"}) == ()
