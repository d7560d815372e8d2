"""A problem's title and detail are told to a person as sentences."""

from __future__ import annotations

import pytest

from services.admin.base.problems import Problem, refuse
from tacit.errors import Abort, in_sentences


@pytest.mark.parametrize(
    ("title", "detail", "words"),
    [
        ("Somebody has to consent.", "you asked yourself", "Somebody has to consent. You asked yourself."),
        ("refused by rule budget-spent:", "nothing is left", "refused by rule budget-spent: nothing is left"),
        ("Your role may not do this.", "", "Your role may not do this."),
        ("", "only a detail", "only a detail"),
        ("Wrong.", "population: is needed", "Wrong. population: is needed."),
        ("Wrong.", "encoder.kind: is unknown", "Wrong. encoder.kind: is unknown."),
        ("It failed.", "5 of 6 (see the log)", "It failed. 5 of 6 (see the log)."),
    ],
)  # fmt: skip
def test_a_detail_after_a_sentence_is_a_sentence(title: str, detail: str, words: str) -> None:
    assert in_sentences(title, detail) == words


def test_a_refusal_without_a_title_says_that_it_is_one() -> None:
    assert Abort("about:blank", "no reason").words == "refused no reason"
    assert refuse(Problem.OWN_CHANGE, "you asked for this change yourself").words.endswith(
        "You asked for this change yourself."
    )
