"""Canonical JSON, written by two encoders: where the fast one answers, it gives what RFC 8785 says."""

from __future__ import annotations

import enum
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.tlog.canonical import MAX_INTEGER, _plainly, canonical_bytes


class Word(enum.StrEnum):
    ONE = "one"


class Number(enum.IntEnum):
    ONE = 1


TEXTS = st.text(st.characters(exclude_categories=())) | st.text('\x00\x1f\x7f\x80\u2028\ud7ff\ue000\uffff😀"\\/é\n')
LEAVES = st.none() | st.booleans() | TEXTS | st.integers(-(2**54), 2**54) | st.floats() | st.sampled_from([Word.ONE])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS | st.integers(), inner),
    max_leaves=20,
)


def reference(value: Any) -> bytes | None:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError):
        return None


@given(VALUES)
@example({"\ue000": 1, "😀": 2})
@example({"a": 1.0, "b": [True, 1, "1"]})
@example({1: "a", "1": "b"})
@example([MAX_INTEGER, -MAX_INTEGER, MAX_INTEGER + 1])
@example({"\ud800": 1})
def test_both_encoders_agree_on_every_value_and_refuse_the_same(value: Any) -> None:
    expected = reference(value)
    assert _plainly(value) in {None, expected}
    if expected is None:
        with pytest.raises(DecodeError):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == expected


@pytest.mark.parametrize(
    "value", [{"b": [1, "é\x7f\x1f/"], "a": {"c": None}}, {"x": Word.ONE, "y": Number.ONE}, {}, []]
)
def test_documents_of_the_log_take_the_fast_way(value: Any) -> None:
    assert _plainly(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [Decimal(1), b"x", {"a": {1, 2}}, {None: 1}, float("nan"), 2**60])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(DecodeError):
        canonical_bytes(value)


def test_nesting_without_an_end_is_refused_and_an_ordered_dictionary_is_sorted() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circular: list[Any] = []
    circular.append(circular)
    for value in (deep, circular):
        with pytest.raises(DecodeError):
            canonical_bytes(value)
    assert canonical_bytes(OrderedDict(b=1, a=2)) == b'{"a":2,"b":1}'
