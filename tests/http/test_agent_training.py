"""A device and a round that trains a model: all fetch the model alike, train before the coin, and wait for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource, Value
from client_agent.deciding import AgentEnv, first_start
from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, State, Trouble
from infra.lab.kit.learning import LEARNING, METRIC, Model, model_of, training_series
from infra.lab.kit.network import LOSE_REQUEST
from infra.lab.kit.recipes import URLS
from tacit.recipe.model import Recipe
from tests.http.agent_world import ENTROPY, KIT, Device, World, leaves_of
from tests.http.test_agent_series import charged, hold_token, hold_tokens

SERIES = training_series(KIT, rate=1)
MODEL, OTHER = model_of(LEARNING, seed=1), model_of(LEARNING, seed=2)
EXAMPLES: list[str | int | float | bool] = [0.5, -1, 0, 2.0, 0.25, 1]
"""Two points of the plane, of class 0 and of class 1."""
BESIDE = KIT.recipe(name="beside", rate=1, min_batch_size=200, slot=3)
"""A recipe that trains nothing."""


@pytest.fixture(autouse=True)
def _policy(world: World) -> None:
    world.policy = KIT.policy.model_copy(update={"allow_unbounded_local": True})


def published(world: World, model: Model = MODEL, index: int = 0) -> Recipe:
    """A round that trains ``model``, in the log; its file is not handed out yet."""
    recipe = KIT.round(SERIES, index, model.stated().text())
    if index == 0:
        world.log.add(KIT.series_leaf(SERIES))
    world.log.add(*leaves_of(recipe))
    return recipe


async def device(world: World, value: Value | None = EXAMPLES, **options: Any) -> tuple[Agent, MemoryAgentStore]:
    store = MemoryAgentStore()
    await hold_tokens(store, SERIES)
    return world.agent(store, value, **options), store


async def looked(agent: Agent) -> None:
    """The agent reads the log and decides."""
    await agent.sync()
    await agent.consider()


async def entries_of(store: AgentStore) -> dict[str, Entry]:
    """The journal's entries by the recipe's name."""
    return {entry.name: entry for entry in await store.entries()}


async def states_of(store: AgentStore) -> dict[str, State]:
    return {entry.name: entry.state for entry in await store.entries()}


async def trouble(store: AgentStore, fact: Fact = Fact.MODEL_TROUBLE) -> str:
    found = Trouble.decode(await store.fact(fact))
    return found.what if found else ""


async def test_whatever_a_device_has_it_asks_for_the_same_models_at_the_same_readings(world: World) -> None:
    """With and without examples, tokens and budget, before and after its decision."""
    published(world)
    world.log.hold(MODEL)
    usual, store = await device(world)
    without_data, _ = await device(world, None)
    without_budget, _ = await device(world, budget={"epsilon": "0.001"})
    again = world.agent(store)
    asked = []
    for agent in (usual, again, without_data, without_budget, world.agent(MemoryAgentStore())):
        for _ in range(2):
            await looked(agent)
        asked.append(world.log.asked[:])
        world.log.asked.clear()
    assert asked == [[f"{MODEL.stated().path}/0"]] * 5


async def test_a_round_waits_for_its_model_and_nothing_else_waits_with_it(world: World) -> None:
    recipe = published(world)
    world.log.add(*leaves_of(BESIDE))
    agent, store = await device(world)
    await hold_token(store, BESIDE.token)
    await looked(agent)
    assert await states_of(store) == {BESIDE.name: State.SCHEDULED}
    assert await store.draw(SERIES.hash) is None
    assert await trouble(store) == f"{recipe.name}: the recipe server does not have its model yet"
    assert await trouble(store, Fact.LOG_TROUBLE) == ""
    world.log.hold(MODEL)
    await looked(agent)
    entry = (await entries_of(store))[recipe.name]
    assert entry.state is State.SCHEDULED
    assert entry.send_at > first_start(recipe)
    assert await trouble(store) == ""


async def test_a_device_that_never_gets_the_model_takes_no_part_and_pays_nothing(world: World) -> None:
    first = published(world)
    asked: list[str] = []
    store = MemoryAgentStore()
    await hold_tokens(store, SERIES)
    deps = AgentEnv(world.clock, ENTROPY.child("withheld"), world.network)
    agent = Agent(world.config(), world.policy, deps, store, CallableSource(asked.append), Device())
    await looked(agent)
    world.clock.jump(first_start(first) + 1 - world.clock.now())
    world.log.hold(MODEL)
    await looked(agent)
    entry = (await entries_of(store))[first.name]
    assert entry.state is State.INELIGIBLE
    assert "model fetched, after" in entry.detail
    assert (charged(await store.entries()), await store.draw(SERIES.hash), asked) == ([], None, [])
    second = KIT.round(SERIES, 1)
    world.clock.jump(second.interval.start - world.clock.now())
    world.publish_keys()
    published(world, MODEL, 1)
    await looked(agent)
    assert len(charged(await store.entries())) == 1
    assert asked == [METRIC]


def spoilt(model: Model) -> bytes:
    return model.file[:-1] + bytes([model.file[-1] ^ 1])


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (spoilt(MODEL), "the file is not the model that the log names"),
        (MODEL.file[:-1], "a piece of its model has the wrong length"),
        (MODEL.file + b"\0", "a piece of its model has the wrong length"),
    ],
)
async def test_another_file_is_no_model_and_is_asked_for_again(world: World, file: bytes, words: str) -> None:
    recipe = published(world)
    world.log.models[MODEL.stated().path] = file
    agent, store = await device(world)
    await looked(agent)
    assert await store.entries() == []
    assert await trouble(store) == f"{recipe.name}: {words}"
    world.log.hold(MODEL)
    await looked(agent)
    assert await states_of(store) == {recipe.name: State.SCHEDULED}


async def test_a_file_of_numbers_that_are_none_is_never_trained(world: World) -> None:
    """The log names it, so it is the same for all devices: none of them pays for a round that cannot be trained."""
    endless = Model(MODEL.file[:-4] + np.array([np.inf], "<f4").tobytes())
    published(world, endless)
    world.log.hold(endless)
    agent, store = await device(world)
    await looked(agent)
    assert await store.entries() == []
    assert "not a finite number" in await trouble(store)


async def test_a_request_that_is_lost_breaks_neither_the_log_nor_another_model(world: World) -> None:
    recipe = published(world)
    world.log.hold(MODEL)
    agent, store = await device(world)
    requests = [0]

    def plan(exchange: Any) -> Any:
        requests[0] += exchange.url == URLS["relay"]
        return LOSE_REQUEST if requests[0] == 4 else None

    world.network.plan = plan
    assert await agent.sync() == ""
    assert "lost" in await trouble(store)
    await looked(agent)
    assert await states_of(store) == {recipe.name: State.SCHEDULED}


async def test_a_model_in_pieces_is_asked_for_in_order_and_from_the_beginning_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tacit.recipe.training", "client_agent.learning.model_files", "tests.http.agent_world"):
        monkeypatch.setattr(f"{module}.MODEL_PIECE", 16)
    recipe, path = published(world), MODEL.stated().path
    world.log.models[path] = MODEL.file[:20]
    agent, store = await device(world)
    await agent.sync()
    assert world.log.asked == [f"{path}/0", f"{path}/1"]
    world.log.hold(MODEL)
    await looked(agent)
    assert world.log.asked[2:] == [f"{path}/0", f"{path}/1", f"{path}/2"]
    assert await states_of(store) == {recipe.name: State.SCHEDULED}


async def test_an_agent_that_starts_again_before_its_decision_fetches_again_and_decides_once(world: World) -> None:
    recipe = published(world)
    world.log.hold(MODEL)
    agent, store = await device(world)
    await agent.sync()
    again = world.agent(store, EXAMPLES)
    await again.consider()
    assert await store.entries() == []
    await looked(again)
    await looked(again)
    assert await states_of(store) == {recipe.name: State.SCHEDULED}
    assert len(world.log.asked) == 2
    assert len(charged(await store.entries())) == 1


async def test_every_round_trains_its_own_model_for_one_charge_and_forgets_it(world: World) -> None:
    agent, store = await device(world)
    first = published(world, MODEL)
    world.log.hold(MODEL)
    world.log.hold(OTHER)
    await looked(agent)
    second = KIT.round(SERIES, 1)
    world.clock.jump(second.interval.start - world.clock.now())
    world.publish_keys()
    published(world, OTHER, 1)
    await looked(agent)
    states = [entry.state for entry in await store.entries()]
    assert states == [State.SCHEDULED, State.SCHEDULED]
    assert charged(await store.entries()) == [(SERIES.claim.epsilon["aggregator"], SERIES.claim.delta)]
    third = KIT.round(SERIES, 2)
    world.clock.jump(third.interval.start - world.clock.now())
    world.publish_keys()
    published(world, MODEL, 2)
    await looked(agent)
    paths = [model.stated().path for model in (MODEL, OTHER, MODEL)]
    assert world.log.asked == [f"{path}/0" for path in paths]
    assert first.name == (await store.entries())[0].name


@pytest.mark.parametrize(
    "value",
    [None, [], [0.5, -1], [0.5, -1, 2], [float("nan"), 0, 1], "strokes", ["a", "b", "c"], [0.5, -1, 1e400], 7],
    ids=repr,
)
async def test_a_device_without_examples_does_what_one_with_examples_does(world: World, value: Value | None) -> None:
    """Same state, charge and time of sending, a report of the same length: nothing tells that there is no update."""
    published(world)
    world.log.hold(MODEL)
    made = []
    for own in (EXAMPLES, value):
        agent, store = await device(world, own)
        await looked(agent)
        (entry,) = await store.entries()
        made.append((entry.state, entry.charged_epsilon, entry.url, len(entry.report), entry.detail))
        assert ("no update" in await trouble(store, Fact.SOURCE_TROUBLE)) == (own is not EXAMPLES and own is not None)
    assert made[0] == made[1]
    assert made[0][0] is State.SCHEDULED


def without_numpy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numpy" else found(name))
    return {}


@pytest.mark.parametrize(
    ("prepared", "words"),
    [(without_numpy, "without NumPy; install it with: "), (lambda _patch: {"learning": False}, "learning = false")],
)
async def test_a_device_that_trains_nothing_refuses_before_fetch_data_draw_and_charge(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    prepared: Callable[[pytest.MonkeyPatch], dict[str, Any]],
    words: str,
) -> None:
    published(world)
    world.log.hold(MODEL)
    asked: list[str] = []
    store = MemoryAgentStore()
    await hold_tokens(store, SERIES)
    deps = AgentEnv(world.clock, ENTROPY.child("no training"), world.network)
    options = prepared(monkeypatch)
    agent = Agent(world.config(**options), world.policy, deps, store, CallableSource(asked.append), Device())
    await looked(agent)
    (entry,) = await store.entries()
    assert entry.state is State.REFUSED
    assert entry.detail.startswith("learning-unsupported: this device trains no models")
    assert words in entry.detail
    assert (asked, world.log.asked, await store.draw(SERIES.hash), entry.charged_epsilon) == ([], [], None, "")


async def test_a_round_that_a_rule_refuses_is_not_fetched(world: World) -> None:
    """The usual policy refuses noise shares, which protect against one aggregator only."""
    world.policy = KIT.policy
    recipe = published(world)
    world.log.hold(MODEL)
    agent, store = await device(world)
    await looked(agent)
    assert await states_of(store) == {recipe.name: State.REFUSED}
    assert world.log.asked == []
