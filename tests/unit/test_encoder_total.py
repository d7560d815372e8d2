"""Encoders take whatever an embedding application hands over: nothing of its classes is called, and nothing is long."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any, NoReturn

import pytest

from tacit.methods.base.statistics import StatisticName
from tacit.recipe.encoder import MISSING, encoder_of, misread
from tacit.recipe.encoder_specs import Boolean, Buckets, Categories, EncoderSpec, Number, Occurrences, Vector
from tacit.recipe.model import Question

ENCODERS: list[EncoderSpec] = [
    Boolean(kind="boolean"),
    Buckets(kind="buckets", edges=(0, 10)),
    Buckets(kind="buckets", edges=(0, 10), missing="no value"),
    Categories(kind="categories", categories=("5", "b")),
    Number(kind="number", low=0, high=10),
    Vector(kind="vector", length=2, low=0, high=10, norm=14),
    Occurrences(kind="occurrences", start=60, step_seconds=60, steps=30, most=10),
]
SECONDS = 0.5
"""Thousands of times what any of these takes; one conversion of such a number to decimal takes half a minute."""


def encode(encoder: EncoderSpec, value: Any) -> Any:
    statistic: StatisticName = "sum" if isinstance(encoder, Number) else "histogram"
    question = Question.model_construct(text="?", metric="m", encoder=encoder, statistic=statistic)
    return encoder_of(question).encode(value)


def fails(*_arguments: object, **_named: object) -> NoReturn:
    raise RuntimeError("an application's own class")


NAMES = ("strip", "lower", "split", "count", "bit_length", "as_integer_ratio", "is_nan", "quantize")
SPECIAL = ("__str__", "__repr__", "__hash__", "__eq__", "__len__", "__iter__", "__lt__", "__int__", "__float__")


def hostile(kind: type, value: Any) -> Any:
    """``value`` as a subclass of its class in which every method fails."""
    members: dict[str, Any] = dict.fromkeys((*NAMES, *SPECIAL), fails)
    return type("Hostile", (kind,), members)(value)


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: one.kind)
def test_a_subclass_of_a_plain_class_counts_as_what_it_holds(encoder: EncoderSpec) -> None:
    for kind, value in ((str, "5"), (int, 5), (float, 5.0), (Decimal, Decimal(5)), (list, ["1", "2"]), (tuple, (1, 2))):
        assert encode(encoder, hostile(kind, value)) == encode(encoder, value)
    row = [hostile(int, 1), hostile(str, "2")]
    assert encode(encoder, row) == encode(encoder, [1, 2])


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: one.kind)
def test_what_is_beyond_every_bound_takes_no_time(encoder: EncoderSpec) -> None:
    wide = 1 << 1_000_000
    began = time.process_time()
    answers = [encode(encoder, value) for value in (wide, -wide, [wide, -wide], "9" * 2_000_000, [1] * 2_000_000)]
    assert time.process_time() - began < SECONDS
    if encoder.kind == "number":
        assert answers == [10, 0, MISSING, MISSING, MISSING]
    if encoder.kind == "vector":
        assert answers[2] == (9, 0) or answers[2] == (10, 0)


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: one.kind)
def test_what_fails_in_an_encoder_is_no_value(encoder: EncoderSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = encode(encoder, None)
    monkeypatch.setattr("tacit.recipe.values._scalar", lambda value: fails() if value is not None else None)
    assert encode(encoder, 5) == nothing


@pytest.mark.parametrize(
    ("encoder", "read", "misread_too"),
    [
        (ENCODERS[0], (True, "no", "YES", 1, None), ("NA", "2", 0.5, [1])),
        (ENCODERS[1], ("5", -1, "1e400", float("inf"), None), ("NA", "-", "1,5", "7\0", float("nan"), True, "")),
        (ENCODERS[3], ("5", "other", None), ()),
        (ENCODERS[4], (5, "5.5", 99, None), ("n/a", b"5", object())),
        (ENCODERS[5], ("1,2", [1, 2], None), ("1;2", [1], [1, "x"], 7)),
    ],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_a_value_of_another_form_is_told_without_the_value(
    encoder: EncoderSpec, read: tuple[object, ...], misread_too: tuple[object, ...]
) -> None:
    question = Question.model_construct(text="?", metric="m", encoder=encoder, statistic="histogram")
    assert [misread(question, value) for value in read] == [""] * len(read)
    for value in misread_too:
        assert misread(question, value).startswith("the value is ")
        assert encode(encoder, value) is MISSING
    assert misread(question, hostile(str, "NA")) == misread(question, "NA")
