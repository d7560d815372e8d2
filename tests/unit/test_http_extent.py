"""Where heads and bodies end, however the bytes of a connection are cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.service.http.extent import Extent
from tacit.service.http.fast_reader import FRAMING_PER_BODY, MOST_HEAD

BLANK = b"\r\n\r\n"
LINES = st.lists(st.binary(min_size=1, max_size=9).map(lambda line: line.strip(b"\r\n") or b"a"), min_size=1)
HEADS = LINES.map(lambda lines: b"\r\n".join(lines) + BLANK)
BODIES = st.one_of(st.binary(max_size=30), st.sampled_from([BLANK, b"a" + BLANK, b"\r\n", BLANK + b"b" + BLANK]))


def divided(pieces: Iterable[bytes], sizes: Sequence[int]) -> list[bytes]:
    """The heads and bodies in ``pieces``, as a connection asks for them; ``sizes``: of the bodies."""
    extent, found, now, left, coming = Extent(), list[bytes](), b"", 0, iter(sizes)
    for rest in pieces:
        data = rest
        while data:
            if left:
                piece, data = extent.body(data)
                now, left = now + piece, left - len(piece)
                ended = not left
            else:
                parts = extent.head(data)
                assert parts is not None
                piece, data = parts
                now += piece
                ended = now.endswith(BLANK)
                if ended:
                    left = next(coming)
                    extent.begin(left)
            if ended:
                found.append(now)
                now = b""
    return [*found, now] if now else found


@given(st.lists(st.tuples(HEADS, BODIES), min_size=1, max_size=4), st.lists(st.integers(1, 40)), st.data())
def test_heads_and_bodies_are_told_apart_however_they_are_cut(
    requests: list[tuple[bytes, bytes]], cuts: list[int], data: st.DataObject
) -> None:
    raw = b"".join(data.draw(st.sampled_from([b"", b"\r\n", BLANK])) + head + body for head, body in requests)
    pieces = []
    for size in cuts:
        pieces.append(raw[:size])
        raw = raw[size:]
    expected = [part for pair in requests for part in pair if part]
    assert divided([*pieces, raw], [len(body) for _, body in requests]) == expected


@pytest.mark.parametrize("over", [0, 1])
def test_the_bound_of_a_head_does_not_depend_on_its_pieces(over: int) -> None:
    raw = b"GET / HTTP/1.1\r\nX: ".ljust(MOST_HEAD + over, b"y") + BLANK
    for cut in range(len(raw) - 6, len(raw) + 1):
        extent = Extent()
        first, last = extent.head(raw[:cut]), None if cut == len(raw) else extent.head(raw[cut:])
        assert (None in (first, last) if cut < len(raw) else first is None) == bool(over)


def test_an_endless_head_is_refused_and_blank_lines_before_it_do_not_count() -> None:
    extent = Extent()
    assert extent.head(b"\r\n" * MOST_HEAD) == (b"", b"")
    assert extent.head(b"y" * MOST_HEAD) == (b"y" * MOST_HEAD, b"")
    assert extent.head(b"yyyy") is None


def test_a_chunked_body_is_passed_whole_and_what_goes_on_behind_it_is_noticed() -> None:
    for last, more in ((b"\r\n", False), (b"\r\nGET /", True), (b"\r\n\r\nG", True), (b"X: 0\r\n\r\n", True)):
        raw = b"3\r\nabc\r\n0\r\n" + last
        for cut in range(len(raw)):
            extent = Extent()
            extent.begin(None)
            pieces = [piece for piece in (raw[:cut], raw[cut:]) if piece]
            assert [extent.body(piece) for piece in pieces] == [(piece, b"") for piece in pieces]
            assert extent.ended() is more


def test_an_empty_chunked_body_leaves_the_connection_usable() -> None:
    extent = Extent()
    extent.begin(None)
    extent.body(b"0\r\n\r\n")
    assert not extent.whole
    assert not extent.ended()
    assert extent.whole


def test_framing_is_bounded_by_the_body_and_only_of_chunks() -> None:
    extent = Extent()
    extent.begin(None)
    extent.body(bytes(MOST_HEAD))
    assert not extent.is_framing_too_large(0)
    extent.body(b"\0")
    assert extent.is_framing_too_large(0)
    assert not extent.is_framing_too_large(1)
    extent.body(bytes(FRAMING_PER_BODY + 1))
    assert extent.is_framing_too_large(1)
    extent.begin(10)
    extent.body(bytes(10))
    assert not extent.is_framing_too_large(0)
