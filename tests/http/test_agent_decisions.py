"""A whole agent behind a real relay and gateway: when it takes part, and that it does so once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from client_agent.agent import Agent, journal_table
from client_agent.common import UPLOAD_RATE, Common
from client_agent.data.sources import CallableSource, Value
from client_agent.deciding import AgentEnv
from client_agent.journal import AgentStore, Fact, MemoryAgentStore, State, Trouble
from client_agent.store import SqlAgentStore
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import issuer_key
from tacit.errors import Refusal, UsageError
from tacit.messages import UploadRequest
from tacit.recipe.derive import task_of
from tacit.recipe.policy import UPLOADS
from tacit.service.base.config import Limits
from tacit.service.http.admission import LARGE_RATE
from tests.http.agent_world import (
    ALWAYS,
    KIT,
    NEVER_SAMPLED,
    SLOT,
    Device,
    World,
    give_token,
    leaves_of,
    only,
    trouble,
)

# Taking part


async def test_a_sampled_device_makes_one_report_inside_the_interval_and_sends_it_at_its_time(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert entry.state is State.SCHEDULED
    assert entry.charged_epsilon == ALWAYS.privacy.epsilon["aggregator"]
    assert ALWAYS.interval.start <= entry.send_at < ALWAYS.interval.end
    assert world.uploads == []
    await world.clock.advance(entry.send_at - world.clock.now())
    await agent.send_due()
    assert world.uploads == [entry.report]
    task = task_of(ALWAYS, issuer_key().token_key.spki)
    (report,) = UploadRequest.decode(entry.report).reports
    assert task.interval.contains(report.report_metadata.time)
    assert (await only(store)).state is State.SENT
    row = journal_table(await store.entries())[0]
    assert (row["recipe"], row["state"], row["attempts"]) == ("doctor-visits", "sent", 1)


async def test_a_used_token_leaves_the_device_with_the_next_poll(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    await agent.sync()
    row = next(row for row in await store.prefetches() if row.slot == SLOT)
    assert row.spent
    assert row.token == row.preimages == row.pending == b""


async def test_a_device_that_the_coin_leaves_out_is_charged_and_keeps_its_token(world: World) -> None:
    world.log.add(*leaves_of(NEVER_SAMPLED))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.report) == (State.NOT_SAMPLED, b"")
    assert entry.charged_epsilon == NEVER_SAMPLED.privacy.epsilon["aggregator"]
    assert next(row for row in await store.prefetches() if row.slot == SLOT).usable


@pytest.mark.parametrize(
    ("value", "is_told"),
    [(None, False), (-1, False), (10**400, False), ("many", True), ("NA", True), ("1,5", True), ("7\0", True),
     (float("nan"), True), ([1, 2], True), (True, True)],
)  # fmt: skip
async def test_a_device_without_a_fitting_datum_takes_part_and_is_charged_like_any_other(
    world: World, value: Value | None, is_told: bool
) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(value)
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.detail) == (State.SCHEDULED, "")
    assert entry.charged_epsilon == ALWAYS.privacy.epsilon["aggregator"]
    world.clock.jump(entry.send_at - world.clock.now())
    await agent.send_due()
    assert world.uploads == [entry.report]
    trouble = Trouble.decode(await store.fact(Fact.SOURCE_TROUBLE))
    assert (trouble and trouble.what) == ("mdvis: the value is not a number like 1234.5" if is_told else None)


async def test_an_unreadable_source_is_told_to_the_owner_and_is_no_reason_to_wait(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    asked = []

    def read(metric: str) -> Value:
        asked.append(metric)
        raise UsageError("data.csv: cannot read the data source")

    _, store = await world.device()
    deps = AgentEnv(world.clock, SeededEntropy(b"d"), world.network)
    agent = Agent(world.config(), KIT.policy, deps, store, CallableSource(read), Device())
    await agent.step()
    assert (await only(store)).state is State.SCHEDULED
    found = Trouble.decode(await store.fact(Fact.SOURCE_TROUBLE))
    assert found is not None
    assert "data.csv" in found.what
    await agent.step()
    assert asked == ["mdvis"], "asked once"


@pytest.mark.parametrize("most", UPLOADS)
async def test_no_request_is_larger_than_the_policy_of_its_device_says(world: World, most: int) -> None:
    deps = AgentEnv(world.clock, SeededEntropy(b"d"), world.network)
    policy = KIT.policy.model_copy(update={"max_upload": most})
    agent = Agent(world.config(), policy, deps, MemoryAgentStore(), CallableSource(lambda _: None), Device())
    await agent.sync()
    with pytest.raises(Refusal, match=f"at most {most} bytes"):
        await agent._client.request("POST", "http://127.0.0.1:1/", content=bytes(most))


async def test_a_device_sends_a_large_report_for_as_long_as_its_relay_lets_it(world: World) -> None:
    async with Common() as common:
        transport = await common.transport(world.config())
        assert transport._upload_rate == UPLOAD_RATE == LARGE_RATE * Limits().least_rate


# Once


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
async def test_steps_that_race_decide_once(world: World, storage: str, tmp_path: Path) -> None:
    world.log.add(*leaves_of(ALWAYS))
    store: AgentStore = MemoryAgentStore()
    if storage == "sqlite":
        store = await SqlAgentStore.open(tmp_path / "agent.sqlite3")
    await give_token(store)
    agents = [world.agent(store) for _ in range(3)]
    for agent in agents:
        await agent.sync()
    await asyncio.gather(*(agent.consider() for agent in agents for _ in range(2)))
    entry = await only(store)
    await world.clock.advance(entry.send_at - world.clock.now())
    await asyncio.gather(agents[0].send_due(), agents[0].send_due())
    assert world.uploads == [entry.report]
    if isinstance(store, SqlAgentStore):
        await store.close()


async def test_after_a_crash_the_decided_report_is_sent_even_while_the_log_is_away(
    world: World, tmp_path: Path
) -> None:
    world.log.add(*leaves_of(ALWAYS))
    path = tmp_path / "agent.sqlite3"
    store = await SqlAgentStore.open(path)
    await give_token(store)
    agent = world.agent(store)
    await agent.step()
    entry = await only(store)
    await store.close()
    store = await SqlAgentStore.open(path)
    agent = world.agent(store)
    world.log.status = 503
    await world.clock.advance(entry.send_at - world.clock.now())
    await agent.step()
    assert world.uploads == [entry.report]
    assert (await only(store)).state is State.SENT
    assert "503" in await trouble(store)
    await store.close()
