"""Canonical JSON, written by two encoders: where the fast one answers, it gives what RFC 8785 says."""

from __future__ import annotations

import base64
import enum
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import MAX_INTEGER, _plainly, canonical_bytes, parse_canonical, parse_json


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


def parsed_by_members(data: bytes) -> Any:
    """What the reader that looks at every member accepts."""
    try:
        value = parse_json(data, "it")
        return value if isinstance(value, dict) and rfc8785.dumps(value) == data else None
    except (DecodeError, rfc8785.CanonicalizationError, UnicodeError):
        return None


def changed(data: bytes, at: int, byte: int) -> bytes:
    at %= len(data) + 1
    return data[:at] + bytes([byte]) + data[at + byte % 2 :]


DOCUMENTS: st.SearchStrategy[Any] = st.dictionaries(TEXTS, VALUES, max_size=4)
ENCODED = DOCUMENTS.map(reference).filter(lambda data: data is not None)


@given(ENCODED, st.integers(0, 300), st.integers(0, 255), st.booleans())
@example(b'{"a":1,"a":1}', 0, 0, False)
@example(b'{"\xee\x80\x80":1,"\xf0\x9f\x98\x80":2}', 0, 0, False)
@example(b'{"\xf0\x9f\x98\x80":2,"\xee\x80\x80":1}', 0, 0, False)
@example(b'{"a":-0}', 0, 0, False)
@example(b'{"a":9007199254740992}', 0, 0, False)
@example(b'{"a":1.0}', 0, 0, False)
@example(b'{"a":NaN}', 0, 0, False)
@example(b'{"a":"\\ud800"}', 0, 0, False)
@example(b' {"a":1}', 0, 0, False)
@example(b'\xef\xbb\xbf{"a":1}', 0, 0, False)
@example(b'{"a":"\\u0041"}', 0, 0, False)
@example(b"[1]", 0, 0, False)
def test_both_readers_accept_the_same_bytes_and_find_the_same(data: Any, at: int, byte: int, changes: bool) -> None:
    data = changed(data, at, byte) if changes else data
    expected = parsed_by_members(data)
    if expected is None:
        with pytest.raises(DecodeError):
            parse_canonical(data, "it")
    else:
        assert parse_canonical(data, "it") == expected


@given(st.binary(max_size=70), st.integers(0, 100), st.sampled_from(b"+/=-_A \n\x80"))
@example(b"", 0, ord("="))
def test_base64url_has_one_spelling_per_value(data: bytes, at: int, byte: int) -> None:
    text = b64url(data)
    assert text == base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    assert unb64url(text) == data
    for other in (changed(text.encode(), at, byte), changed(text.encode(), at, byte + 1)):
        spelled = other.decode("latin-1")
        try:
            found = unb64url(spelled)
        except DecodeError:
            continue
        assert b64url(found) == spelled
