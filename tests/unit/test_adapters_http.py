"""The HTTP adapter and the listener together: TLS, mutual TLS, bounds, what is sent and what is not; and
clocks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import origin_of, require_secure_url
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.errors import UsageError
from tacit.ports import TransportError
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.http.callers import CALLERS, Callers
from tacit.service.run import Ready, serve, started
from tests.certificates import Authority
from tests.kit.tokens import GivenTokens


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One certificate authority for all tests here."""
    return Authority(tmp_path_factory.mktemp("authority"), "ca")


async def _show(request: web.Request) -> web.Response:
    return web.json_response({"path": request.raw_path, "headers": sorted(name.lower() for name in request.headers)})


async def _authorization(request: web.Request) -> web.Response:
    return web.Response(text=request.headers.get("Authorization", "none"))


async def _large(_request: web.Request) -> web.Response:
    return web.Response(body=b"x" * 5000, headers={"Set-Cookie": "a=b"})


ENTERED = web.AppKey("entered", asyncio.Event)


async def _slow(request: web.Request) -> web.Response:
    request.app[ENTERED].set()
    await asyncio.sleep(0.3)
    return web.Response(text="done")


async def _peers_only(request: web.Request) -> web.Response:
    request.app[CALLERS].require(request, "attester")
    return web.Response(text="welcome")


def _app(listen: Listen | None = None, token: str | None = None) -> web.Application:
    callers = Callers(
        "probe",
        listen or Listen(),
        {"attester": None if token is None else GivenTokens(token)},
        local=frozenset({"attester"}),
    )
    app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport()), callers=callers)
    app.router.add_get("/show/{rest:.*}", _show)
    app.router.add_get("/authorization", _authorization)
    app.router.add_get("/large", _large)
    app[ENTERED] = asyncio.Event()
    app.router.add_get("/slow", _slow)
    app.router.add_get("/peers-only", _peers_only)
    return app


@pytest.fixture
async def plain() -> AsyncIterator[Ready]:
    """The probe application on plain loopback HTTP."""
    async with started(_app(token="loopback"), Listen(), grace_seconds=2) as ready:
        yield ready


async def test_a_response_over_the_bound_is_an_error_and_cookies_are_forgotten(plain: Ready) -> None:
    async with HttpTransport(max_response=4999) as http:
        with pytest.raises(TransportError, match="larger"):
            await http.request("GET", f"{plain.url}/large")
    async with HttpTransport(max_response=5000) as http:
        assert len((await http.request("GET", f"{plain.url}/large")).body) == 5000
        assert "cookie" not in (await http.request("GET", f"{plain.url}/show/")).body.decode()


async def test_a_url_may_have_a_bound_of_its_own_on_the_same_connection(plain: Ready) -> None:
    large = f"{plain.url}/large"
    async with HttpTransport(max_response=4999, max_responses={large: 5000}, connections=1) as http:
        for _ in range(2):
            assert len((await http.request("GET", large)).body) == 5000
            with pytest.raises(TransportError, match="larger"):
                await http.request("GET", f"{large}?other")


async def test_no_answer_is_a_transport_error(plain: Ready) -> None:
    async with HttpTransport(timeout=0.05) as http:
        with pytest.raises(TransportError, match="TimeoutError"):
            await http.request("GET", f"{plain.url}/slow")
        with pytest.raises(TransportError):
            await http.request("GET", "http://127.0.0.1:9/")


async def test_plain_http_goes_to_loopback_only() -> None:
    async with HttpTransport() as http:
        with pytest.raises(UsageError, match="loopback"):
            await http.request("GET", "http://192.0.2.1/")
    assert require_secure_url("http://relay.example/x", insecure_http=True) == "http://relay.example:80"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTP://LocalHost/a", "http://localhost:80"),
        ("https://a.example:8443/b?c", "https://a.example:8443"),
        ("https://[::1]/", "https://[::1]:443"),
    ],
)
def test_an_origin_is_written_in_one_way(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("url", ["ftp://a/", "//a", "https://", "https://u:p@a/", "https://a:99999/", "https://[::1"])
def test_what_is_not_a_web_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        origin_of(url)


async def test_tls_is_verified_against_the_given_authority(authority: Authority) -> None:
    certificate, key = authority.issue("server")
    async with started(_app(), Listen(tls_cert=certificate, tls_key=key), grace_seconds=2) as ready:
        assert ready.url.startswith("https://127.0.0.1:")
        async with HttpTransport(tls=ClientTls(ca=authority.certificate)) as http:
            assert (await http.request("GET", f"{ready.url}/healthz")).status == 200
        async with HttpTransport() as http:
            with pytest.raises(TransportError):
                await http.request("GET", f"{ready.url}/healthz")


async def test_a_certificate_of_the_callers_name_is_demanded_where_configured(authority: Authority) -> None:
    certificate, key = authority.issue("server")
    names = {"attester": ("attester", "spiffe://attester.example/service")}
    listen = Listen(tls_cert=certificate, tls_key=key, client_ca=authority.certificate, client_names=names)
    shown = [authority.issue("attester"), authority.issue("relay"), None]
    async with started(_app(listen), listen, grace_seconds=2) as ready:
        for files, status in zip(shown, (200, 401, 401), strict=True):
            async with HttpTransport(tls=ClientTls(authority.certificate, *(files or ()))) as http:
                assert (await http.request("GET", f"{ready.url}/peers-only")).status == status
                assert (await http.request("GET", f"{ready.url}/healthz")).status == 200


async def test_a_certificate_does_not_stand_in_for_the_bearer_token_that_is_configured_too(
    authority: Authority,
) -> None:
    certificate, key = authority.issue("server")
    listen = Listen(
        tls_cert=certificate, tls_key=key, client_ca=authority.certificate, client_names={"attester": ("attester",)}
    )
    relay, attester = (ClientTls(authority.certificate, *authority.issue(name)) for name in ("relay", "attester"))
    async with started(_app(listen, "loopback"), listen, grace_seconds=2) as ready:
        for tls, bearer, status in (
            (attester, "Bearer loopback", 200),
            (attester, "Bearer other", 401),
            (attester, "", 401),
            (relay, "Bearer loopback", 401),
            (ClientTls(authority.certificate), "Bearer loopback", 401),
        ):
            async with HttpTransport(tls=tls) as http:
                answer = await http.request("GET", f"{ready.url}/peers-only", headers={"Authorization": bearer})
                assert answer.status == status


@pytest.mark.parametrize(
    ("client_ca", "names", "says"),
    [
        (True, {}, r'add "attester": \["NAME"\]'),
        (True, {"attester": ("a",), "relay": ("b",)}, "no caller relay; it has attester"),
        (False, {"attester": ("a",)}, "needs client_ca"),
    ],
)
def test_the_names_of_callers_are_stated_for_every_role_and_no_other(
    authority: Authority, client_ca: bool, names: dict[str, tuple[str, ...]], says: str
) -> None:
    listen = Listen(client_ca=authority.certificate if client_ca else None, client_names=names)
    with pytest.raises(UsageError, match=says):
        _app(listen)


async def test_on_loopback_a_bearer_token_stands_in_for_the_certificate(plain: Ready) -> None:
    for bearer, status in (("Bearer loopback", 200), ("Bearer other", 401)):
        async with HttpTransport(origin_headers={plain.url: {"Authorization": bearer}}) as http:
            assert (await http.request("GET", f"{plain.url}/peers-only")).status == status
    origin = "http://127.0.0.1:1"
    app = _app(token="loopback")
    async with InProcessTransport({origin: app}, client_address="192.0.2.7") as network:
        response = await network.request("GET", f"{origin}/peers-only", headers={"Authorization": "Bearer loopback"})
        assert response.status == 401


async def test_wrong_tls_files_are_usage_errors(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    for listen in (
        Listen(tls_cert=certificate),
        Listen(client_ca=authority.certificate),
        Listen(tls_cert=certificate, tls_key=tmp_path / "none"),
        Listen(tls_cert=key, tls_key=key),
    ):
        with pytest.raises(UsageError, match="listen"):
            await started(_app(), listen).__aenter__()
    with pytest.raises(UsageError, match="CA"):
        ClientTls(ca=tmp_path / "none").context()


async def test_old_tls_is_refused(authority: Authority) -> None:
    assert ClientTls(ca=authority.certificate).context().minimum_version == ssl.TLSVersion.TLSv1_2


async def test_an_address_in_use_is_a_usage_error(plain: Ready) -> None:
    port = int(plain.url.rsplit(":", 1)[1])
    with pytest.raises(UsageError, match="cannot bind"):
        await started(_app(), Listen(port=port)).__aenter__()


async def test_serving_stops_on_a_signal_after_what_is_in_flight() -> None:
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    app = _app()
    server = asyncio.create_task(serve(app, Listen(), ready=ready.set_result, grace_seconds=30))
    url = (await ready).url
    async with HttpTransport() as http:
        slow = asyncio.create_task(http.request("GET", f"{url}/slow"))
        await app[ENTERED].wait()
        os.kill(os.getpid(), signal.SIGTERM)
        assert (await slow).body == b"done"
        await asyncio.wait_for(server, 60)
        with pytest.raises(TransportError):
            await http.request("GET", f"{url}/healthz")


_PROGRAM = """
import asyncio
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.run import serve

asyncio.run(serve(make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport())), Listen()))
"""


def test_a_process_prints_its_ready_line_and_ends_cleanly_on_ctrl_c() -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=120)
    assert line.keys() == {"service", "url", "pid"}
    assert (line["service"], line["pid"]) == ("probe", process.pid)
    assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.false_alarm(2**-256, "twice the same 32 bytes")
async def test_the_system_clock_and_entropy_are_real() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0.001)
    assert before > 1_600_000_000
    assert clock.now() >= before
    assert len(OsEntropy()(32)) == 32
    assert OsEntropy()(32) != OsEntropy()(32)


async def test_a_shifted_clock_runs_faster_and_jumps() -> None:
    base = SimClock(1000.0)
    clock = ShiftedClock(base, start=50_000.0, rate=60.0)
    sleeping = asyncio.create_task(clock.sleep(120.0))
    await base.advance(1.9)
    assert not sleeping.done()
    await base.advance(0.1)
    assert sleeping.done()
    assert clock.now() == pytest.approx(50_120.0)
    clock.jump(3600.0)
    assert clock.now() == pytest.approx(53_720.0)
    with pytest.raises(ValueError, match="backwards"):
        clock.jump(-1)
    with pytest.raises(ValueError, match="forward"):
        ShiftedClock(base, rate=0)


def test_seeded_entropy_repeats_itself_and_its_children_do_not_depend_on_use() -> None:
    first, second = SeededEntropy(7), SeededEntropy(7)
    assert [first(16), first(16)] == [second(16), second(16)]
    assert SeededEntropy(7)(16) != SeededEntropy(8)(16)
    assert first.child("a")(16) == SeededEntropy(7).child("a")(16)
    assert first.child("a")(16) != first.child("b")(16)
    assert SeededEntropy(b"seed")(5) == SeededEntropy(b"seed")(5)
