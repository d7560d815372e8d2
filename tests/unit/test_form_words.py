"""The form for a question and its errors have one word for each field, and the same words for choices."""

from __future__ import annotations

import re

import pytest

from services.admin.pages.survey_fields import CHOICES_OF, FIELDS, GROUPS, USUAL, body_of
from services.admin.pages.survey_labels import chosen, label_of, told_fields
from services.admin.pages.views.editor import nameless
from services.admin.questions.questions import field_problem
from tacit.errors import FieldError
from tacit.operations.design import requirements_of
from tacit.recipe.writing.survey import Survey

NAMES = {field.path.rpartition(".")[2] for field in FIELDS}
INTERNAL = {one for one in NAMES if "_" in one} | {"population", "interval_end", "at_B"}
"""Names of members, and of choices, that no field of the form has as its word."""
COMPLETE = {**USUAL, "metric": "region", "population": "2000"}
NUMBER = {"encoder.kind": "number", "encoder.low": "0", "encoder.high": "9"}
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"population": "many"}, "Devices", "must be a whole number"),
    ({"population": "0"}, "Devices", "must be at least 1"),
    ({"population": "1000000000000"}, "Devices", "must be from 1 to 1000000000"),
    ({"epsilon": "50"}, "Epsilon", "must be from 1e-06 to 40"),
    ({**NUMBER, "encoder.low": "9", "encoder.high": "3"}, "Lowest value", "must be below “Highest value”"),
    ({**NUMBER, "encoder.unit": "0.4"}, "Unit", "must divide “Highest value” minus “Lowest value”"),
    ({"model": "local", "close": "at_B"}, "Closes", "must be “at the end of the interval” in model local"),
    ({"model": "local", "dummies": "5"}, "Dummies", "must be left out in model local"),
    ({"model": "local", "through": "shuffler"}, "Reports pass", "must be “the gateway alone” in model local"),
    ({"through": "shuffler", "close": "at_B"}, "Closes", "must be “at the end of the interval” where reports"),
    ({**NUMBER, "statistic": "histogram", "randomizer": "nothing"}, "Randomizer", "is not known"),
    ({"dummy_epsilon": "1"}, "Epsilon of sending", "belongs to “Dummies”"),
    ({"mechanism": "local", "randomizer": "rr"}, "Noise", "give either it or “Randomizer”"),
    ({"aggregator_flips": "3"}, "Aggregator's flips", "must be a multiple of 2"),
    ({"importance.default": "yes"}, "Usual answer", "“Rate of the usual answer”"),
]


def problem_of(form: dict[str, str]) -> FieldError | None:
    try:
        requirements_of(Survey.from_body(body_of(form)))
    except FieldError as error:
        return error
    return None


@pytest.mark.parametrize(("changes", "label", "words"), WRONG)
def test_an_error_has_the_words_of_the_form(changes: dict[str, str], label: str, words: str) -> None:
    error = problem_of({**COMPLETE, **changes})
    assert error is not None
    told = [(label_of(one["field"]), one["reason"]) for one in told_fields(field_problem(error))]
    assert any(at == label and words in reason for at, reason in told), told
    for _, reason in told:
        assert not INTERNAL & set(re.findall(r"[A-Za-z_]+", reason)), reason
        assert "`" not in reason


def test_every_reason_that_any_wrong_field_gets_is_in_the_words_of_the_form() -> None:
    for field in FIELDS:
        kind = field.kinds[0] if field.kinds else "boolean"
        for said in ("?", "-1", "0", "1e9", "x" * 600, "9" * 18):
            error = problem_of({**COMPLETE, "encoder.kind": kind, field.path: said})
            for one in told_fields(None if error is None else field_problem(error)):
                assert not INTERNAL & set(re.findall(r"[A-Za-z_]+", one["reason"])), (field.path, said, one)
                assert "`" not in one["reason"]
                assert one["field"] in {known.path for known in FIELDS}


def test_no_two_fields_of_a_group_and_no_two_choices_of_a_field_have_one_word() -> None:
    for group in GROUPS:
        labels = [field.label for field in group.fields]
        assert len(set(labels)) == len(labels)
    for choices in CHOICES_OF.values():
        assert len({chosen(one) for one in choices}) == len(choices)


@pytest.mark.parametrize(
    ("form", "missing"),
    [
        ({}, ["metric", "population", "encoder.kind"]),
        (USUAL, ["metric", "population"]),
        ({**USUAL, "metric": "\u6e2c\u5b9a", "population": "9"}, ["name"]),
        ({**USUAL, "encoder.kind": "attributes", "encoder.attributes": "os=a|b"}, ["name", "population"]),
    ],
)
def test_a_form_that_gives_a_draft_no_name_says_all_that_is_missing(form: dict[str, str], missing: list[str]) -> None:
    error = nameless(form)
    assert error is not None
    told = told_fields(field_problem(error))
    assert [one["field"] for one in told] == missing
    assert all(one["missing"] and one["reason"].startswith("is missing") for one in told)


def test_a_form_with_a_name_or_a_metric_is_a_draft_however_much_is_missing() -> None:
    assert nameless({"name": "later"}) is None
    assert nameless({**USUAL, "metric": "region"}) is None
