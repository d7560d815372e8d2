"""Devices date their requests by the relay's time: no gateway tells them apart by their clocks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from client_agent.oblivious import ObliviousClient
from services.gateway.targets import request_date
from tacit.bhttp import Fields
from tacit.ports import Clock, HttpResponse, Transport, TransportError
from tests.http import test_agent_upload
from tests.http.test_agent_upload import ENTROPY, RELAY, World, get

world = test_agent_upload.world


async def test_a_wrong_clock_is_told_to_the_owner_and_then_the_relays_is_followed(world: World) -> None:
    world.client = device_with(world, _Wrong(world.pair.clock, -3600))
    with pytest.raises(TransportError, match="this device's clock or the relay's is wrong"):
        await get(world)
    assert await get(world) == 404


@pytest.mark.parametrize("error", [-300, -40, 40, 300])
async def test_the_dates_of_a_device_whose_clock_is_wrong_are_those_of_all_devices(
    world: World, error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    dates: list[Fields] = []

    def seen(fields: Fields, now: float, window: int) -> int:
        dates.append(fields)
        return request_date(fields, now, window)

    monkeypatch.setattr("services.gateway.service.request_date", seen)
    wrong, right = device_with(world, _Wrong(world.pair.clock, error)), world.client
    for _ in range(4):
        for world.client in (wrong, right):
            await get(world)
        world.pair.clock.jump(61)
    assert [dates[2 * turn] == dates[2 * turn + 1] for turn in range(1, 4)] == [True] * 3


async def test_a_relay_whose_clock_is_wrong_makes_no_date_wrong_for_long(world: World) -> None:
    relays = _Answers(world.network, "Sat, 01 Jan 2000 00:00:00 GMT")
    world.client = device_with(world, world.pair.clock, relays)
    assert await get(world) == 404
    with pytest.raises(TransportError, match="or the relay's is wrong"):
        await get(world)
    assert [await get(world) for _ in range(3)] == [404] * 3


@pytest.mark.parametrize(
    "date", ["", "now", "x" * 10_000, "Sat, 32 Jan 2000 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
async def test_no_date_of_a_relay_stops_a_device(world: World, date: str) -> None:
    world.client = device_with(world, world.pair.clock, _Answers(world.network, date))
    with contextlib.suppress(TransportError):
        await get(world)
        await get(world)
    assert await get(world) == 404


def device_with(world: World, clock: Clock, network: Transport | None = None) -> ObliviousClient:
    """Another device, with a clock of its own."""
    return ObliviousClient(network or world.network, RELAY, [world.gateway.ring.active.config], clock, ENTROPY)


class _Answers:
    """The network, where the relay's answers have another date."""

    def __init__(self, inner: Transport, date: str) -> None:
        self._inner, self._date = inner, date

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        answer = await self._inner.request(method, url, headers=headers, body=body)
        return replace(answer, headers={**answer.headers, "date": self._date})


class _Wrong:
    """A clock that is ahead of ``right`` by some seconds."""

    def __init__(self, right: Clock, ahead: float) -> None:
        self._right, self._ahead = right, ahead

    def now(self) -> float:
        return self._right.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await self._right.sleep(seconds)
