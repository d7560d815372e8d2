"""Texts as items of a large domain, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.recipe.encoder import OUTSIDE, StringEncoder
from tacit.recipe.encoder_specs import Strings

LETTERS = Strings(kind="strings", length=12, alphabet="abcdefghijklmnopqrstuvwxyz'")
BYTES = Strings(kind="strings", length=8)


@given(st.text(alphabet=LETTERS.alphabet or "", min_size=1, max_size=12))
def test_a_text_of_the_alphabet_comes_back_from_its_item(text: str) -> None:
    encoder = StringEncoder(LETTERS)
    item = encoder.encode(text)
    assert isinstance(item, int)
    assert 0 < item < 1 << LETTERS.bits
    assert encoder.text(item) == text


@given(st.text(max_size=10))
def test_a_text_of_few_bytes_comes_back_and_any_other_is_no_value(text: str) -> None:
    encoder = StringEncoder(BYTES)
    item = encoder.encode(text)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = b""
    if 1 <= len(data) <= 8 and 0 not in data:
        assert isinstance(item, int)
        assert encoder.text(item) == text
    else:
        assert item is None


@given(st.integers(0, 2**64 - 1))
def test_an_item_is_one_text_or_none(item: int) -> None:
    for spec in (BYTES, Strings(kind="strings", length=16, alphabet="abcdefg")):
        encoder, own = StringEncoder(spec), item % (1 << spec.bits)
        text = encoder.text(own)
        assert text is None or encoder.encode(text) == own


@pytest.mark.parametrize(
    "value", ["", None, "UPPER", "thirteen long", "a b", 10**400, ("a",), b"a", object(), "\ud800"]
)
def test_what_the_domain_does_not_hold_is_no_value(value: Any) -> None:
    assert StringEncoder(LETTERS).encode(value) is None


def test_other_texts_are_one_item_that_no_text_has_where_they_are_counted() -> None:
    spec = LETTERS.model_copy(update={"outside": "(does not fit)"})
    encoder = StringEncoder(spec)
    others: tuple[Any, ...] = ("UPPER", "thirteen long", "a b", "\ud800", 4.5)
    for other in others:
        assert encoder.encode(other) == OUTSIDE
    nothings: tuple[Any, ...] = ("", None, 10**400, ("a",), b"a", object())
    for nothing in nothings:
        assert encoder.encode(nothing) is None
    assert encoder.text(OUTSIDE) is None
    assert encoder.encode("word") == StringEncoder(LETTERS).encode("word")


def test_numbers_count_as_their_texts() -> None:
    encoder = StringEncoder(BYTES)
    assert encoder.encode(404) == encoder.encode("404")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"length": 65}, "less than or equal to 64"),
        ({"length": 65, "alphabet": "abcdefghijklmnopqrstuvwxyz'"}, "less than or equal to 64"),
        ({"length": 3, "alphabet": "aba"}, "distinct"),
        ({"length": 0}, "greater than or equal to 1"),
        ({"length": 3, "alphabet": ""}, "at least 1"),
    ],
)
def test_a_domain_that_cannot_be_is_refused(members: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Strings.model_validate({"kind": "strings", **members})
