"""A device whose clock is days or years wrong for a while keeps its tokens, decides nothing, and says why (P37)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import MemoryAgentStore, State
from client_agent.seen_leaves import over_epoch
from infra.lab.kit.clock import SimClock
from infra.lab.kit.recipes import EPOCH
from tacit.errors import TacitError
from tacit.logview.live import LiveLog
from tacit.ports import TransportError
from tests.http.agent_world import ALWAYS, ENTROPY, KIT, Device, World, give_token, leaves_of

DAY = 86_400
JUMPS = {"-30 years": -30 * 365 * DAY, "-31 days": -31 * DAY, "-3 days": -3 * DAY, "+3 days": 3 * DAY,
         "+70 days": 70 * DAY, "+30 years": 30 * 365 * DAY}  # fmt: skip


@dataclass
class Stepped:
    """A device's clock, ``ahead`` of the right one, which also tells how much time has passed."""

    right: SimClock
    ahead: float = 0.0

    def now(self) -> float:
        return self.right.now() + self.ahead

    def steady(self) -> float:
        return self.right.steady()

    async def sleep(self, seconds: float) -> None:
        await self.right.sleep(seconds)


async def device(world: World, clock: Stepped) -> tuple[Agent, MemoryAgentStore]:
    store = MemoryAgentStore()
    await give_token(store)
    deps = AgentEnv(clock, ENTROPY.child("stepped"), world.network)
    return Agent(world.config(), world.policy, deps, store, CallableSource(lambda _metric: 3), Device()), store


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
@pytest.mark.parametrize("start", [False, True], ids=["running", "at start"])
async def test_a_wrong_clock_costs_a_device_neither_a_token_nor_a_decision(
    world: World, jump: float, start: bool
) -> None:
    world.log.add(*leaves_of(ALWAYS))
    clock = Stepped(world.clock)
    agent, store = await device(world, clock)
    if not start:
        await agent.sync()
    before = await store.prefetches()
    clock.ahead = jump
    for _ in range(3):
        with contextlib.suppress(TacitError, TransportError):
            await agent.sync()
        await agent.consider()
        agent.tick()
    assert await store.prefetches() == before
    assert await store.entries() == []
    clock.ahead = 0.0
    with contextlib.suppress(TransportError):  # it may date one request by how wrong the clock was
        await agent.sync()
    await agent.sync()
    await agent.consider()
    assert [entry.state for entry in await store.entries()] == [State.SCHEDULED]


def test_an_epoch_is_long_past_only_where_newer_directories_say_so() -> None:
    assert over_epoch(100, [100, 101]) == 99
    assert over_epoch(100, [100, 102]) == 99
    assert over_epoch(50_000, [100, 101]) == 99, "a clock far ahead forgets nothing"
    assert over_epoch(50, [100, 101]) == 49
    assert over_epoch(100, []) < 0


def test_a_clock_that_is_days_off_is_named_and_one_that_is_hours_off_is_not() -> None:
    live = LiveLog.from_leaves(enumerate([KIT.directory_leaf(EPOCH), KIT.directory_leaf(EPOCH + 1)]))
    for days, named in ((-3, True), (-0.5, False), (0, False), (0.9, False), (3, True)):
        said = live.clock_trouble("issuer.example", DAY, (EPOCH + days) * DAY)
        assert bool(said) is named, (days, said)
    said = live.clock_trouble("issuer.example", DAY, (EPOCH + 4.0) * DAY)
    assert said.startswith("the log's newest token keys are of 2024-10-05 00:00:00 UTC, this machine's clock says 2024")
    assert live.clock_trouble("other.example", DAY, 0.0) == ""
