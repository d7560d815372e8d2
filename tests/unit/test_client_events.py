"""Server-sent events are read the same however the stream is cut into pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.client.events import MOST_LINE, EventParser
from tacit.errors import DecodeError

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)
KINDS = LINES.filter(lambda text: text != "")
EVENTS = st.lists(st.tuples(KINDS, st.lists(LINES, min_size=1, max_size=3)), max_size=5)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])


@given(EVENTS, ENDS, st.lists(st.integers(0, 400), max_size=12), st.booleans(), LINES)
def test_events_come_out_as_they_were_written_wherever_the_stream_is_cut(
    events: list[tuple[str, list[str]]], end: str, cuts: list[int], marked: bool, comment: str
) -> None:
    written = "\ufeff" if marked else ""
    for kind, data in events:
        lines = [f":{comment}", f"event: {kind}", "id: 7", "retry: 100", *(f"data: {line}" for line in data), ""]
        written += "".join(line + end for line in lines)
    raw, found = written.encode(), []
    parser, places = EventParser(), sorted({0, *(min(cut, len(raw)) for cut in cuts), len(raw)})
    for start, stop in itertools.pairwise(places):
        found += parser.feed(raw[start:stop])
    assert found == [(kind, "\n".join(data)) for kind, data in events]


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_are_events_or_an_error(chunks: list[bytes]) -> None:
    whole, cut = EventParser(), EventParser()
    try:
        expected: list[tuple[str, str]] | None = whole.feed(b"".join(chunks))
    except DecodeError:
        expected = None
    try:
        found: list[tuple[str, str]] | None = [event for chunk in chunks for event in cut.feed(chunk)]
    except DecodeError:
        found = None
    assert found == expected


def test_what_has_no_data_or_no_end_is_no_event_and_one_that_never_ends_is_an_error() -> None:
    parser = EventParser()
    assert parser.feed(b"event: a\n\ndata\n\ndata: x") == [("message", "")]
    assert parser.feed(b"\ndata:  y\n\n") == [("message", "x\n y")]
    assert parser.feed(b"data: " + b"x" * (MOST_LINE // 2)) == []
    with pytest.raises(DecodeError):
        parser.feed(b"\ndata: " + b"x" * (MOST_LINE // 2))
