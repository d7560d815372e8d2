"""Fast routes beside the application's own: the same requests are answered alike through either."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from tacit.service.fast_routes import FAST_ROUTES
from tacit.service.http import admission
from tacit.service.http.connection import MOST_DISCARDED
from tacit.service.http.problems import Answer
from tacit.service.http.reader import MOST_FIELD, MOST_FIELDS, Body
from tests.kit.probe_server import (
    FAULTS,
    KNOWN,
    LIMIT,
    PATIENCE,
    SERVERS,
    TYPE,
    chunked,
    head_of,
    read_answer,
    request,
    served,
    until,
)

ALIKE = {
    "a body": request(),
    "no body": request(b""),
    "neither length nor coding": f"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\n\r\n".encode(),
    "the largest body": request(bytes(LIMIT)),
    "a body above the limit": request(bytes(LIMIT + 1)),
    "a length above the limit": request(b"", length="999999999"),
    "chunks": chunked(b"ab", b"c"),
    "chunks with a trailer": chunked(b"ab")[:-2] + b"X: y\r\n\r\n",
    "chunks above the limit": chunked(bytes(LIMIT), b"x"),
    "another type": request(type_="text/plain"),
    "a type in other letters": request(type_='Application/X-Test; message="one"'),
    "a coding": request(b"abc", "POST / HTTP/1.1", "Content-Encoding: gzip"),
    "an end of the connection": request(b"abc", "POST / HTTP/1.1", "Connection: close"),
    "HTTP/1.0": request(b"abc", "POST / HTTP/1.0"),
    "a query": request(b"abc", "POST /?device=1 HTTP/1.1"),
    "an escaped path": request(b"abc", "POST /%2f HTTP/1.1"),
    "another path": request(b"abc", "POST /other HTTP/1.1"),
    "GET": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD": b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS": b"OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT": request(b"abc", "PUT / HTTP/1.1"),
    "health": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unmet expectation": request(b"abc", "POST / HTTP/1.1", "Expect: 200-maybe"),
    "no token": request(b"abc", "POST /known/well HTTP/1.1"),
    "two tokens": request(b"abc", "POST /known/well HTTP/1.1", KNOWN, KNOWN),
    "an empty answer": request(b"abc", "POST /known/well HTTP/1.1", KNOWN),
    "no such name": request(b"abc", "POST /known/ HTTP/1.1", KNOWN),
    "an absolute target": request(b"abc", "POST http://a/ HTTP/1.1"),
    "an absolute target of another host": request(b"abc", "POST https://b.example:8443/ HTTP/1.1"),
    "an absolute target without a path": request(b"abc", "POST HTTP://[2001:db8::1] HTTP/1.1"),
    "an absolute target with a query": request(b"abc", "POST http://a?device=1 HTTP/1.1"),
    "an absolute target of another resource": request(b"abc", "POST http://a/known/well HTTP/1.1", KNOWN),
    "GET of an absolute target": b"GET http://a/healthz HTTP/1.1\r\nHost: b\r\n\r\n",
    "an upgrade to HTTP/2": request(
        b"abc", "POST / HTTP/1.1", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA"
    ),
    "an upgrade of a request without a body": request(b"", "POST / HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c"),
    "an upgrade with chunks": chunked(b"ab", b"c", more="Connection: upgrade\r\nUpgrade: h2c\r\n"),
    "a WebSocket": request(b"abc", "POST / HTTP/1.1", "Connection: upgrade", "Upgrade: websocket"),
    "a connection field that names no protocol": request(b"abc", "POST / HTTP/1.1", "Connection: upgrade"),
    "what proxies add": request(
        b"abc",
        "POST / HTTP/1.1",
        "Via: 1.1 a",
        "X-Forwarded-For: 192.0.2.7",
        "Forwarded: for=b",
        "TE: trailers",
    ),
    "an empty line before": b"\r\n" + request(),
    "a chunk with an extension": chunked(b"abc").replace(b"3\r\n", b'0003;name="a; b"\r\n'),
    "white space around values": head_of("Content-Length: \t3 \t", "X:", "Y:\t") + b"abc",
    "a coding that changes nothing": request(b"abc", "POST / HTTP/1.1", "Content-Encoding: identity"),
    "an expectation that is met": request(b"abc", "POST / HTTP/1.1", "Expect: 100-Continue"),
    "an expectation of HTTP/1.0": request(b"abc", "POST / HTTP/1.0", "Expect: 100-continue"),
    "an empty host": request().replace(b"Host: a", b"Host:"),
    "a host with a port": request().replace(b"Host: a", b"Host: a_b.example:8443"),
    "no host in HTTP/1.0": request(b"abc", "POST / HTTP/1.0").replace(b"Host: a\r\n", b""),
    **{how: request(b"abc", f"POST /known/{how} HTTP/1.1", KNOWN) for how in FAULTS if how != "late"},
}


@pytest.mark.parametrize("raw", ALIKE.values(), ids=ALIKE)
async def test_both_ways_answer_a_request_alike(raw: bytes) -> None:
    found = {}
    for by in SERVERS:
        async with served(by) as server:
            found[by] = (await server.exchange(raw), server.bodies)
    (fast, fast_bodies), (slow, slow_bodies) = (found[by] for by in SERVERS)
    assert fast[0] == slow[0], (fast, slow)
    assert {k.lower(): v for k, v in fast[1].items() if k != "connection"} == {
        k.lower(): v for k, v in slow[1].items() if k != "connection"
    }
    assert fast[2] == slow[2]
    assert fast_bodies == slow_bodies


@pytest.mark.parametrize("by", SERVERS)
async def test_an_error_of_our_own_shows_an_id_and_logs_no_address(by: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with served(by) as server:
        status, _, body, _ = await server.exchange(request(b"abc", "POST /known/late HTTP/1.1", KNOWN))
        await server.exchange(b"POST / HTTP/1.1\r\nHost : a\r\n\r\n")
    assert (status, b"error_id" in body) == (500, True)
    assert "127.0.0.1" not in "".join(capfd.readouterr())


async def test_both_ways_count_answers_alike() -> None:
    cases = ("a body", "another type", "chunks above the limit", "PUT", "another path", "no token", "abort", "health")
    counted = []
    for by in SERVERS:
        async with served(by) as server:
            for case in cases:
                await server.exchange(ALIKE[case])
        counted.append(server.counted)
    assert counted[0] == counted[1]
    assert counted[0][:2] == [("/", 200), ("/", 415)]


@pytest.mark.parametrize("by", SERVERS)
@pytest.mark.parametrize("raw", [request(b"abc" * 9), chunked(b"ab", b"c" * 25)], ids=["length", "chunks"])
async def test_a_request_may_come_byte_by_byte(by: str, raw: bytes) -> None:
    async with served(by) as server:
        reader, writer = await server.connect()
        for number in range(len(raw)):
            writer.write(raw[number : number + 1])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read_answer(reader))[0] == 200
        assert [len(body) for body in server.bodies] == [27]


@pytest.mark.parametrize("by", SERVERS)
async def test_a_body_that_asks_for_leave_gets_it_unless_its_head_decides(by: str) -> None:
    async with served(by) as server:
        line = "POST /known/well HTTP/1.1"
        assert (await server.exchange(request(b"abc", line, "Expect: 100-continue")[:-3]))[0] == 401
        reader, writer = await server.connect()
        writer.write(request(b"abc", line, KNOWN, "Expect: 100-Continue")[:-3])
        async with asyncio.timeout(PATIENCE):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await read_answer(reader))[0] == 200
        assert server.bodies == [b"abc"]


@pytest.mark.parametrize("by", SERVERS)
async def test_who_closes_its_own_side_behind_a_request_gets_the_answer(by: str) -> None:
    async with served(by) as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one"))
        writer.write_eof()
        await until(lambda: bool(server.bodies))
        await asyncio.sleep(0.02)
        server.open.set()
        assert (await read_answer(reader))[2] == b"one"
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)


@pytest.mark.parametrize("by", SERVERS)
async def test_a_connection_carries_hot_and_other_requests_in_any_order(by: str) -> None:
    fast, other = request(b"hot"), b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    async with served(by) as server:
        reader, writer = await server.connect()
        for raw in (fast, fast, other, fast, b"\r\n" + fast, other, fast):
            writer.write(raw)
            assert (await read_answer(reader))[0] == 200
        assert server.bodies == [b"hot"] * 5


async def test_a_field_that_looks_like_a_request_is_none() -> None:
    """Its value comes in a piece of its own."""
    first = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\nX: "
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(first)
        assert (await read_answer(reader))[0] == 200
        writer.write(request(b"smuggled"))
        async with asyncio.timeout(PATIENCE):
            await read_answer(reader)
        assert server.bodies == []


@pytest.mark.parametrize("by", SERVERS)
async def test_requests_sent_ahead_are_answered_in_turn(by: str) -> None:
    async with served(by) as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one"))
        await until(lambda: bool(server.bodies))
        for body in (b"two", bytes(LIMIT)):
            writer.write(request(body))
        await asyncio.sleep(0.05)
        assert server.bodies == [b"one"]
        server.open.set()
        assert [(await read_answer(reader))[2] for _ in range(1)] == [b"one"]


@pytest.mark.parametrize("by", SERVERS)
async def test_what_is_being_answered_is_finished_when_the_server_stops(by: str) -> None:
    async with served(by) as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one"))
        await until(lambda: bool(server.bodies))
        stopping = asyncio.create_task(server.runner.cleanup())
        await asyncio.sleep(0.05)
        server.open.set()
        assert (await read_answer(reader))[::2] == (200, b"one")
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await stopping


@pytest.mark.parametrize("by", SERVERS)
async def test_what_does_not_end_is_given_up_when_the_server_stops(by: str) -> None:
    async with served(by) as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one"))
        await until(lambda: bool(server.bodies))
        admission = server.server.admission
        await server.runner.cleanup()
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        assert admission.turns == 0


INNER = request(b"smuggled")
SMUGGLED: dict[str, bytes] = {
    "length and coding": head_of("Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + INNER,
    "coding and length": head_of("Transfer-Encoding: chunked", "Content-Length: 3") + b"0\r\n\r\n" + INNER,
    "two lengths": head_of("Content-Length: 3", "Content-Length: 9") + b"abc" + INNER,
    "a length twice": head_of("Content-Length: 3", "Content-Length: 3") + b"abc",
    "a list of lengths": head_of("Content-Length: 3, 3") + b"abc",
    "a length with a sign": head_of("Content-Length: +3") + b"abc",
    "a length in hexadecimal": head_of("Content-Length: 0x3") + b"abc",
    "no length": head_of("Content-Length: ") + b"abc",
    "a length of 80 bits": head_of("Content-Length: 1208925819614629174706179") + b"abc",
    "a folded field": head_of(b"X: a\r\n Content-Length: 3\r\n", "Content-Length: 0"),
    "bare CR in a field": head_of(b"X: a\rContent-Length: 3\r\n", "Content-Length: 0"),
    "bare LF in a field": head_of(b"X: a\nContent-Length: 3\r\n") + b"abc",
    "bare LF as the end of a head": head_of("Content-Length: 3")[:-2] + b"\nabc",
    "a space before a colon": head_of("Content-Length : 3") + b"abc",
    "a tab before a colon": head_of("Transfer-Encoding\t: chunked") + b"0\r\n\r\n",
    "a field without a name": head_of(": 3") + b"abc",
    "a field without a colon": head_of("Content-Length") + b"abc",
    "NUL in a value": head_of(b"X: a\0b\r\n"),
    "NUL in a name": head_of(b"X\0: a\r\n"),
    "another coding": head_of("Transfer-Encoding: identity"),
    "two codings": head_of("Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "a coding twice": head_of("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "a chunk whose size is no number": head_of("Transfer-Encoding: chunked") + b"zz\r\n",
    "a chunk size with bare LF": head_of("Transfer-Encoding: chunked") + b"3\nabc\r\n0\r\n\r\n",
    "a chunk longer than its size": head_of("Transfer-Encoding: chunked") + b"3\r\nabcdef\r\n0\r\n\r\n",
    "a chunk size of 68 bits": head_of("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\nabc",
    "no host": f"POST / HTTP/1.1\r\nContent-Type: {TYPE}\r\nContent-Length: 0\r\n\r\n".encode(),
    "two hosts": head_of("Host: b", "Content-Length: 0"),
    "a host with a user": request().replace(b"Host: a", b"Host: u@a"),
    "a list of hosts": request().replace(b"Host: a", b"Host: a, b"),
    "two types": head_of("Content-Type: text/plain", "Content-Length: 3") + b"abc",
    "too many fields": head_of(*(f"X-{number}: y" for number in range(MOST_FIELDS))),
    "too long a value": head_of("X: " + "y" * (MOST_FIELD + 1)),
    "too long a name": head_of("X" * (MOST_FIELD + 1) + ": y"),
    "an invalid method": head_of("Content-Length: 0", line=b"P\x00ST / HTTP/1.1\r\n"),
    "a line without a version": head_of("Content-Length: 0", line=b"POST /\r\n"),
    "another version": head_of("Content-Length: 0", line=b"POST / HTTP/2.0\r\n"),
    "a line with two spaces": head_of("Content-Length: 0", line=b"POST  / HTTP/1.1\r\n"),
    "a line that ends with LF": head_of("Content-Length: 0", line=b"POST / HTTP/1.1\n"),
    "a target with a user": head_of("Content-Length: 0", line=b"POST http://u@b/ HTTP/1.1\r\n"),
    "a target with no host": head_of("Content-Length: 0", line=b"POST http:/// HTTP/1.1\r\n"),
    "a target of another scheme": head_of("Content-Length: 0", line=b"POST ftp://b/ HTTP/1.1\r\n"),
    "a target with a fragment": head_of("Content-Length: 0", line=b"POST http://b/#x HTTP/1.1\r\n"),
    "a host alone": head_of("Content-Length: 0", line=b"POST b:80 HTTP/1.1\r\n"),
    "a request behind an upgrade": head_of("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3, 3") + b"abc",
    "an upgrade with length and coding": head_of(
        "Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\n"
    + INNER,
    "a coding inside the chunks": head_of("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "a head above the bound": head_of(*(f"X-{number}: {'y' * 8000}" for number in range(5))),
}


@pytest.mark.parametrize("raw", SMUGGLED.values(), ids=SMUGGLED)
async def test_what_servers_disagree_about_is_refused_and_ends_the_connection(raw: bytes) -> None:
    for pieces in ([raw], [raw[:40], raw[40:]], [raw[:-1], raw[-1:]]):
        async with served("fast") as server:
            reader, writer = await server.connect()
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)
            status, headers, body, closed = await read_answer(reader)
            assert (status, headers["content-type"], closed) == (400, "application/problem+json", True)
            assert body == b'{"type":"about:blank","status":400,"title":"Bad Request"}'
            writer.write(request(b"after"))
            async with asyncio.timeout(PATIENCE):
                assert await reader.read() == b""
            assert server.bodies == []


async def test_an_endless_head_is_refused_before_it_takes_memory() -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 60_000)
        assert (await read_answer(reader))[0] == 400


async def test_endless_chunk_framing_is_refused() -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(head_of("Transfer-Encoding: chunked") + b"1;" + b"x" * 60_000)
        assert (await read_answer(reader))[0] == 400


@pytest.mark.parametrize("kept", [0, 1, 2000])
async def test_who_is_refused_early_sees_the_answer_and_is_cut_if_it_goes_on(kept: int) -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(request(b"", length="999999999") + bytes(kept))
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (413, True)
        writer.write(bytes(1000))
        now = asyncio.get_running_loop().time()
        assert len(server.server.admission) == 1
        server.server.admission.sweep(now + 60)
        assert len(server.server.admission) == 0


async def test_a_refused_body_is_freed_though_its_connection_lasts() -> None:
    async with served("fast") as one:
        reader, writer = await one.connect()
        writer.write(head_of("Transfer-Encoding: chunked") + b"4000\r\n" + bytes(0x4000) + b"\r\nzz\r\n")
        assert (await read_answer(reader))[0] == 400
        (connection,) = one.server.connections
        assert connection._reader.body.take() == b""


async def test_what_has_arrived_of_a_body_is_freed_when_its_connection_ends() -> None:
    async with served("fast") as one:
        _, writer = await one.connect()
        writer.write(request(bytes(LIMIT))[:-1])
        await until(lambda: one.server.admission.receiving == 1)
        (connection,) = one.server.connections
        body = connection._reader.body
        await until(lambda: body.size > 0)
        writer.transport.abort()
        await until(lambda: not len(one.server.admission))
        assert body.take() == b""


async def test_the_error_of_a_body_that_broke_off_keeps_nothing_of_it() -> None:
    body = Body(lambda: None)
    body.feed(bytes(1000))
    asyncio.get_running_loop().call_soon(body.fail, ConnectionResetError())
    with pytest.raises(ConnectionResetError) as caught:
        await body.read(LIMIT)
    kept = [value for frame, _ in traceback.walk_tb(caught.value.__traceback__) for value in frame.f_locals.values()]
    assert not [value for value in kept if isinstance(value, bytes | bytearray) and value]
    assert body.take() == b""


async def test_a_body_that_is_being_answered_is_held_once() -> None:
    async with served("fast") as one:
        one.open.clear()
        reader, writer = await one.connect()
        writer.write(request(bytes(LIMIT)))
        await until(lambda: bool(one.bodies))
        (connection,) = one.server.connections
        assert connection._reader.body.take() == b""
        one.open.set()
        assert (await read_answer(reader))[2] == bytes(LIMIT)


async def test_who_goes_on_sending_fast_after_a_refusal_is_cut_before_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "LINGER_SECONDS", 3600.0)
    async with served("fast") as one:
        reader, writer = await one.connect()
        writer.write(head_of("Transfer-Encoding: chunked") + b"zz\r\n")
        assert (await read_answer(reader))[0] == 400
        with pytest.raises(ConnectionError):  # noqa: PT012 - the cut is seen by whichever write comes after it
            async with asyncio.timeout(PATIENCE):
                while True:
                    writer.write(bytes(MOST_DISCARDED // 4))
                    await writer.drain()


async def test_an_answer_that_cannot_be_sent_ends_its_connection(capfd: pytest.CaptureFixture[str]) -> None:
    async with served("fast") as one:
        (route,) = (found for found in one.runner.app[FAST_ROUTES] if found.path == "/")
        answer = Answer(b"", {"X-Odd": "\udcff"})

        async def respond(_body: bytes) -> Answer:
            return answer

        object.__setattr__(route, "admit", lambda _head: respond)
        reader, writer = await one.connect()
        writer.write(request())
        assert (await read_answer(reader))[::3] == (500, True)
        writer.close()
        await until(lambda: len(one.server.admission) == 0)
    assert "answer_failed" in capfd.readouterr().err
