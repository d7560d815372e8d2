"""A device decides only within two days of having read the log, whatever its clock says (P21)."""

from __future__ import annotations

import pytest

from client_agent.agent import READ_WITHIN
from client_agent.journal import State
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, changed
from tacit.tokens.slots import Slot
from tests.http.agent_world import ALWAYS, KIT, World, give_token, leaves_of, only

AHEAD = EPOCH + 3
FAR = changed(
    changed(ALWAYS, "token", {"issuer": "issuer.example", "epoch": AHEAD, "slot": 0}),
    "interval",
    {"start": AHEAD * EPOCH_SECONDS, "duration": 3_600},
)


@pytest.mark.parametrize(("jump", "decides"), [(0.0, True), (READ_WITHIN - 60, True), (READ_WITHIN + 60, False)])
async def test_a_device_whose_clock_is_two_days_beyond_its_last_look_at_the_log_decides_nothing_before_the_next(
    world: World, jump: float, decides: bool
) -> None:
    """A clock that jumps ahead would free its ledger, and decide about recipes of a time that has not come."""
    world.log.add(KIT.directory_leaf(AHEAD), *leaves_of(FAR))
    agent, store = await world.device()
    await give_token(store, Slot("issuer.example", AHEAD, 0))
    await agent.sync()
    world.clock.jump(jump)
    await agent.consider()
    assert bool(await store.entries()) is decides
    await agent.sync()
    await agent.consider()
    assert (await only(store)).state is State.SCHEDULED


async def test_a_device_that_has_not_read_the_log_since_its_start_decides_nothing(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.consider()
    assert await store.entries() == []
