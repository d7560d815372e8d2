"""The relay over real HTTP: what it refuses, what it lets through, what it never says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from relay.app import create_app, make_transport
from relay.config import RelayConfig
from relay.handlers import RELAY
from tacit import __version__
from tacit.adapters.network.http import HttpTransport
from tacit.errors import UsageError
from tacit.media_types import OHTTP_REQ, OHTTP_RES, PROBLEM_JSON
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.config_files import parse_config
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started

CLIENT = "127.0.0.77"
MESSAGE = bytes(range(256)) * 16
ANSWER = HttpResponse(200, {"content-type": OHTTP_RES}, b"sealed answer")
Gateway = Callable[[], Awaitable[HttpResponse]]


@dataclass
class RecordingTransport:
    """Keeps what the relay sent; answers what the test wants."""

    answer: Gateway
    sent: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((method, url, dict(headers or {}), body))
        return await self.answer()


@dataclass
class RecordingObserver:
    """Keeps what the relay says that it saw."""

    seen: list[tuple[str, Mapping[str, str | int]]] = field(default_factory=list)

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        self.seen.append((party, what))


@dataclass
class Running:
    """A relay that listens, and a client that calls it from a planted address."""

    url: str
    app: web.Application
    transport: RecordingTransport
    observer: RecordingObserver
    clock: SimClock
    session: aiohttp.ClientSession

    async def post(self, body: Any = MESSAGE, **changed: Any) -> aiohttp.ClientResponse:
        headers = {"Content-Type": OHTTP_REQ, **changed.pop("headers", {})}
        path = changed.pop("path", "/")
        response = await self.session.request(
            changed.pop("method", "POST"), self.url + path, data=body, headers=headers, **changed
        )
        await response.read()
        return response


Start = Callable[..., Awaitable[Running]]


async def answering() -> HttpResponse:
    return ANSWER


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def run(gateway: Gateway = answering, **changed: Any) -> Running:
            write_secret(tmp_path / "bearer", b"relay-credential\n")
            data = {
                "state_dir": str(tmp_path),
                "gateway_url": "http://127.0.0.1:9",
                "gateway_bearer": str(tmp_path / "bearer"),
                **changed,
            }
            clock, observer, transport = SimClock(), RecordingObserver(), RecordingTransport(gateway)
            deps = ServiceEnv(clock, SeededEntropy(1), transport, observer, background=False)
            app = create_app(parse_config(data, RelayConfig), deps)
            ready = await stack.enter_async_context(started(app, Listen(), grace_seconds=0.1))
            connector = aiohttp.TCPConnector(local_addr=(CLIENT, 0))
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            return Running(ready.url, app, transport, observer, clock, session)

        yield run


async def test_only_media_type_and_body_reach_the_gateway(start: Start) -> None:
    relay = await start()
    tells = {
        "X-Forwarded-For": CLIENT,
        "Forwarded": f"for={CLIENT}",
        "Via": "1.1 a",
        "Cookie": "id=1",
        "User-Agent": "agent",
        "Authorization": "Bearer client",
        "X-Device": "device",
    }
    response = await relay.post(headers=tells)
    assert (response.status, await response.read()) == (200, ANSWER.body)
    assert relay.transport.sent == [
        (
            "POST",
            "http://127.0.0.1:9/gateway",
            {"Content-Type": OHTTP_REQ, "Authorization": "Bearer relay-credential"},
            MESSAGE,
        )
    ]


async def test_only_listed_response_headers_come_back(start: Start) -> None:
    tells = {"set-cookie": "id=1", "server": "x", "via": "1.1 g", "etag": "e", "x-other": "y"}

    async def gateway() -> HttpResponse:
        return HttpResponse(200, {"content-type": OHTTP_RES, **tells}, b"")

    response = await (await start(gateway)).post()
    assert {name.lower() for name in response.headers} == {
        "content-type",
        "content-length",
        "cache-control",
        "x-content-type-options",
        "date",
    }


async def test_real_connection_to_the_gateway_carries_no_trace_of_the_client(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    async def gateway(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.Response(body=await request.read(), headers={"Content-Type": OHTTP_RES})

    peer = web.Application()
    peer.router.add_post("/gateway", gateway)
    runner = web.AppRunner(peer, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = RelayConfig(
        state_dir=tmp_path, gateway_url=f"http://127.0.0.1:{runner.addresses[0][1]}", gateway_timeout=5
    )
    async with make_transport(config) as transport:
        app = create_app(config, ServiceEnv(SimClock(), SeededEntropy(1), transport, background=False))
        async with started(app, Listen()) as ready, HttpTransport() as client:
            headers = {"Content-Type": OHTTP_REQ, "X-Forwarded-For": CLIENT}
            response = await client.request("POST", ready.url + "/", headers=headers, body=MESSAGE)
    await runner.cleanup()
    assert response.body == MESSAGE
    assert [set(headers) for headers in seen] == [{"Host", "Content-Type", "Content-Length"}]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"method": "GET"}, 400),
        ({"method": "GET", "body": b""}, 405),
        ({"method": "PUT"}, 405),
        ({"path": "/other"}, 404),
        ({"path": "/?device=1"}, 404),
        ({"headers": {"Content-Type": "application/octet-stream"}}, 415),
        ({"headers": {"Content-Type": "message/ohttp-chunked-req"}}, 415),
        ({"headers": {"Content-Encoding": "gzip"}}, 415),
        ({"headers": {"Expect": "200-maybe"}}, 417),
        ({"body": bytes(262145)}, 413),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_bad_requests_are_refused_and_go_nowhere(start: Start, changed: dict[str, Any], status: int) -> None:
    relay = await start()
    response = await relay.post(**changed)
    assert response.status == status
    assert response.headers["Content-Type"] == PROBLEM_JSON
    assert relay.transport.sent == []


async def test_an_oversized_body_without_a_length_is_cut_off(start: Start) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(20000)

    relay = await start()
    response = await relay.post(body=chunks())
    assert response.status == 413
    assert relay.transport.sent == []


async def test_a_declared_oversize_is_refused_before_the_body_is_sent(start: Start) -> None:
    relay = await start()
    host, port = relay.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST / HTTP/1.1\r\nHost: r\r\nContent-Type: message/ohttp-req\r\n")
    writer.write(b"Content-Length: 999999999\r\n\r\n")
    async with asyncio.timeout(30):
        line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert b"413" in line


async def _refused() -> HttpResponse:
    raise TransportError("refused")


async def _timed_out() -> HttpResponse:
    raise TransportError("late") from TimeoutError()


async def _hanging() -> HttpResponse:
    await asyncio.sleep(30)
    return ANSWER


@pytest.mark.parametrize(
    ("gateway", "status"), [(_refused, 502), (_timed_out, 504), (_hanging, 504)], ids=["refused", "timeout", "hanging"]
)
async def test_a_gateway_that_does_not_answer_gives_a_problem_without_details(
    start: Start, gateway: Gateway, status: int
) -> None:
    relay = await start(gateway, gateway_timeout=0.05)
    response = await relay.post()
    assert response.status == status
    document = await response.json(content_type=PROBLEM_JSON)
    assert document == {
        "type": "urn:tacit:problem:gateway-unreachable",
        "status": status,
        "title": "The gateway did not answer.",
    }
    assert len(relay.transport.sent) == 1, "nothing is retried"


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(200, {"content-type": "text/html"}, b"x"),
        HttpResponse(200, {}, b"x"),
        HttpResponse(302, {"location": "http://elsewhere/", "content-type": OHTTP_RES}, b""),
        HttpResponse(401, {"content-type": PROBLEM_JSON}, b"{}"),
        HttpResponse(500, {"content-type": PROBLEM_JSON}, b"{}"),
        HttpResponse(200, {"content-type": OHTTP_RES}, bytes(262145)),
    ],
    ids=["html", "no type", "redirect", "unauthorized", "internal error", "too large"],
)
async def test_answers_that_no_gateway_gives_become_502(start: Start, answer: HttpResponse) -> None:
    async def gateway() -> HttpResponse:
        return answer

    response = await (await start(gateway)).post()
    assert response.status == 502
    assert "location" not in response.headers


async def test_a_problem_of_the_gateway_passes_with_its_retry_after(start: Start) -> None:
    async def gateway() -> HttpResponse:
        return HttpResponse(503, {"content-type": PROBLEM_JSON, "retry-after": "7"}, b'{"status":503}')

    response = await (await start(gateway)).post()
    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert await response.read() == b'{"status":503}'


async def test_above_the_byte_budget_clients_get_503_with_jitter(start: Start) -> None:
    called, release = asyncio.Event(), asyncio.Event()

    async def gateway() -> HttpResponse:
        called.set()
        await release.wait()
        return ANSWER

    relay = await start(gateway, max_in_flight=262144 + len(MESSAGE))
    first = asyncio.create_task(relay.post())
    await called.wait()
    refused = [await relay.post() for _ in range(12)]
    release.set()
    assert (await first).status == 200
    assert {response.status for response in refused} == {503}
    delays = {int(response.headers["Retry-After"]) for response in refused}
    assert len(delays) > 1
    assert delays <= set(range(2, 21))
    assert (await relay.post()).status == 200, "the budget is given back"
    assert relay.app[RELAY].budget.in_flight == 0


async def test_logs_hold_counters_per_bucket_and_never_an_address(
    start: Start, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    relay = await start()
    for _ in range(3):
        await relay.post()
    await relay.post(path="/nowhere")
    await relay.post(headers={"Content-Type": "text/plain"})
    await relay.clock.advance(300)
    assert sum([await driver.step() for driver in relay.app[DRIVERS]]) == 1
    captured = capfd.readouterr()
    logged = captured.out + captured.err + caplog.text
    assert CLIENT not in logged
    assert "127.0.0.1" not in logged
    lines = [line for line in captured.err.splitlines() if line]
    assert len(lines) == 1, "one line for the bucket, none per request"
    assert '"forwarded": 3' in lines[0]
    assert '"status_415": 1' in lines[0]
    assert relay.app[RELAY].counters.totals() == {}


async def test_observer_learns_address_and_size_and_nothing_else(start: Start) -> None:
    relay = await start()
    await relay.post()
    assert relay.observer.seen == [("relay", {"client_address": CLIENT, "ciphertext_bytes": len(MESSAGE)})]


@pytest.mark.parametrize("frames", [None, {"max_bytes": 1 << 19}])
async def test_large_requests_pass_alone_and_only_where_they_are_configured(start: Start, frames: object) -> None:
    relay = await start(max_request=4 << 20, frames=frames)
    assert (await relay.post(body=BytesIO(bytes(4 << 20)))).status == 200
    assert (await relay.post(body=BytesIO(bytes((4 << 20) + 1)))).status == 413
    ((_, url, headers, body),) = relay.transport.sent
    assert (url, headers["Content-Type"], len(body)) == ("http://127.0.0.1:9/gateway", OHTTP_REQ, 4 << 20)
    assert (await (await start()).post(body=bytes(262145))).status == 413


async def test_large_requests_leave_half_of_the_byte_budget_to_the_others(start: Start) -> None:
    called, release = asyncio.Event(), asyncio.Event()

    async def gateway() -> HttpResponse:
        called.set()
        await release.wait()
        return ANSWER

    large = bytes(1 << 20)
    relay = await start(gateway, max_request=1 << 20, max_in_flight=3 * (262144 + len(large)))
    first = asyncio.create_task(relay.post(body=BytesIO(large)))
    await called.wait()
    assert (await relay.post(body=BytesIO(large))).status == 503, "there is room for it, but not for such"
    called.clear()
    other = asyncio.create_task(relay.post())
    await called.wait()
    release.set()
    assert [(await one).status for one in (first, other)] == [200, 200]
    assert (await relay.post(body=BytesIO(large))).status == 200, "both budgets are given back"
    assert relay.app[RELAY].budget.in_flight == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"gateway_url": "http://gateway.example"},
        {"gateway_url": "ftp://127.0.0.1"},
        {"retry_after_least": 30},
        {"gateway_bearer": "/nonexistent"},
        {"max_request": 4 << 20, "max_in_flight": 8 << 20},
    ],
    ids=str,
)
async def test_a_configuration_that_cannot_be_safe_is_refused(start: Start, changed: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        await start(**changed)


async def test_health_check_names_the_service(start: Start) -> None:
    relay = await start()
    response = await relay.session.get(relay.url + "/healthz")
    assert await response.json() == {"status": "ok", "service": "relay", "version": __version__}
