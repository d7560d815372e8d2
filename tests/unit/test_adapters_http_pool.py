"""The HTTP client against a real server, and against servers that are slow, wrong or hostile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import uvloop
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.adapters.network import http as adapter
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.http.callers import certificate_names
from tacit.service.run import Ready, server_tls, started
from tests.certificates import Authority
from tests.unit.test_adapters_http import authority  # noqa: F401 - a fixture

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def _echo(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    if request.query.get("chunked"):
        response = web.StreamResponse(status=200, headers={"X-A": "1"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(body), 1000):
            await response.write(body[start : start + 1000])
        await response.write_eof()
        return response
    return web.Response(status=int(request.query.get("status", "200")), body=body)


async def _show(request: web.Request) -> web.Response:
    return web.json_response({"path": request.raw_path, "headers": sorted(name.lower() for name in request.headers)})


async def _authorization(request: web.Request) -> web.Response:
    return web.Response(text=request.headers.get("Authorization", "none"))


async def _redirect(_request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "/healthz", "Set-Cookie": "a=b"})


async def _slow(request: web.Request) -> web.Response:
    await asyncio.sleep(float(request.query["for"]))
    return web.Response(text="done")


def _app() -> web.Application:
    app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport()))
    app.router.add_route("*", "/echo", _echo)
    app.router.add_get("/show/{rest:.*}", _show)
    app.router.add_get("/authorization", _authorization)
    app.router.add_get("/redirect", _redirect)
    app.router.add_route("*", "/slow", _slow)
    return app


@pytest.fixture
async def plain() -> AsyncIterator[Ready]:
    """The probe application on plain loopback HTTP."""
    async with started(_app(), Listen(), grace_seconds=0.1) as ready:
        yield ready


class Scripted:
    """A server on raw sockets. It reads requests; the script of a connection says what it answers to each."""

    def __init__(self, *connections: Sequence[bytes | None]) -> None:
        self.requests: list[bytes] = []
        self.accepted = 0
        self.url = ""
        self._connections = [list(answers) for answers in connections]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = self._connections[min(self.accepted, len(self._connections) - 1)]
        self.accepted += 1
        try:
            for answer in list(answers):
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                self.requests.append(head + await reader.readexactly(int(length[0].split(b":")[1]) if length else 0))
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Scripted]:
        """Listen while the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0)


async def _ask(*answers: bytes | None, method: str = "GET", **options: Any) -> HttpResponse:
    """The response to one request to a server that says ``answers`` and closes."""
    async with Scripted(answers).running() as server, HttpTransport(**options) as http:
        return await http.request(method, server.url)


async def test_a_request_carries_no_trace_of_the_software(plain: Ready) -> None:
    async with HttpTransport() as http:
        shown = json.loads((await http.request("GET", f"{plain.url}/show/a%2Fb?c=%20d#e")).body)
        assert shown == {"path": "/show/a%2Fb?c=%20d", "headers": ["host"]}


async def test_a_body_goes_there_and_back_whole(plain: Ready) -> None:
    async with HttpTransport() as http:
        for size in (0, 1, 65536, 65537, 700_000):
            body = bytes(range(256)) * (size // 256) + bytes(size % 256)
            for query in ("", "?chunked=1"):
                assert (await http.request("POST", f"{plain.url}/echo{query}", body=body)).body == body


async def test_connections_are_kept_and_shared(plain: Ready) -> None:
    async with HttpTransport(connections=3) as http:
        bodies = [bytes([number]) * number for number in range(60)]
        answers = await asyncio.gather(*(http.request("POST", f"{plain.url}/echo", body=body) for body in bodies))
        assert [answer.body for answer in answers] == bodies
        (pool,) = http._pools.values()
        assert (pool._open, len(pool._idle), len(pool._alive)) == (3, 3, 3)


async def test_headers_of_an_origin_go_to_that_origin_only(plain: Ready) -> None:
    bearer = {"Authorization": "Bearer abc"}
    async with HttpTransport(origin_headers={plain.url + "/x": bearer}) as http:
        assert (await http.request("GET", f"{plain.url}/authorization")).body == b"Bearer abc"
    async with HttpTransport(origin_headers={"https://other.example": bearer}) as http:
        assert (await http.request("GET", f"{plain.url}/authorization")).body == b"none"


async def test_redirects_are_answers_and_cookies_are_forgotten(plain: Ready) -> None:
    async with HttpTransport() as http:
        assert (await http.request("GET", f"{plain.url}/redirect")).status == 302
        assert "cookie" not in (await http.request("GET", f"{plain.url}/show/")).body.decode()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("POST", 503)])
async def test_responses_with_and_without_a_body_leave_the_connection_sound(
    plain: Ready, method: str, status: int
) -> None:
    async with HttpTransport() as http:
        for _ in range(3):
            body = b"x" * 99 if method == "POST" else b""
            answer = await http.request(method, f"{plain.url}/echo?status={status}", body=body)
            assert (answer.status, answer.body) == (status, body)


async def _shown(request: web.Request) -> web.Response:
    return web.json_response(sorted(certificate_names(request)))


async def test_tls_is_verified_and_certificates_are_shown(authority: Authority) -> None:  # noqa: F811
    certificate, key = authority.issue("server")
    listen = Listen(tls_cert=certificate, tls_key=key, client_ca=authority.certificate)
    body = bytes(300_000)
    app = _app()
    app.router.add_get("/shown", _shown)
    async with started(app, listen, grace_seconds=2) as ready:
        async with HttpTransport(tls=ClientTls(authority.certificate, *authority.issue("relay"))) as http:
            for _ in range(2):
                assert (await http.request("POST", f"{ready.url}/echo", body=body)).body == body
            assert json.loads((await http.request("GET", f"{ready.url}/shown")).body) == ["relay"]
        async with HttpTransport(tls=ClientTls(ca=authority.certificate)) as http:
            assert json.loads((await http.request("GET", f"{ready.url}/shown")).body) == []
        async with HttpTransport() as http:
            with pytest.raises(TransportError):
                await http.request("GET", f"{ready.url}/healthz")


def test_tls_carries_exchanges_on_the_event_loop_of_the_services(authority: Authority) -> None:  # noqa: F811
    """uvloop tells of a connection before the last bytes of its handshake have left."""
    certificate, key = authority.issue("server")
    bodies = [b"", b"short", bytes(300_000)]

    async def echoed() -> list[bytes]:
        async with (
            started(_app(), Listen(tls_cert=certificate, tls_key=key), grace_seconds=2) as ready,
            HttpTransport(tls=ClientTls(authority.certificate)) as http,
        ):
            return [(await http.request("POST", f"{ready.url}/echo", body=body)).body for body in bodies]

    assert uvloop.run(echoed()) == bodies


async def test_plain_http_goes_to_loopback_only() -> None:
    async with HttpTransport() as http:
        for url in ("http://192.0.2.1/", "ftp://127.0.0.1/", "http://127.0.0.1/\u00e9"):
            with pytest.raises(UsageError):
                await http.request("GET", url)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET\r\n", {}),
        ("GET", {"A": "b\r\nC: d"}),
        ("GET", {"A\n": "b"}),
        ("GET", {"Host": "other.example"}),
        ("POST", {"content-length": "1"}),
        ("POST", {"Transfer-Encoding": "chunked"}),
        ("GET", {"A": "\u20ac"}),
    ],
)
async def test_what_would_change_the_framing_is_not_sent(plain: Ready, method: str, headers: dict[str, str]) -> None:
    async with HttpTransport() as http:
        with pytest.raises(ValueError, match=r"HTTP method|header"):
            await http.request(method, plain.url, headers=headers)


async def test_a_peer_that_is_late_or_not_there_is_a_transport_error(plain: Ready) -> None:
    async with HttpTransport(timeout=0.05, connections=1) as http:
        late = [http.request("GET", f"{plain.url}/slow?for=0.5") for _ in range(3)]
        errors = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(error, TransportError) for error in errors)
        assert all(isinstance(getattr(error, "__cause__", None), TimeoutError) for error in errors)
        assert next(iter(http._pools.values()))._open == 0, "a late connection is dropped"
        with pytest.raises(TransportError):
            await http.request("GET", "http://127.0.0.1:9/")


async def test_a_large_body_has_more_time_than_a_small_one(plain: Ready) -> None:
    async with HttpTransport(timeout=0.05, upload_rate=1000.0) as http:
        with pytest.raises(TransportError):
            await http.request("GET", f"{plain.url}/slow?for=0.5")
        assert (await http.request("POST", f"{plain.url}/slow?for=0.5", body=bytes(60_000))).body == b"done"


async def test_a_cancelled_request_takes_only_its_own_connection_along(plain: Ready) -> None:
    async with HttpTransport(connections=1) as http:
        first = asyncio.create_task(http.request("GET", f"{plain.url}/slow?for=5"))
        second = asyncio.create_task(http.request("GET", f"{plain.url}/healthz"))
        third = asyncio.create_task(http.request("GET", f"{plain.url}/healthz"))
        await asyncio.sleep(0.05)
        second.cancel()
        first.cancel()
        assert (await third).status == 200
        assert next(iter(http._pools.values()))._open == 1


async def test_closing_fails_what_is_under_way_and_the_transport_can_be_used_again(plain: Ready) -> None:
    async with HttpTransport(connections=1) as http:
        under_way = [asyncio.create_task(http.request("GET", f"{plain.url}/slow?for=5")) for _ in range(2)]
        await asyncio.sleep(0.05)
        await http.close()
        assert all(
            isinstance(error, TransportError) for error in await asyncio.gather(*under_way, return_exceptions=True)
        )
        assert (await http.request("GET", f"{plain.url}/healthz")).status == 200


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: trailer\r\n\r\n", b"ok"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b""),
        (OK + OK, b"ok"),
        (OK + b"\x00junk", b"ok"),
    ],
)
async def test_unusual_responses_are_read_and_only_sound_connections_kept(answer: bytes, body: bytes) -> None:
    script = [answer] if answer.endswith(b"the end") else [answer, answer]
    async with Scripted(script).running() as server, HttpTransport() as http:
        first = await http.request("GET", server.url)
        assert first.body == body
        assert not {"link", "x"} & first.headers.keys(), "interim heads and trailers are dropped"
        await asyncio.sleep(0)
        assert (await http.request("GET", server.url)).body == body
        is_sound = b"Chunked" in answer or b"103" in answer
        assert server.accepted == (1 if is_sound else 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ncut",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
        b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nok" + OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3000 + OK,
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 8_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"a" * 100 + b"\r\n" + b"400\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 1001,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 70_000,
        b"HTTP/2 200\r\n\r\n",
    ],
    ids=lambda answer: repr(answer[:60]),
)
async def test_wrong_truncated_and_oversized_responses_are_errors(answer: bytes) -> None:
    with pytest.raises(TransportError):
        await _ask(answer + (b"b" * 1000 if answer.endswith(b"400\r\n") else b""), max_response=1000)


async def test_a_response_without_an_end_of_its_own_is_refused_over_tls(authority: Authority) -> None:  # noqa: F811
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await writer.drain()
        writer.close()

    certificate, key = authority.issue("server")
    server = await asyncio.start_server(cut, "127.0.0.1", 0, ssl=server_tls(Listen(tls_cert=certificate, tls_key=key)))
    port = server.sockets[0].getsockname()[1]
    async with HttpTransport(tls=ClientTls(authority.certificate)) as http:
        with pytest.raises(TransportError, match="within a response"):
            await http.request("GET", f"https://127.0.0.1:{port}/")
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("method", "repeat_posts", "repeated"),
    [("GET", False, True), ("PUT", False, True), ("POST", True, True), ("POST", False, False)],
)
async def test_what_a_stale_connection_swallowed_is_sent_again_only_where_that_is_harmless(
    method: str, repeat_posts: bool, repeated: bool
) -> None:
    async with Scripted([OK, None], [OK]).running() as server, HttpTransport(repeat_posts=repeat_posts) as http:
        await http.request("GET", server.url)
        if repeated:
            assert (await http.request(method, server.url, body=b"x")).body == b"ok"
        else:
            with pytest.raises(TransportError, match="without an answer"):
                await http.request(method, server.url, body=b"x")
        assert len(server.requests) == 2 + repeated


async def test_a_fresh_connection_that_closes_at_once_is_not_tried_again() -> None:
    async with Scripted([None]).running() as server, HttpTransport(repeat_posts=True) as http:
        with pytest.raises(TransportError, match="without an answer"):
            await http.request("POST", server.url)
        assert len(server.requests) == 1


async def test_a_peer_that_closes_in_the_midst_of_an_answer_is_not_asked_again() -> None:
    async with Scripted([OK, b"HTTP/1.1 2"], [OK]).running() as server, HttpTransport() as http:
        await http.request("GET", server.url)
        script = asyncio.create_task(http.request("GET", server.url))
        with pytest.raises(TransportError, match="within a response"):
            await script
        assert server.accepted == 1


async def test_junk_on_an_idle_connection_ends_it() -> None:
    async with Scripted([OK, OK]).running() as server, HttpTransport() as http:
        await http.request("GET", server.url)
        (pool,) = http._pools.values()
        pool._idle[0].data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        assert (await http.request("GET", server.url)).body == b"ok"
        assert server.accepted == 2


async def test_connections_that_idled_too_long_or_are_old_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Scripted([OK, OK]).running() as server, HttpTransport() as http:
        await http.request("GET", server.url)
        monkeypatch.setattr(adapter, "IDLE_SECONDS", 0.0)
        await http.request("GET", server.url)
        assert server.accepted == 2
        monkeypatch.setattr(adapter, "AGE_SECONDS", -1.0)
        await http.request("GET", server.url)
        assert next(iter(http._pools.values()))._open == 0


LoopFactory = Callable[[], asyncio.AbstractEventLoop]
on_both_loops = pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])

_WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)


@st.composite
def _responses(draw: st.DrawFn) -> tuple[bytes, int, bytes]:
    """The bytes of a legal response, its status and its body."""
    status = draw(st.sampled_from([200, 201, 400, 404, 503]))
    body = draw(st.binary(max_size=600))
    lines = [f"HTTP/1.1 {status} X"] + [f"X-{i}: {word}" for i, word in enumerate(draw(st.lists(_WORDS, max_size=4)))]
    head = "\r\n".join(lines).encode()
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if framing == "length":
        return head + f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body, status, body
    if framing == "close":
        return head + b"\r\nConnection: close\r\n\r\n" + body, status, body
    cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=5)) | {0, len(body)})
    chunks = [body[a:b] for a, b in itertools.pairwise(cuts)]
    encoded = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n"
    return head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + encoded, status, body


async def _in_pieces(wire: bytes, cuts: Sequence[int]) -> HttpResponse:
    """What a server that writes ``wire`` in pieces and closes is understood to say."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
        for start, end in itertools.pairwise(edges):
            writer.write(wire[start:end])
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        async with HttpTransport(timeout=30, max_response=1000, max_head=2000) as http:
            return await http.request("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()
        await server.wait_closed()


@on_both_loops
@settings(max_examples=20, deadline=None)
@given(_responses(), st.lists(st.integers(0, 2000), max_size=6))
def test_every_legal_response_is_read_the_same_however_it_arrives(
    loop_factory: LoopFactory, response: tuple[bytes, int, bytes], cuts: list[int]
) -> None:
    wire, status, body = response
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        answer = runner.run(_in_pieces(wire, cuts))
    assert (answer.status, answer.body) == (status, body)


@on_both_loops
@settings(max_examples=30, deadline=None)
@given(_responses(), st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3)), max_size=4), st.integers(0, 2000))
def test_damaged_responses_are_answers_or_transport_errors_and_never_hang(
    loop_factory: LoopFactory,
    response: tuple[bytes, int, bytes],
    damage: list[tuple[int, bytes]],
    end: int,
) -> None:
    wire = bytearray(response[0])
    for place, patch in damage:
        at = place % len(wire)
        wire[at : at + len(patch)] = patch
    with contextlib.suppress(TransportError), asyncio.Runner(loop_factory=loop_factory) as runner:
        answer = runner.run(_in_pieces(bytes(wire[: end or None]), []))
        assert len(answer.body) <= 1000
