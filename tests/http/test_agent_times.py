"""When a report is sent by a device that was off, and what it says of its time (P28)."""

from __future__ import annotations

from typing import Any

import pytest

from client_agent.journal import State
from client_agent.upload import MISSED_SECONDS
from infra.lab.kit.recipes import changed
from tacit.messages import UploadRequest
from tests.http.agent_world import ALWAYS, SLOT, World, leaves_of, only

TIMING: dict[str, Any] = {"timing": {"late_seconds": 600.0, "resume_seconds": 300.0}}


@pytest.mark.parametrize(("mode", "close"), [("time_interval", "interval_end"), ("leader_selected", "at_B")])
async def test_every_report_carries_the_beginning_of_the_interval_as_its_time(
    world: World, mode: str, close: str
) -> None:
    recipe = changed(changed(ALWAYS, "batch.mode", mode), "batch.close", close)
    world.log.add(*leaves_of(recipe))
    agent, store = await world.device()
    await agent.step()
    (report,) = UploadRequest.decode((await only(store)).report).reports
    assert report.report_metadata.time * recipe.batch.time_precision == recipe.interval.start


async def test_a_device_that_was_off_at_its_time_sends_at_another_random_moment_or_not_at_all(world: World) -> None:
    """Were it to send when it is back, its report would tell when it was back."""
    world.log.add(*leaves_of(ALWAYS))
    moments = []
    for _ in range(3):
        agent, store = await world.device(**TIMING)
        await agent.step()
        entry = await only(store)
        world.clock.jump(entry.send_at + 400 - world.clock.now())
        back = world.clock.now()
        before = len(world.uploads)
        due = await world.agent(store, **TIMING).send_due()
        planned = await only(store)
        assert len(world.uploads) == before
        assert planned.report == entry.report
        assert back < planned.send_at == due < back + 300
        moments.append(due - back)
        world.clock.jump(due - back)
        await world.agent(store, **TIMING).send_due()
        assert world.uploads[before:] == [entry.report]
        world.clock.set_back(world.clock.now() - ALWAYS.interval.start + 60)
    assert len(set(moments)) == 3


async def test_a_device_that_goes_off_after_a_try_that_failed_does_not_send_when_it_is_back(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(**TIMING)
    await agent.step()
    world.clock.jump((await only(store)).send_at - world.clock.now())
    world.network.partition(world.relay_url)
    await agent.send_due()
    failed = await only(store)
    assert (failed.state, failed.attempts) == (State.SCHEDULED, 1)
    world.network.heal()
    world.clock.jump(failed.send_at + MISSED_SECONDS + 1 - world.clock.now())
    back = world.clock.now()
    due = await world.agent(store, **TIMING).send_due()
    assert world.uploads == []
    assert back < due < back + 300
    world.clock.jump(due - back)
    await world.agent(store, **TIMING).send_due()
    assert world.uploads == [failed.report]


async def test_a_device_that_was_off_for_long_sends_nothing_and_keeps_its_token_spent(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(**TIMING)
    await agent.step()
    entry = await only(store)
    world.clock.jump(entry.send_at + 901 - world.clock.now())
    await agent.send_due()
    assert (await only(store)).state is State.EXPIRED
    assert world.uploads == []
    assert next(row for row in await store.prefetches() if row.slot == SLOT).spent


@pytest.mark.parametrize("behind", [0.0, MISSED_SECONDS])
async def test_a_device_that_was_on_sends_at_its_time(world: World, behind: float) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(**TIMING)
    await agent.step()
    entry = await only(store)
    world.clock.jump(entry.send_at + behind - world.clock.now())
    await agent.send_due()
    assert world.uploads == [entry.report]


async def test_a_recipe_that_is_met_late_costs_nothing_and_leaves_the_token(world: World) -> None:
    world.log.add(*leaves_of(changed(ALWAYS, "interval.start", ALWAYS.interval.start - 1_800)))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.charged_epsilon) == (State.INELIGIBLE, "")
    assert entry.detail.startswith("met, or its token fetched, after the first 25% of its interval (900 seconds)")
    assert next(row for row in await store.prefetches() if row.slot == SLOT).usable
