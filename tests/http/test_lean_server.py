"""The lean server beside aiohttp's: the same application answers the same requests alike through either."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from unittest import mock

import h11
import pytest
from aiohttp import StreamReader, web

from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.errors import Abort, DecodeError, Refusal
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import COUNT, Deps, make_app, read_body
from tacit.service.base.config import Limits
from tacit.service.hot import HOT, add_hot_route
from tacit.service.http import admission
from tacit.service.http.auth import require_bearer, token_digest
from tacit.service.http.connection import MOST_DISCARDED, Connection
from tacit.service.http.lean import MOST_FIELD, MOST_FIELDS, MOST_HEAD, Asking, HotRoute, Respond
from tacit.service.http.problems import Answer
from tacit.service.http.server import Server
from tacit.service.run import Runner

PATIENCE = 60.0
LIMIT = 100_000
TYPE = "application/x-test;message=one"
DIGEST = token_digest("let-me-in")
SERVERS = ("lean", "aiohttp")
FAULTS: dict[str, Exception] = {
    "abort": Abort(
        "urn:x:y", "this time", status=409, title="Always.", extensions={"n": 7}, headers={"Retry-After": "3"}
    ),
    "decode": DecodeError("Report is truncated"),
    "refusal": Refusal("batch-floor", "B is 3, the floor is 10"),
    "transport": TransportError("POST failed"),
    "late": TimeoutError(),
}


class _Nowhere:
    """A transport for services that call nobody."""

    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise TransportError(f"{method} {url}")


@dataclass
class Served:
    """An application behind one of the servers. ``bodies``: what handlers have read; ``open`` lets them answer;
    ``counted``: route and status of every answer that was counted."""

    runner: Runner
    bodies: list[bytes]
    open: asyncio.Event
    counted: list[tuple[str, int]]
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.runner.addresses[0][:2])
        self.writers.append(writer)
        return reader, writer

    async def exchange(self, raw: bytes) -> tuple[int, dict[str, str], bytes, bool]:
        """Status, fields without the time, body, and whether the server then closed the connection."""
        reader, writer = await self.connect()
        writer.write(raw)
        answer = await read_answer(reader, raw.partition(b" ")[0])
        writer.write_eof()
        return answer

    @property
    def server(self) -> Server:
        assert isinstance(self.runner.server, Server)
        return self.runner.server


async def read_answer(reader: asyncio.StreamReader, method: bytes = b"POST") -> tuple[int, dict[str, str], bytes, bool]:
    """The next answer, as h11 reads it."""
    peer = h11.Connection(h11.CLIENT)
    known = method if method in {b"POST", b"GET", b"HEAD", b"OPTIONS"} else b"POST"
    peer.send(h11.Request(method=known, target="/", headers=[("Host", "a")]))
    peer.send(h11.EndOfMessage())
    status, headers, body = 0, {}, b""
    async with asyncio.timeout(PATIENCE):
        while True:
            event = peer.next_event()
            if event is h11.NEED_DATA:
                peer.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, {k.decode(): v.decode() for k, v in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
    assert headers.pop("date"), "every answer has the time"
    return status, headers, body, headers.get("connection") == "close"


def make_probe(bodies: list[bytes], opened: asyncio.Event) -> web.Application:
    """An application with one hot route for everybody, and one that wants a token and fails on demand."""
    app = make_app("probe", Deps(SystemClock(), SeededEntropy(1), _Nowhere()), max_body=LIMIT)

    def admit(_head: Asking) -> Respond:
        return echo

    async def echo(body: bytes) -> Answer:
        bodies.append(body)
        await opened.wait()
        return Answer(body, {"Content-Type": TYPE})

    def admit_known(head: Asking) -> Respond:
        require_bearer(head, DIGEST)
        how = head.match_info["how"]

        async def fail(body: bytes) -> Answer:
            bodies.append(body)
            if how in FAULTS:
                raise FAULTS[how]
            return Answer()

        return fail

    def explain(abort: Abort, named: Mapping[str, str]) -> None:
        abort.extensions = {**abort.extensions, "how": named["how"]}

    async def later(request: web.Request) -> web.Response:
        await opened.wait()
        return web.Response(text=str(len(await read_body(request, 1 << 20))))

    app.router.add_post("/later", later)
    add_hot_route(app, HotRoute("/", TYPE, LIMIT, admit))
    add_hot_route(app, HotRoute("/known/{how}", TYPE, LIMIT, admit_known, continues=True))
    return app


@asynccontextmanager
async def served(by: str, **limits: object) -> AsyncIterator[Served]:
    bodies: list[bytes] = []
    opened = asyncio.Event()
    opened.set()
    app, counted = make_probe(bodies, opened), list[tuple[str, int]]()
    app[COUNT] = lambda route, status, _began: counted.append((route, status))
    if by == "aiohttp":
        app[HOT].clear()
    runner = Runner(app, grace_seconds=1.0, limits=Limits.model_validate(limits))
    found = Served(runner, bodies, opened, counted)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield found
    finally:
        for writer in found.writers:
            writer.transport.abort()
        opened.set()
        await runner.cleanup()


def request(
    body: bytes = b"abc", line: str = "POST / HTTP/1.1", *more: str, type_: str = TYPE, length: str = ""
) -> bytes:
    fields = ["Host: a", f"Content-Type: {type_}", f"Content-Length: {length or len(body)}", *more]
    return "\r\n".join([line, *fields, "", ""]).encode() + body


def chunked(*parts: bytes, more: str = "") -> bytes:
    head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\nTransfer-Encoding: chunked\r\n{more}\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


KNOWN = "Authorization: Bearer let-me-in"
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
    "an unmet expectation": request(b"abc", "POST / HTTP/1.1", "Expect: 100-continue"),
    "no token": request(b"abc", "POST /known/well HTTP/1.1"),
    "two tokens": request(b"abc", "POST /known/well HTTP/1.1", KNOWN, KNOWN),
    "an empty answer": request(b"abc", "POST /known/well HTTP/1.1", KNOWN),
    "no such name": request(b"abc", "POST /known/ HTTP/1.1", KNOWN),
    "an absolute target": request(b"abc", "POST http://a/ HTTP/1.1"),
    **{how: request(b"abc", f"POST /known/{how} HTTP/1.1", KNOWN) for how in FAULTS if how != "late"},
}


@pytest.mark.parametrize("raw", ALIKE.values(), ids=ALIKE)
async def test_both_servers_answer_a_request_alike(raw: bytes) -> None:
    found = {}
    for by in SERVERS:
        async with served(by) as server:
            found[by] = (await server.exchange(raw), server.bodies)
    (lean, lean_bodies), (aiohttp, aiohttp_bodies) = (found[by] for by in SERVERS)
    assert lean[0] == aiohttp[0]
    assert {k.lower(): v for k, v in lean[1].items() if k != "connection"} == {
        k.lower(): v for k, v in aiohttp[1].items() if k != "connection"
    }
    assert lean[2] == aiohttp[2]
    assert lean_bodies == aiohttp_bodies


@pytest.mark.parametrize("by", SERVERS)
async def test_an_error_of_our_own_shows_an_id_and_logs_no_address(by: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with served(by) as server:
        status, _, body, _ = await server.exchange(request(b"abc", "POST /known/late HTTP/1.1", KNOWN))
        await server.exchange(b"POST / HTTP/1.1\r\nHost : a\r\n\r\n")
    assert (status, b"error_id" in body) == (500, True)
    assert "127.0.0.1" not in "".join(capfd.readouterr())


async def test_both_servers_count_answers_alike() -> None:
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
async def test_a_body_that_asks_for_leave_gets_it_where_the_route_allows(by: str) -> None:
    async with served(by) as server:
        reader, writer = await server.connect()
        head = request(b"abc", "POST /known/well HTTP/1.1", KNOWN, "Expect: 100-Continue")[:-3]
        writer.write(head)
        async with asyncio.timeout(PATIENCE):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await read_answer(reader))[0] == 200
        assert server.bodies == [b"abc"]


@pytest.mark.parametrize("by", SERVERS)
async def test_a_connection_carries_hot_and_other_requests_in_any_order(by: str) -> None:
    hot, other = request(b"hot"), b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    async with served(by) as server:
        reader, writer = await server.connect()
        for raw in (hot, hot, other, hot, b"\r\n" + hot, other, hot):
            writer.write(raw)
            assert (await read_answer(reader))[0] == 200
        assert server.bodies == [b"hot"] * 5


async def test_what_aiohttp_began_to_read_is_never_taken_for_a_hot_request() -> None:
    """A field whose value looks like a hot request, in a piece of its own."""
    first = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\nX: "
    async with served("lean") as server:
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


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what a server has read from a socket is no event here
            await asyncio.sleep(0.01)


def _head(*fields: str | bytes, line: bytes = b"POST / HTTP/1.1\r\n") -> bytes:
    """A head with these lines, each with its own end, and the end of the head."""
    lines = [field.encode("latin-1") + b"\r\n" if isinstance(field, str) else field for field in fields]
    return line + f"Host: a\r\nContent-Type: {TYPE}\r\n".encode() + b"".join(lines) + b"\r\n"


INNER = request(b"smuggled")
SMUGGLED: dict[str, bytes] = {
    "length and coding": _head("Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + INNER,
    "coding and length": _head("Transfer-Encoding: chunked", "Content-Length: 3") + b"0\r\n\r\n" + INNER,
    "two lengths": _head("Content-Length: 3", "Content-Length: 9") + b"abc" + INNER,
    "a length twice": _head("Content-Length: 3", "Content-Length: 3") + b"abc",
    "a list of lengths": _head("Content-Length: 3, 3") + b"abc",
    "a length with a sign": _head("Content-Length: +3") + b"abc",
    "a length in hexadecimal": _head("Content-Length: 0x3") + b"abc",
    "no length": _head("Content-Length: ") + b"abc",
    "a length of 80 bits": _head("Content-Length: 1208925819614629174706179") + b"abc",
    "a folded field": _head(b"X: a\r\n Content-Length: 3\r\n", "Content-Length: 0"),
    "bare CR in a field": _head(b"X: a\rContent-Length: 3\r\n", "Content-Length: 0"),
    "bare LF in a field": _head(b"X: a\nContent-Length: 3\r\n") + b"abc",
    "bare LF as the end of a head": _head("Content-Length: 3")[:-2] + b"\nabc",
    "a space before a colon": _head("Content-Length : 3") + b"abc",
    "a tab before a colon": _head("Transfer-Encoding\t: chunked") + b"0\r\n\r\n",
    "a field without a name": _head(": 3") + b"abc",
    "a field without a colon": _head("Content-Length") + b"abc",
    "NUL in a value": _head(b"X: a\0b\r\n"),
    "NUL in a name": _head(b"X\0: a\r\n"),
    "another coding": _head("Transfer-Encoding: identity"),
    "two codings": _head("Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "a coding twice": _head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "a chunk whose size is no number": _head("Transfer-Encoding: chunked") + b"zz\r\n",
    "a chunk size with bare LF": _head("Transfer-Encoding: chunked") + b"3\nabc\r\n0\r\n\r\n",
    "a chunk longer than its size": _head("Transfer-Encoding: chunked") + b"3\r\nabcdef\r\n0\r\n\r\n",
    "a chunk size of 68 bits": _head("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\nabc",
    "two types": _head("Content-Type: text/plain", "Content-Length: 3") + b"abc",
    "too many fields": _head(*(f"X-{number}: y" for number in range(MOST_FIELDS))),
    "too long a value": _head("X: " + "y" * (MOST_FIELD + 1)),
    "too long a name": _head("X" * (MOST_FIELD + 1) + ": y"),
    "an invalid method": _head("Content-Length: 0", line=b"P\x00ST / HTTP/1.1\r\n"),
    "a line without a version": _head("Content-Length: 0", line=b"POST /\r\n"),
    "another version": _head("Content-Length: 0", line=b"POST / HTTP/2.0\r\n"),
    "a line with two spaces": _head("Content-Length: 0", line=b"POST  / HTTP/1.1\r\n"),
    "a line that ends with LF": _head("Content-Length: 0", line=b"POST / HTTP/1.1\n"),
    "a target with a host": _head("Content-Length: 0", line=b"POST http://b/ HTTP/1.1\r\n"),
}
STRICTER: dict[str, bytes] = {
    "no host": f"POST / HTTP/1.1\r\nContent-Type: {TYPE}\r\nContent-Length: 0\r\n\r\n".encode(),
    "two hosts": _head("Host: b", "Content-Length: 0"),
    "a coding inside the chunks": _head("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "an upgrade": _head("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3") + b"abc",
    "a head above the bound": _head(*(f"X-{number}: {'y' * 8000}" for number in range(5))),
}
"""What the lean server refuses and aiohttp does not."""


@pytest.mark.parametrize("raw", [*SMUGGLED.values(), *STRICTER.values()], ids=[*SMUGGLED, *STRICTER])
async def test_what_servers_disagree_about_is_refused_and_ends_the_connection(raw: bytes) -> None:
    for pieces in ([raw], [raw[:40], raw[40:]], [raw[:-1], raw[-1:]]):
        async with served("lean") as server:
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
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 60_000)
        assert (await read_answer(reader))[0] == 400


@pytest.mark.parametrize("ended", [True, False], ids=["a whole head", "a head without an end"])
@pytest.mark.parametrize("size", [1000, 7000, 60_000], ids=["in small pieces", "in pieces", "at once"])
async def test_a_head_above_the_bound_is_refused_whatever_it_asks_for(size: int, ended: bool) -> None:
    raw = _head(*(f"X-{number}: {'y' * 8000}" for number in range(5)), line=b"GET /elsewhere HTTP/1.1\r\n")
    raw = raw if ended else raw[:-2]
    async with served("lean") as server:
        reader, writer = await server.connect()
        for at in range(0, len(raw), size):
            writer.write(raw[at : at + size])
            await asyncio.sleep(0.001)
        status, headers, _, closed = await read_answer(reader, b"GET")
        assert (status, headers["content-type"], closed) == (400, "application/problem+json", True)


async def test_heads_up_to_the_bound_are_read_one_after_the_other() -> None:
    raw = _head(*(f"X-{number}: {'y' * 8000}" for number in range(4)), line=b"GET /elsewhere HTTP/1.1\r\n")
    async with served("lean") as server:
        reader, writer = await server.connect()
        for _ in range(3):
            writer.write(raw[:20_000])
            await asyncio.sleep(0.001)
            writer.write(raw[20_000:-1])
            await asyncio.sleep(0.001)
            writer.write(raw[-1:])
            assert (await read_answer(reader, b"GET"))[0] == 404


LATE = f"POST /elsewhere HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\nContent-Length: 60000\r\n"


@pytest.mark.parametrize("expecting", ["", "Expect: 100-continue\r\n"], ids=["", "expecting"])
async def test_an_answer_before_the_body_is_the_last_and_the_body_that_follows_is_no_request(expecting: str) -> None:
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(f"{LATE}{expecting}\r\n".encode())
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (404, True)
        for _ in range(6):
            writer.write(b"\r\n\r\n" + bytes(9996))
            await asyncio.sleep(0.001)
        writer.write(_head(line=b"GET /elsewhere HTTP/1.1\r\n"))
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)


async def test_who_asks_on_a_connection_whose_answer_came_early_uses_another() -> None:
    async with served("aiohttp") as server, HttpTransport(insecure_http=True) as transport:
        url = "http://{}:{}/elsewhere".format(*server.runner.addresses[0][:2])
        for size in (200_000, 1_000_000, 1, 4_000_000, 0):
            for _ in range(3):
                answer = await transport.request("POST", url, headers={"Content-Type": TYPE}, body=bytes(size))
                assert answer.status == 404


async def test_requests_sent_ahead_on_a_connection_of_aiohttp_are_answered_in_turn() -> None:
    get = _head(line=b"GET /elsewhere HTTP/1.1\r\n")
    post = f"{LATE}\r\n".encode() + b"\r\n\r\n".ljust(60_000, b"x")
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(get + b"\r\n" + get + post[:30_000])
        for _ in range(2):
            assert (await read_answer(reader, b"GET"))[0] == 404
        writer.write(post[30_000:] + get[:-1])
        await asyncio.sleep(0.01)
        writer.write(get[-1:])
        assert [(await read_answer(reader))[0] for _ in range(1)] == [404]


@pytest.mark.parametrize(
    "broken",
    [b"zz\r\n", b"0\r\n" + b"X: y\r\n" * 200, b"0\r\nX: " + b"y" * 9000],
    ids=["no size", "many trailers", "a long trailer"],
)
async def test_a_broken_body_on_a_connection_of_aiohttp_is_refused_and_keeps_no_turn(broken: bytes) -> None:
    async with served("aiohttp") as server:
        reader, writer = await server.connect()
        writer.write(chunked(b"abc")[:-5])
        await asyncio.sleep(0.01)
        writer.write(broken)
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (400, True)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


@pytest.mark.parametrize(
    "raw",
    [
        _head("Content-Length: 1", line=b"GET /elsewhere HTTP/1.1\r\n"),
        _head("Transfer-Encoding: chunked", line=b"OPTIONS /elsewhere HTTP/1.1\r\n"),
        _head("Content-Length: 18446744073709551615"),
        _head("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        _head("Transfer-Encoding: ", "Content-Length: 3") + b"abc",
    ],
    ids=["GET with a body", "OPTIONS with chunks", "a length of 64 bits", "two codings", "an empty coding"],
)
async def test_a_request_whose_end_others_see_elsewhere_is_refused_by_aiohttp_too(raw: bytes) -> None:
    async with served("aiohttp") as server:
        reader, writer = await server.connect()
        writer.write(raw)
        writer.write(_head(line=b"GET /elsewhere HTTP/1.1\r\n"))
        assert (await read_answer(reader))[0] == 400
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        assert server.bodies == []


async def test_what_comes_behind_the_last_request_is_dropped_and_takes_no_turn() -> None:
    async with served("aiohttp") as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one", "POST / HTTP/1.1", "Connection: close"))
        await until(lambda: bool(server.bodies))
        (connection,) = server.server.connections
        writer.write(request(b"two"))
        await until(lambda: bool(connection._held))  # type: ignore[attr-defined]
        server.open.set()
        assert (await read_answer(reader))[2] == b"one"
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)
        assert (server.server.admission.turns, server.bodies) == (0, [b"one"])
        assert connection._request_count == 1


async def test_a_body_that_its_handler_has_not_read_yet_has_a_turn() -> None:
    async with served("aiohttp") as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(bytes(700_000), "POST /later HTTP/1.1"))
        await until(lambda: server.server.admission.turns == 1)
        server.open.set()
        assert (await read_answer(reader))[::2] == (200, b"700000")
        writer.write(request(b"abc", "POST /later HTTP/1.1"))
        assert (await read_answer(reader))[::2] == (200, b"3")
        assert server.server.admission.turns == 0


async def test_a_body_is_not_inflated() -> None:
    body = gzip.compress(bytes(100_000))
    async with served("aiohttp") as server:
        answer = await server.exchange(request(body, "POST /later HTTP/1.1", "Content-Encoding: gzip"))
        assert answer[::2] == (200, str(len(body)).encode())


@pytest.mark.parametrize("trailer", [b"", b"Authorization: Bearer let-me-in\r\n"], ids=["none", "a field"])
async def test_trailers_are_no_fields_of_the_next_request(trailer: bytes) -> None:
    async with served("aiohttp") as server:
        reader, writer = await server.connect()
        writer.write(chunked(b"abc")[:-2] + trailer + b"\r\n")
        assert (await read_answer(reader))[0] == 200
        with contextlib.suppress(ConnectionError):
            writer.write(request(b"abc", "POST /known/well HTTP/1.1"))
            async with asyncio.timeout(PATIENCE):
                assert (await reader.readline())[:12] == (b"" if trailer else b"HTTP/1.1 401")


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 4, 5])
async def test_the_bound_of_a_head_does_not_depend_on_its_pieces(last: int, over: int) -> None:
    most = [f"X-{number}: {'y' * 8000}" for number in range(4)]
    line = b"GET /elsewhere HTTP/1.1\r\n"
    room = MOST_HEAD + over - len(_head(*most, "Y: ", line=line)) + 4
    raw = _head(*most, "Y: " + "y" * room, line=line)
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(raw[: len(raw) - last])
        await asyncio.sleep(0.01)
        writer.write(raw[len(raw) - last :])
        assert (await read_answer(reader, b"GET"))[0] == (400 if over else 404)


@pytest.mark.parametrize("coded", [False, True], ids=["a length", "chunks"])
async def test_a_head_above_the_bound_behind_a_body_is_refused_or_dropped(coded: bool) -> None:
    parts = [b"x" * 10_000] * 3
    body = chunked(*parts) if coded else request(b"".join(parts))
    head = _head(*(f"X-{number}: {'y' * 8000}" for number in range(12)), line=b"GET /elsewhere HTTP/1.1\r\n")
    async with served("aiohttp") as server:
        reader, writer = await server.connect()
        writer.write(body + head[:-2])
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (200, False)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                assert (await reader.read()).partition(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}
        writer.close()
        await until(lambda: len(server.server.admission) == 0)


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_blank_line_may_come_in_parts_and_with_the_body(cut: int) -> None:
    async with served("lean") as server:
        reader, writer = await server.connect()
        raw = f"{LATE}\r\n".encode()
        writer.write(raw[:-cut])
        await asyncio.sleep(0.01)
        writer.write(raw[-cut:] + bytes(60_000))
        assert (await read_answer(reader))[0] == 404


@pytest.mark.parametrize("ended", [True, False], ids=["whole", "endless"])
async def test_trailers_on_a_connection_of_aiohttp_are_bounded(ended: bool) -> None:
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(_head(line=b"GET /elsewhere HTTP/1.1\r\n"))
        assert (await read_answer(reader, b"GET"))[0] == 404
        trailers = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 8000) for number in range(20))
        writer.write(_head("Transfer-Encoding: chunked") + b"0\r\n" + trailers + (b"\r\n" if ended else b""))
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while await reader.read(65_536):
                    pass
        assert len(server.server.admission) == 0


async def test_endless_chunk_framing_is_refused() -> None:
    async with served("lean") as server:
        reader, writer = await server.connect()
        writer.write(_head("Transfer-Encoding: chunked") + b"1;" + b"x" * 60_000)
        assert (await read_answer(reader))[0] == 400


@pytest.mark.parametrize("kept", [0, 1, 2000])
async def test_who_is_refused_early_sees_the_answer_and_is_cut_if_it_goes_on(kept: int) -> None:
    async with served("lean") as server:
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
    async with served("lean") as one:
        reader, writer = await one.connect()
        writer.write(_head("Transfer-Encoding: chunked") + b"4000\r\n" + bytes(0x4000) + b"\r\nzz\r\n")
        assert (await read_answer(reader))[0] == 400
        (connection,) = one.server.connections
        assert isinstance(connection, Connection)
        assert connection._reader is not None
        assert connection._reader.body == b""


async def test_what_has_arrived_of_a_body_is_freed_when_its_connection_ends() -> None:
    async with served("lean") as one:
        _, writer = await one.connect()
        writer.write(request(bytes(LIMIT))[:-1])
        await until(lambda: one.server.admission.receiving == 1)
        (connection,) = one.server.connections
        assert isinstance(connection, Connection)
        reading = connection._reader
        assert reading is not None
        await until(lambda: bool(reading.body))
        writer.transport.abort()
        await until(lambda: not len(one.server.admission))
        assert reading.body == b""


async def test_the_error_of_a_body_that_broke_off_keeps_nothing_of_it() -> None:
    stream = StreamReader(mock.Mock(_reading_paused=False), LIMIT, loop=asyncio.get_running_loop())
    stream.feed_data(bytes(1000))
    asyncio.get_running_loop().call_soon(stream.set_exception, ConnectionResetError())
    with pytest.raises(Abort, match="incomplete") as caught:
        await read_body(mock.Mock(content=stream, content_length=2000, spec=web.Request), LIMIT)
    kept = [
        frame.f_locals["parts"]
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if "parts" in frame.f_locals
    ]
    assert kept == [[]]


async def test_a_body_that_is_being_answered_is_held_once() -> None:
    async with served("lean") as one:
        one.open.clear()
        reader, writer = await one.connect()
        writer.write(request(bytes(LIMIT)))
        await until(lambda: bool(one.bodies))
        (connection,) = one.server.connections
        assert isinstance(connection, Connection)
        assert connection._reader is not None
        assert connection._reader.body == b""
        one.open.set()
        assert (await read_answer(reader))[2] == bytes(LIMIT)


async def test_who_goes_on_sending_fast_after_a_refusal_is_cut_before_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "LINGER_SECONDS", 3600.0)
    async with served("lean") as one:
        reader, writer = await one.connect()
        writer.write(_head("Transfer-Encoding: chunked") + b"zz\r\n")
        assert (await read_answer(reader))[0] == 400
        with pytest.raises(ConnectionError):  # noqa: PT012 - the cut is seen by whichever write comes after it
            async with asyncio.timeout(PATIENCE):
                while True:
                    writer.write(bytes(MOST_DISCARDED // 4))
                    await writer.drain()


async def test_an_answer_that_cannot_be_sent_ends_its_connection(capfd: pytest.CaptureFixture[str]) -> None:
    async with served("lean") as one:
        (route,) = (found for found in one.runner.app[HOT] if found.path == "/")
        answer = Answer(b"", {"X-Odd": "\udcff"})

        async def respond(_body: bytes) -> Answer:
            return answer

        object.__setattr__(route, "admit", lambda _head: respond)
        reader, writer = await one.connect()
        writer.write(request())
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(one.server.admission) == 0)
    assert "answer_failed" in capfd.readouterr().err
