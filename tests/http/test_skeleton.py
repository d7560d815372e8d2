"""The service skeleton over real loopback HTTP and through the in-process network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from infra.base.free_ports import free_ports
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from tacit import __version__
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import Abort, CryptoError, DecodeError, Refusal, UsageError
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.service.app import DRIVERS, ServiceEnv, add_driver, make_app, read_body
from tacit.service.base.config import Listen
from tacit.service.http.auth import require_bearer, token_digest
from tacit.service.run import started

BASE = "http://127.0.0.1:8080"
LIMIT = 1000
DIGEST = token_digest("let-me-in\n")


class _Nowhere:
    """A transport for services that call nobody."""

    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise TransportError(f"{method} {url}")


class _Counter:
    """A driver that counts its steps and reports work for the first three."""

    def __init__(self) -> None:
        self.steps = 0

    async def step(self) -> int:
        self.steps += 1
        return 1 if self.steps <= 3 else 0


def _deps(*, background: bool = True) -> ServiceEnv:
    return ServiceEnv(SystemClock(), SeededEntropy(1), _Nowhere(), background=background)


async def _echo(request: web.Request) -> web.Response:
    return web.Response(body=await read_body(request, LIMIT, "application/x-test;message=one"))


async def _fail(request: web.Request) -> web.Response:
    match request.match_info["how"]:
        case "abort":
            raise Abort("urn:x:y", "this time", status=409, title="Always.", task_id="AAA", extensions={"n": 7})
        case "decode":
            raise DecodeError("Report is truncated")
        case "crypto":
            raise CryptoError("ciphertext does not open")
        case "refusal":
            raise Refusal("batch-floor", "B is 3, the floor is 10")
        case "transport":
            raise TransportError("POST failed")
        case "redirect":
            raise web.HTTPFound("/elsewhere")
        case _:
            raise ValueError("secret internals")


async def _private(request: web.Request) -> web.Response:
    return web.json_response(require_bearer(request, b"\0" * 32, DIGEST))


def _app(deps: ServiceEnv | None = None) -> web.Application:
    app = make_app("probe", deps or _deps(), max_body=LIMIT)
    app.router.add_post("/echo", _echo)
    app.router.add_get("/fail/{how}", _fail)
    app.router.add_get("/private", _private)
    return app


@pytest.fixture(params=["memory", "loopback"])
async def probe(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Transport, str]]:
    """The probe application behind either kind of transport, with its base URL."""
    if request.param == "memory":
        async with InProcessTransport({BASE: _app()}) as network:
            yield network, BASE
    else:
        async with started(_app(), Listen()) as ready, HttpTransport() as http:
            yield http, ready.url


async def test_health_is_served_without_caching_or_a_version_banner(probe: tuple[Transport, str]) -> None:
    transport, base = probe
    response = await transport.request("GET", f"{base}/healthz")
    assert response.status == 200
    assert json.loads(response.body) == {"status": "ok", "service": "probe", "version": __version__}
    assert response.headers["cache-control"] == "no-store"
    assert "server" not in response.headers


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        (
            "abort",
            409,
            {"type": "urn:x:y", "title": "Always.", "detail": "this time", "taskid": "AAA", "n": 7},
        ),
        ("decode", 400, {"type": "about:blank", "title": "Bad Request", "detail": "Report is truncated"}),
        (
            "crypto",
            400,
            {"type": "about:blank", "title": "Bad Request", "detail": "ciphertext does not open"},
        ),
        (
            "refusal",
            422,
            {
                "type": "urn:tacit:refusal:batch-floor",
                "title": "A rule refused the request.",
                "detail": "B is 3, the floor is 10",
            },
        ),
        (
            "transport",
            502,
            {"type": "about:blank", "title": "Bad Gateway", "detail": "a peer did not answer"},
        ),
    ],
)
async def test_every_error_becomes_a_problem_document(
    probe: tuple[Transport, str], how: str, status: int, expected: dict[str, object]
) -> None:
    transport, base = probe
    response = await transport.request("GET", f"{base}/fail/{how}")
    assert response.status == status
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(response.body) == {**expected, "status": status}


async def test_an_unexpected_error_shows_an_id_and_nothing_else(
    probe: tuple[Transport, str], capsys: pytest.CaptureFixture[str]
) -> None:
    transport, base = probe
    response = await transport.request("GET", f"{base}/fail/other")
    document = json.loads(response.body)
    assert response.status == 500
    assert document.keys() == {"type", "status", "title", "error_id"}
    logged = json.loads(capsys.readouterr().err)
    assert logged["error_id"] == document["error_id"]
    assert logged["error"] == "ValueError"
    assert "secret internals" not in json.dumps(logged)


async def test_unknown_paths_and_methods_are_problem_documents(probe: tuple[Transport, str]) -> None:
    transport, base = probe
    missing = await transport.request("GET", f"{base}/nowhere")
    wrong = await transport.request("DELETE", f"{base}/healthz")
    assert json.loads(missing.body) == {"type": "about:blank", "status": 404, "title": "Not Found"}
    assert wrong.status == 405
    assert "GET" in wrong.headers["allow"]


async def test_redirects_are_answered_but_not_followed(probe: tuple[Transport, str]) -> None:
    transport, base = probe
    response = await transport.request("GET", f"{base}/fail/redirect")
    assert (response.status, response.headers["location"]) == (302, "/elsewhere")


async def test_a_body_needs_the_media_type_in_any_of_its_forms(probe: tuple[Transport, str]) -> None:
    transport, base = probe
    forms = (
        "application/x-test; message=one",
        'Application/X-Test;message="one"',
        "application/x-test;message=one;a=b",
    )
    for value in forms:
        good = await transport.request("POST", f"{base}/echo", headers={"Content-Type": value}, body=b"abc")
        assert (good.status, good.body) == (200, b"abc")
    for value in ("application/x-test", "application/x-test;message=two", "text/plain"):
        bad = await transport.request("POST", f"{base}/echo", headers={"Content-Type": value}, body=b"abc")
        assert bad.status == 415
    coded = {"Content-Type": "application/x-test;message=one", "Content-Encoding": "gzip"}
    assert (await transport.request("POST", f"{base}/echo", headers=coded, body=b"abc")).status == 415


async def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_read(
    probe: tuple[Transport, str],
) -> None:
    transport, base = probe
    headers = {"Content-Type": "application/x-test;message=one"}
    at_limit = await transport.request("POST", f"{base}/echo", headers=headers, body=b"x" * LIMIT)
    over = await transport.request("POST", f"{base}/echo", headers=headers, body=b"x" * (LIMIT + 1))
    assert (at_limit.status, len(at_limit.body)) == (200, LIMIT)
    assert over.status == 413


async def test_bearer_tokens_are_checked(probe: tuple[Transport, str]) -> None:
    transport, base = probe
    good = await transport.request("GET", f"{base}/private", headers={"Authorization": "Bearer let-me-in"})
    assert (good.status, good.body) == (200, b"1")
    for value in ("Bearer let-me-out", "Bearer ", "Basic let-me-in", "let-me-in"):
        bad = await transport.request("GET", f"{base}/private", headers={"Authorization": value})
        assert bad.status == 401
        assert bad.headers["www-authenticate"] == "Bearer"
    assert (await transport.request("GET", f"{base}/private")).status == 401


async def test_a_chunked_body_over_the_limit_is_refused_while_it_is_read() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100

    async with started(_app(), Listen()) as ready, aiohttp.ClientSession() as session:
        headers = {"Content-Type": "application/x-test;message=one"}
        async with session.post(f"{ready.url}/echo", data=chunks(), headers=headers) as response:
            assert response.status == 413


async def test_an_expectation_is_refused_before_the_body_is_sent() -> None:
    async with started(_app(), Listen()) as ready:
        port = int(ready.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\nContent-Length: 3\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
        writer.close()
        await writer.wait_closed()
    assert head == b"HTTP/1.1 417 Expectation Failed\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"GARBAGE\r\n\r\n",
        b"\xff\xfe\xfd\r\n\r\n",
        b"GET / HTTP/9.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/x-test;message=one\r\n\r\nzz\r\n",
    ],
)
async def test_bytes_that_are_not_http_get_a_problem_document_without_an_echo(raw: bytes) -> None:
    async with started(_app(), Listen(), grace_seconds=1) as ready:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(ready.url.rsplit(":", 1)[1]))
        writer.write(raw)
        head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    assert json.loads(body) == {"type": "about:blank", "status": 400, "title": "Bad Request"}
    assert b"400 Bad Request" in head
    assert b"aiohttp" not in head


async def test_a_client_that_goes_away_in_its_body_is_no_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    async with started(_app(), Listen(), grace_seconds=1) as ready:
        _, writer = await asyncio.open_connection("127.0.0.1", int(ready.url.rsplit(":", 1)[1]))
        media_type = b"Content-Type: application/x-test;message=one\r\n"
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n" + media_type + b"\r\nabc")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.05)
    assert capsys.readouterr().err == ""


async def test_a_driver_runs_in_the_background_and_stops_with_the_app() -> None:
    clock, driver = SimClock(), _Counter()
    app = _app(ServiceEnv(clock, OsEntropy(), _Nowhere()))
    wake = add_driver(app, driver, idle_seconds=5.0)
    async with InProcessTransport({BASE: app}):
        await clock.advance(0)
        assert driver.steps == 4
        await clock.advance(5.0)
        assert driver.steps == 5
        wake.set()
        await clock.advance(0)
        assert driver.steps == 6
    assert driver.steps == 6


async def test_without_background_a_driver_is_only_listed() -> None:
    app, driver = _app(_deps(background=False)), _Counter()
    add_driver(app, driver, idle_seconds=0.01)
    async with InProcessTransport({BASE: app}):
        await asyncio.sleep(0.02)
    assert driver.steps == 0
    assert app[DRIVERS] == [driver]


async def test_what_was_opened_is_closed_when_a_later_part_does_not_start() -> None:
    events: list[str] = []

    async def database(_app: web.Application) -> AsyncIterator[None]:
        events.append("opened")
        yield
        events.append("closed")

    async def broken(_app: web.Application) -> AsyncIterator[None]:
        if events:
            raise UsageError("no key file")
        yield

    app = _app()
    app.cleanup_ctx.extend([database, broken])
    with pytest.raises(UsageError, match="no key file"):
        await started(app, Listen()).__aenter__()
    assert events == ["opened", "closed"]


async def test_plain_http_is_refused_off_loopback_unless_asked_for() -> None:
    with pytest.raises(UsageError, match="plain HTTP"):
        async with started(_app(), Listen(host="0.0.0.0")):  # noqa: S104
            pass
    async with started(_app(), Listen(host="0.0.0.0"), insecure_http=True) as ready:  # noqa: S104
        assert ready.url.startswith("http://0.0.0.0:")


async def test_two_processes_share_a_port_where_both_agree_to() -> None:
    (port,) = free_ports(1)
    shared = Listen(port=port, reuse_port=True)
    async with started(_app(), shared) as one, started(_app(), shared) as other, HttpTransport() as http:
        assert one.url == other.url == f"http://127.0.0.1:{port}"
        assert (await http.request("GET", f"{one.url}/healthz")).status == 200
        with pytest.raises(UsageError, match="cannot bind"):
            await started(_app(), Listen(port=port)).__aenter__()
    with pytest.raises(ValidationError, match="reuse_port"):
        Listen(reuse_port=True)
