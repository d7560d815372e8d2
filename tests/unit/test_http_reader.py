"""The reader of requests beside h11: of mutated ones it takes none that h11 does not take, and reads the same body."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import h11
import pytest

from tacit.service.http.fast_route import Asking, FastRequest, FastRoute, FastRoutes, Respond
from tacit.service.http.problems import Answer, bad_request
from tacit.service.http.reader import Body, Head, Reader

LIMIT = 4096
TYPE = "application/x-test"


async def _answer(body: bytes) -> Answer:
    return Answer(body)


def _admit(_head: Asking) -> Respond:
    return _answer


ROUTES = FastRoutes([FastRoute("/", TYPE, LIMIT, _admit)])
OUTCOMES = ("taken", "refused", "waiting")


@dataclass(frozen=True)
class Outcome:
    """What a reader made of some bytes: ``kind`` is one of ``OUTCOMES``; ``rest`` says whether something follows the
    request."""

    kind: str
    body: bytes = b""
    rest: bool = False


def _follows(*pieces: bytes) -> bool:
    """Whether more than line ends follows, which both skip before a request."""
    return bool(b"".join(pieces).strip(b"\r\n"))


def _begin(head: Head, body: Body) -> None:
    """Refuse what is not for the one route, and take the body of what is."""
    found = ROUTES.find(head)
    if found is None:
        raise bad_request()
    FastRequest(found[0], head, found[1], None, None).admit(head, body)


def by_reader(pieces: list[bytes]) -> Outcome:
    """As the server does: nothing is read once a request is whole or refused."""
    reader = Reader(_begin, lambda: None)
    for number, piece in enumerate(pieces):
        rest = reader.feed(piece)
        if reader.refusal is not None:
            return Outcome("refused")
        if reader.whole:
            return Outcome("taken", reader.body.take(), reader.last or _follows(rest, *pieces[number + 1 :]))
    return Outcome("waiting")


def by_h11(data: bytes) -> Outcome:
    """The same bytes as h11 reads them."""
    peer, body = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16), b""
    try:
        peer.receive_data(re.sub(rb"\A(\r\n)+", b"", data))  # RFC 9112, section 2.2: h11 does not skip it
        while True:
            event = peer.next_event()
            if event is h11.NEED_DATA:
                return Outcome("waiting")
            if isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Outcome("taken", body, _follows(peer.trailing_data[0]) or peer.their_state is h11.MUST_CLOSE)
    except h11.RemoteProtocolError:
        return Outcome("refused")


_OTHER = rb"(?:(?!content-|transfer-encoding|host|connection|upgrade|expect)[a-z-]+: ?[!-~]+\r\n)*"
PLAIN = re.compile(
    _OTHER.join(
        (
            rb"POST / HTTP/1\.1\r\n",
            rb"Host: [a-z.]+\r\n",
            b"Content-Type: application/x-test\r\n",
            rb"Content-Length: ([0-9]{1,4})\r\n",
            rb"\r\n",
        )
    ),
    re.IGNORECASE,
)
"""Heads that a reader must take: whatever it refuses of these, it refuses wrongly."""

LINES = (
    b"POST / HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Content-Type: application/x-test\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Accept: */*\r\n",
    b"X-Some: some value\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b" folded\r\n",
    b"Content-Length : 5\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
)
BODIES = (b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n", b"", b"0\r\n\r\n")
BYTES = (b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"9", b"\x0b", b"\x80", b"\xff", b"x")


def some_request(draw: random.Random) -> bytes:
    """A request: often sound, else with fields too many or too few, or bytes put in, left out or changed."""
    chosen = list(LINES[:4]) if draw.random() < 0.6 else [*LINES[:3], LINES[4]]
    body = BODIES[0] if chosen[-1] == LINES[3] else draw.choice(BODIES[1:])
    if draw.random() < 0.5:
        chosen.insert(draw.randrange(1, len(chosen) + 1), draw.choice(LINES[1:]))
    if draw.random() < 0.15:
        chosen.pop(draw.randrange(1, len(chosen)))
    if draw.random() < 0.1:
        body = draw.choice(BODIES)
    if draw.random() < 0.15:
        body += LINES[0]
    if draw.random() < 0.1:
        chosen[0] = b"POST http://a HTTP/1.1\r\n"
    data = bytearray(b"".join(chosen) + b"\r\n" + body)
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2, 3))):
        place = draw.randrange(len(data) + 1)
        match draw.randrange(3):
            case 0:
                data[place:place] = draw.choice(BYTES)
            case 1:
                del data[place : place + draw.randrange(1, 4)]
            case _:
                data[place : place + 1] = draw.choice(BYTES)
    return bytes(data)


def some_pieces(data: bytes, draw: random.Random) -> list[bytes]:
    """``data`` as it may arrive."""
    cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.choice((0, 0, 1, 3))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def compare(count: int, seed: int) -> dict[str, int]:
    """Number of requests by outcome, after each was compared."""
    draw, outcomes = random.Random(seed), dict.fromkeys(OUTCOMES, 0)
    for _ in range(count):
        data = some_request(draw)
        found = by_reader(some_pieces(data, draw))
        outcomes[found.kind] += 1
        if found.kind == "taken":
            assert found == by_h11(data), data
        head = PLAIN.match(data)
        if head is not None and len(data) - head.end() >= int(head[1]) <= LIMIT:
            assert (found.kind, found.body) == ("taken", data[head.end() : head.end() + int(head[1])]), data
    return outcomes


def test_mutated_requests_are_read_as_h11_reads_them_or_not_at_all() -> None:
    outcomes = compare(5000, seed=1)
    assert outcomes["taken"] > 500
    assert outcomes["refused"] > 500


@pytest.mark.slow
def test_a_million_mutated_requests_are_read_as_h11_reads_them_or_not_at_all() -> None:
    outcomes = compare(1_000_000, seed=2)
    assert min(outcomes["taken"], outcomes["refused"]) > 100_000


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_behind_a_hot_line_never_raise(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        for pieces in ([LINES[0], draw.randbytes(draw.randrange(200))], [draw.randbytes(draw.randrange(200))]):
            assert by_reader(pieces).kind in OUTCOMES


def test_of_requests_sent_ahead_each_byte_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = Reader._parse

    def count(reader: Reader, data: bytes) -> None:
        parsed.append(len(data))
        parse(reader, data)

    monkeypatch.setattr(Reader, "_parse", count)
    one = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-test\r\nContent-Length: 5\r\n\r\nhello"
    reader, rest, count_of_requests = Reader(_begin, lambda: None), one * 100, 0
    while rest:
        rest = reader.feed(rest)
        assert reader.whole
        reader.next()
        count_of_requests += 1
    assert (count_of_requests, sum(parsed)) == (100, len(one) * 100)
