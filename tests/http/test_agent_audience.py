"""A device decides by its own attributes whether a recipe asks it, before it looks at anything else."""

from __future__ import annotations

from decimal import Decimal

import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource, Value
from client_agent.deciding import AgentEnv
from client_agent.journal import Entry, MemoryAgentStore, State
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import CENSUS_ATTRIBUTES
from tacit.messages import UploadRequest
from tacit.tlog.leaves import SignedLeaf
from tests.http.agent_world import KIT, Device, World, give_token, leaves_of, trouble

CENSUS = KIT.census(slot=1)
COUNTS = [250, 50, 50, 50, 50, 50]
SHARES = [KIT.census_share_leaf(CENSUS, role, sum(COUNTS), COUNTS) for role in ("leader", "helper")]
IN_GERMAN = KIT.recipe(name="in-german", criteria={"locale": "de", "os": "linux"}, rate=Decimal(1), min_batch_size=200)
POLICY = KIT.policy.model_copy(
    update={"attributes": dict(CENSUS_ATTRIBUTES), "min_audience": 100, "max_targeted_rate": "1"}
)


async def met(
    world: World, attributes: dict[str, str], min_audience: int = 100
) -> tuple[list[str], dict[bytes, Entry]]:
    """What a device with the first slot's token was asked for by the agent, and its journal by recipe."""
    looked: list[str] = []

    def read(metric: str) -> Value:
        looked.append(metric)
        return 3

    store = MemoryAgentStore()
    await give_token(store)
    deps = AgentEnv(world.clock, SeededEntropy(b"audience").child(str(next(world.numbers))), world.network)
    policy = POLICY.model_copy(update={"min_audience": min_audience})
    agent = Agent(world.config(attributes=attributes), policy, deps, store, CallableSource(read), Device())
    await agent.step()
    assert await trouble(store) == ""
    return looked, {entry.recipe_hash: entry for entry in await store.entries()}


async def test_a_device_of_the_audience_is_asked_for_its_datum(world: World) -> None:
    world.log.add(*leaves_of(CENSUS), *SHARES, *leaves_of(IN_GERMAN))
    looked, entries = await met(world, {"locale": "de", "os": "linux", "colour": "red"})
    assert looked == ["mdvis"]
    assert entries[IN_GERMAN.hash].state is State.SCHEDULED


@pytest.mark.parametrize(
    "attributes", [{}, {"locale": "de"}, {"locale": "de", "os": "mac"}, {"locale": "DE", "os": "linux"}]
)
async def test_a_device_outside_the_audience_does_not_even_look_at_its_datum(
    world: World, attributes: dict[str, str]
) -> None:
    world.log.add(*leaves_of(CENSUS), *SHARES, *leaves_of(IN_GERMAN))
    looked, entries = await met(world, attributes)
    entry = entries[IN_GERMAN.hash]
    assert (entry.state, entry.detail) == (State.INELIGIBLE, "outside the recipe's audience")
    assert (entry.charged_epsilon, entry.report, looked) == ("", b"", [])


@pytest.mark.parametrize(
    ("before", "words"),
    [([], "no census of the last 90 days"), ([*leaves_of(CENSUS), *SHARES], "at least 500 are needed")],
)
async def test_without_a_census_or_with_too_few_devices_a_device_refuses(
    world: World, before: list[SignedLeaf], words: str
) -> None:
    world.log.add(*before, *leaves_of(IN_GERMAN))
    looked, entries = await met(world, {"locale": "de", "os": "linux"}, min_audience=500)
    assert words in entries[IN_GERMAN.hash].detail
    assert looked == []


async def test_a_census_that_came_behind_the_recipe_does_not_count(world: World) -> None:
    world.log.add(*leaves_of(CENSUS), SHARES[0], *leaves_of(IN_GERMAN), SHARES[1])
    _, entries = await met(world, {"locale": "de", "os": "linux"})
    assert entries[IN_GERMAN.hash].state is State.REFUSED


async def test_a_census_is_answered_from_the_attributes_and_not_from_the_data(world: World) -> None:
    census = KIT.census()
    world.log.add(*leaves_of(census))
    looked, entries = await met(world, {"locale": "fr", "os": "mac"})
    entry = entries[census.hash]
    assert (entry.state, looked) == (State.SCHEDULED, [])
    assert len(UploadRequest.decode(entry.report).reports) == 1
    for lacking in ({"locale": "fr"}, {"locale": "it", "os": "mac"}):
        looked, entries = await met(world, lacking)
        without = entries[census.hash]
        assert (without.state, without.charged_epsilon, looked) == (State.SCHEDULED, entry.charged_epsilon, [])
        assert len(without.report) == len(entry.report)
