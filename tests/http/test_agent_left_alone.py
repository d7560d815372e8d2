"""A relay, log or leader that asks to be left alone for a while is left alone by devices (RFC 9110 section 10.2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from email.utils import formatdate

import pytest

from client_agent.journal import State
from infra.lab.kit.network import FaultyTransport
from tacit.ports import HttpResponse
from tests.http.agent_world import ALWAYS, World, leaves_of, only

MINUTES = 10


class Closed:
    """A network on which every answer, while there is one, is ``answer``; counts what devices sent."""

    def __init__(self, network: FaultyTransport) -> None:
        self.network = network
        self.answer: HttpResponse | None = None
        self.sent: dict[str, list[float]] = {}
        """When devices sent something, by the origin."""
        self.world: World | None = None

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        assert self.world is not None
        if self.answer is None:
            return await self.network.request(method, url, headers=headers, body=body)
        self.sent.setdefault(url.split("/")[2], []).append(self.world.clock.now())
        return self.answer


@pytest.fixture
def closed(world: World) -> Closed:
    found = Closed(world.network)
    found.world = world
    world.network = found  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_device_comes_back_no_sooner_than_the_relay_asks_for(
    world: World, closed: Closed, status: int, form: str
) -> None:
    """Whatever is due there: readings of the log, reports, models."""
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.sync()
    await agent.consider()
    entry = await only(store)
    world.clock.jump(max(0.0, entry.send_at - world.clock.now()))
    now = world.clock.now()
    said = "120" if form == "seconds" else formatdate(now + 120, usegmt=True)
    closed.answer = HttpResponse(status, {"retry-after": said, "date": formatdate(now, usegmt=True)}, b"")
    for _ in range(MINUTES * 60 // 5):
        await agent.step()
        agent.poll_within(1.0)
        world.clock.jump(5.0)
    assert len(closed.sent) == 2, "relay and attester"
    for times in closed.sent.values():
        assert 2 <= len(times) <= MINUTES / 2 + 1
        assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 120
    closed.answer = None
    for _ in range(MINUTES * 60 // 5):
        await agent.step()
        world.clock.jump(5.0)
    assert (await only(store)).state is State.SENT, "nothing was lost"
