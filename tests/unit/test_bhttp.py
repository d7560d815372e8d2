"""``tacit.bhttp``: round trips of both framings, truncation, padding and refusals."""

from __future__ import annotations

import contextlib
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import bhttp
from tacit.errors import DecodeError

_TOKEN = "!#$%&'*+-.^_`|~" + string.digits
_VISIBLE = st.text([chr(code) for code in range(0x21, 0x7F)], max_size=30)
_VALUE = st.text([chr(code) for code in (*range(0x20, 0x7F), *range(0x80, 0x100), 9)], max_size=80)
_FIELDS = st.lists(
    st.tuples(
        st.text(_TOKEN + string.ascii_lowercase, min_size=1, max_size=80),
        _VALUE.map(lambda value: value.strip(" \t")),
    ),
    max_size=4,
).map(tuple)
_CONTENT = st.binary(max_size=200)
_REQUESTS = st.builds(
    bhttp.Request,
    method=st.text(_TOKEN + string.ascii_letters, min_size=1, max_size=10),
    scheme=st.sampled_from(["http", "https", "x-y+z.1"]),
    authority=_VISIBLE,
    path=_VISIBLE.map(lambda path: "/" + path),
    fields=_FIELDS,
    content=_CONTENT,
    trailers=_FIELDS,
)
_RESPONSES = st.builds(
    bhttp.Response,
    status=st.integers(200, 599),
    fields=_FIELDS,
    content=_CONTENT,
    trailers=_FIELDS,
    informational=st.lists(st.tuples(st.integers(100, 199), _FIELDS), max_size=2).map(tuple),
)
GET = bhttp.Request("GET", "https", "example.com", "/")


@settings(max_examples=60, deadline=None)
@given(request=_REQUESTS, indeterminate=st.booleans(), padding=st.integers(0, 9))
def test_requests_survive_both_framings_and_padding(request: bhttp.Request, indeterminate: bool, padding: int) -> None:
    encoded = bhttp.encode_request(request, indeterminate=indeterminate)
    assert bhttp.decode_request(bhttp.pad_to(encoded, len(encoded) + padding)) == request


@settings(max_examples=150, deadline=None)
@given(request=_REQUESTS, indeterminate=st.booleans(), data=st.data())
def test_heads_that_are_remembered_say_what_reading_them_says(
    request: bhttp.Request, indeterminate: bool, data: st.DataObject
) -> None:
    """For whole, damaged and shortened messages alike."""
    encoded = bytearray(bhttp.encode_request(request, indeterminate=indeterminate))
    for _ in range(data.draw(st.integers(0, 2))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    message = bytes(encoded[: data.draw(st.integers(0, len(encoded)))] if data.draw(st.booleans()) else encoded)
    found: list[bhttp.Request | None] = []
    for read in (bhttp.read_request, bhttp.decode_request, bhttp.decode_request):
        try:
            found.append(read(message))
        except DecodeError:
            found.append(None)
    assert found == [found[0]] * 3


@settings(max_examples=60, deadline=None)
@given(response=_RESPONSES, indeterminate=st.booleans(), padding=st.integers(0, 9))
def test_responses_survive_both_framings_and_padding(
    response: bhttp.Response, indeterminate: bool, padding: int
) -> None:
    encoded = bhttp.encode_response(response, indeterminate=indeterminate)
    assert bhttp.decode_response(bhttp.pad_to(encoded, len(encoded) + padding)) == response


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda rest: b"\x00\x03GET" + rest)))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    """What is decoded is a message: written again, it says the same."""
    with contextlib.suppress(DecodeError):
        request = bhttp.decode_request(data)
        assert bhttp.decode_request(bhttp.encode_request(request)) == request
    with contextlib.suppress(DecodeError):
        response = bhttp.decode_response(data)
        assert bhttp.decode_response(bhttp.encode_response(response)) == response


@settings(max_examples=60, deadline=None)
@given(request=_REQUESTS, indeterminate=st.booleans(), data=st.data())
def test_a_request_cut_short_is_refused_or_lacks_whole_sections(
    request: bhttp.Request, indeterminate: bool, data: st.DataObject
) -> None:
    encoded = bhttp.encode_request(request, indeterminate=indeterminate)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    try:
        found = bhttp.decode_request(cut)
    except DecodeError:
        return
    assert found.path == request.path
    assert found.fields in ((), request.fields)
    assert found.content in (b"", request.content)
    assert found.trailers in ((), request.trailers)
    if found.content != request.content:
        assert not found.trailers


def test_non_minimal_lengths_are_read() -> None:
    minimal = bhttp.encode_request(GET)
    assert bhttp.decode_request(b"\x40\x00\x80\x00\x00\x03" + minimal[2:]) == GET


@pytest.mark.parametrize("size", [63, 64, 16383, 16384, 70000])
def test_contents_across_length_boundaries_survive(size: int) -> None:
    request = bhttp.Request("POST", "https", "example.com", "/", content=bytes(size))
    assert bhttp.decode_request(bhttp.encode_request(request)) == request


@pytest.mark.parametrize(
    "change",
    [
        {"method": ""},
        {"method": "GE T"},
        {"scheme": "1https"},
        {"authority": "a b"},
        {"path": "/é"},
        {"path": "relative"},
        {"fields": (("Upper", "x"),)},
        {"fields": ((":path", "/"),)},
        {"fields": (("", "x"),)},
        {"fields": (("a", "x\r\ny"),)},
        {"fields": (("a", "x\0y"),)},
        {"fields": (("a", " x"),)},
        {"fields": (("a", "x\t"),)},
        {"fields": (("a", "\u0100"),)},
        {"trailers": (("a b", "x"),)},
    ],
    ids=str,
)
def test_requests_that_http_forbids_are_not_written(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"method": "GET", "scheme": "https", "authority": "", "path": "/"} | change
    with pytest.raises(ValueError):
        bhttp.encode_request(bhttp.Request(**parts))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "04",  # unknown framing
        "0140c8",  # a response
        "00034745540568747470730001",  # ends inside the path
        "000347455405687474707300012f0361",  # field section cut short
        "000347455405687474707300012f03014101",  # field value missing
        "000347455405687474707300012f0301410178",  # upper-case field name
        "000347455405687474707300012f020001",  # empty field name in a known-length section
        "000347455405687474707300012f0000000001",  # padding not zero
        "020347455405687474707300012f0161",  # indeterminate field line cut short
        "020347455405687474707300012f016101780002",  # chunk cut short
        "020347455405687474707300012f0161017800000001",  # padding not zero
        "0003c3a9540568747470730001",  # method not ASCII
    ],
)
def test_malformed_requests_are_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        bhttp.decode_request(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "01", "0140", "014064", "014063", "014258", "0140640040"])
def test_malformed_responses_are_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        bhttp.decode_response(bytes.fromhex(data))


@pytest.mark.parametrize(
    "response", [bhttp.Response(199), bhttp.Response(600), bhttp.Response(200, informational=((200, ()),))]
)
def test_responses_with_an_impossible_status_are_not_written(response: bhttp.Response) -> None:
    with pytest.raises(ValueError, match="status"):
        bhttp.encode_response(response)


def test_padding_never_cuts() -> None:
    with pytest.raises(ValueError, match="cannot be padded"):
        bhttp.pad_to(b"abc", 2)


def test_a_single_field_is_found_and_a_repeated_one_refused() -> None:
    fields = (("date", "x"), ("accept", "a"), ("accept", "b"))
    assert bhttp.field_value(fields, "date") == "x"
    assert bhttp.field_value(fields, "host") is None
    with pytest.raises(DecodeError):
        bhttp.field_value(fields, "accept")


def test_contents_do_not_show_in_repr() -> None:
    assert "secret" not in repr(bhttp.Request("GET", "https", "", "/", content=b"secret"))
