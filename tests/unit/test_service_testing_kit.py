"""The testing kit: the simulated clock and the networks with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock, settle
from infra.lab.kit.network import (
    DUPLICATE,
    LOSE_REQUEST,
    LOSE_RESPONSE,
    FaultyTransport,
    InProcessTransport,
    at,
    delay,
    matching,
)
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv, make_app

BASE = "http://service.example"
CALLS = web.AppKey("calls", list)


class _Nowhere:
    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise TransportError(f"{method} {url}")


async def _call(request: web.Request) -> web.Response:
    request.app[CALLS].append(request.match_info["name"])
    return web.Response(body=await request.read(), headers={"X-Count": str(len(request.app[CALLS]))})


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for part in (b"a" * 10, b"b" * 70_000):
        await response.write(part)
    await response.write_eof()
    return response


def _app() -> web.Application:
    app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), _Nowhere()), max_body=1 << 20)
    app[CALLS] = []
    app.router.add_post("/call/{name}", _call)
    app.router.add_get("/stream", _stream)
    return app


@pytest.fixture
async def app() -> web.Application:
    """The application on which the tests probe."""
    return _app()


@pytest.fixture
async def network(app: web.Application) -> AsyncIterator[InProcessTransport]:
    """A network with the probe application on it."""
    async with InProcessTransport({BASE: app}) as network:
        yield network


async def test_bodies_of_every_size_go_through_the_in_process_network(network: InProcessTransport) -> None:
    for size in (0, 1, 65_535, 65_536, 500_000):
        response = await network.request("POST", f"{BASE}/call/x", body=b"x" * size)
        assert (response.status, len(response.body)) == (200, size)
    streamed = await network.request("GET", f"{BASE}/stream")
    assert streamed.body == b"a" * 10 + b"b" * 70_000


async def test_many_requests_run_at_once(network: InProcessTransport, app: web.Application) -> None:
    await asyncio.gather(*(network.request("POST", f"{BASE}/call/{index}") for index in range(50)))
    assert len(app[CALLS]) == 50


async def test_an_origin_can_go_away_and_come_back(network: InProcessTransport, app: web.Application) -> None:
    await network.unmount(BASE)
    with pytest.raises(TransportError, match="no application"):
        await network.request("POST", f"{BASE}/call/x")
    await network.mount(BASE, _app())
    assert (await network.request("POST", f"{BASE}/call/x")).headers["x-count"] == "1"
    assert app[CALLS] == []


async def test_a_lost_request_is_not_acted_on_and_a_lost_response_is(
    network: InProcessTransport, app: web.Application
) -> None:
    faulty = FaultyTransport(network, at({0: LOSE_REQUEST, 1: LOSE_RESPONSE}))
    for name in ("first", "second"):
        with pytest.raises(TransportError, match="lost"):
            await faulty.request("POST", f"{BASE}/call/{name}")
    await faulty.request("POST", f"{BASE}/call/third")
    assert app[CALLS] == ["second", "third"]
    assert [exchange.index for exchange in faulty.exchanges] == [0, 1, 2]


async def test_a_duplicated_request_is_acted_on_twice(network: InProcessTransport, app: web.Application) -> None:
    faulty = FaultyTransport(network, matching("/call/twice", DUPLICATE, times=1, method="POST"))
    response = await faulty.request("POST", f"{BASE}/call/twice")
    await faulty.request("POST", f"{BASE}/call/twice")
    await faulty.request("POST", f"{BASE}/call/once")
    assert response.headers["x-count"] == "2"
    assert app[CALLS] == ["twice", "twice", "twice", "once"]


async def test_a_delayed_request_arrives_when_the_clock_says(network: InProcessTransport, app: web.Application) -> None:
    clock = SimClock()
    faulty = FaultyTransport(network, at({0: delay(30.0)}), clock=clock)
    late = asyncio.create_task(faulty.request("POST", f"{BASE}/call/late"))
    await clock.advance(29.0)
    await faulty.request("POST", f"{BASE}/call/early")
    await clock.advance(1.0)
    await late
    assert app[CALLS] == ["early", "late"]
    with pytest.raises(ValueError, match="clock"):
        await FaultyTransport(network, at({0: delay(1.0)})).request("POST", f"{BASE}/call/x")


async def test_a_partition_lasts_until_it_heals(network: InProcessTransport, app: web.Application) -> None:
    faulty = FaultyTransport(network)
    faulty.partition(BASE + "/anything")
    with pytest.raises(TransportError, match="lost"):
        await faulty.request("POST", f"{BASE}/call/x")
    faulty.heal()
    await faulty.request("POST", f"{BASE}/call/x")
    assert app[CALLS] == ["x"]


async def test_sleepers_wake_in_order_and_at_their_own_time() -> None:
    clock = SimClock(0.0)
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append((name, clock.now()))
        if name == "a":
            await sleeper("again", 1.0)

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("b", 3.0), ("a", 1.0), ("c", 9.0))]
    await clock.advance(5.0)
    assert seen == [("a", 1.0), ("again", 2.0), ("b", 3.0)]
    assert (clock.now(), clock.sleepers) == (5.0, 1)
    clock.jump(10.0)
    await settle()
    assert seen[-1] == ("c", 15.0)
    assert clock.now() == 15.0
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = SimClock(0.0)
    task = asyncio.create_task(clock.sleep(5.0))
    await settle()
    task.cancel()
    await settle()
    assert clock.sleepers == 0
    await clock.advance(10.0)
    await clock.sleep(0)
    assert clock.now() == 10.0


async def test_an_autojumping_clock_runs_through_a_year_at_once() -> None:
    clock = SimClock(0.0, autojump=0.001)
    for _ in range(12):
        await clock.sleep(30 * 86_400.0)
    await asyncio.gather(clock.sleep(5.0), clock.sleep(10.0))
    assert clock.now() == 360 * 86_400.0 + 10.0
