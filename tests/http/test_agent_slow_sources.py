"""A data source that takes longer for some values than for others: nothing that leaves the device depends on it (P27,
P28)."""

from __future__ import annotations

import threading

import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, first_start
from client_agent.journal import Entry, MemoryAgentStore, State
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH
from infra.lab.kit.reports import issuer_key
from tacit.codec import b64url
from tacit.recipe.model import Recipe
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.token_directories import SlotKey
from tacit.tokens.slots import Slot
from tests.http.agent_world import ALWAYS, KIT, SLOT, Device, World, give_token, leaves_of

SECOND = Slot("issuer.example", EPOCH, 1)
OTHER = KIT.recipe(name="the-other-one", rate=1, min_batch_size=200, slot=1)


async def decided(world: World, seconds: float, *recipes: Recipe) -> dict[str, Entry]:
    """The journal of a device that met ``recipes`` at once, and whose source takes ``seconds`` for each."""
    keys = [issuer_key(number).token_key.spki for number in range(2)]
    slots = [SlotKey(slot=number, token_key=b64url(key)) for number, key in enumerate(keys)]
    directory = KIT.directory().model_copy(update={"keys": slots})
    world.log.leaves.remove(KIT.directory_leaf().encode())
    world.log.add(sign_leaf(LeafType.ISSUER_DIRECTORY, directory, "issuer.example", KIT.keys["issuer"]))
    world.log.add(*(leaf for recipe in recipes for leaf in leaves_of(recipe)))
    store, lock = MemoryAgentStore(), threading.Lock()
    for number, slot in enumerate((SLOT, SECOND)):
        await give_token(store, slot, issuer_key(number))

    def slow(_metric: str) -> int:
        with lock:
            world.clock.jump(seconds)
        return 3

    deps = AgentEnv(world.clock, SeededEntropy(b"slow"), world.network)
    agent = Agent(world.config(), KIT.policy, deps, store, CallableSource(slow), Device())
    await agent.sync()
    await agent.consider()
    return {entry.name: entry for entry in await store.entries()}


@pytest.mark.parametrize("seconds", [0.0, 8.0])
async def test_whether_a_device_answers_one_recipe_does_not_depend_on_how_long_its_source_takes_for_another(
    world: World, seconds: float
) -> None:
    """Both are met in time, the last moments of their first quarter; who needs long for one answer is not late for the
    other."""
    world.clock.jump(first_start(ALWAYS) - 1 - world.clock.now())
    made = await decided(world, seconds, ALWAYS, OTHER)
    assert {name: entry.state for name, entry in made.items()} == {
        ALWAYS.name: State.SCHEDULED,
        OTHER.name: State.SCHEDULED,
    }


async def test_a_report_that_is_due_does_not_wait_for_decisions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one process does everything in one step, as with ``--once``."""
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    (entry,) = await store.entries()
    world.clock.jump(entry.send_at - world.clock.now())
    sent = []

    async def considered(_agent: Agent) -> None:
        sent.append(len(world.uploads))

    monkeypatch.setattr(Agent, "consider", considered)
    await agent.work()
    assert sent == [1]
