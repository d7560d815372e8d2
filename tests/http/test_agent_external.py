"""A device and a round whose model only an application knows: it trains where there is a learner, and is refused
before anything depends on the device where there is none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import Fact, MemoryAgentStore, State
from client_agent.learning.flower import FlowerLearner
from infra.lab.kit.learning import LEARNING, METRIC, external, model_of, training_series
from tacit.recipe.series import Series
from tests.http.agent_world import ENTROPY, KIT, Device, World, leaves_of
from tests.http.test_agent_series import hold_tokens
from tests.http.test_agent_training import looked, states_of, trouble

MODEL = model_of(LEARNING, seed=1)
Fitted = tuple[list[NDArray[Any]], int, dict[str, Any]]


@functools.cache
def external_series() -> Series:
    return training_series(KIT, rate=1, spec=external(MODEL))


@functools.cache
def built_in() -> Series:
    return training_series(KIT, rate=1, name="built-in", slot=3)


@pytest.fixture(autouse=True)
def _policy(world: World) -> None:
    world.policy = KIT.policy.model_copy(update={"allow_unbounded_local": True})


class Client:
    """A Flower client whose ``fit`` does as the test says."""

    def __init__(self, fits: Callable[[list[NDArray[Any]]], Fitted]) -> None:
        self.fits = fits

    def get_parameters(self, config: dict[str, Any]) -> list[NDArray[Any]]:
        return [np.zeros((2, 2)), np.zeros(2)]

    def fit(self, parameters: list[NDArray[Any]], config: dict[str, Any]) -> Fitted:
        return self.fits(parameters)


def better(parameters: list[NDArray[Any]]) -> Fitted:
    return [one + 0.1 for one in parameters], 5, {"loss": 0.1}


def failing(_parameters: list[NDArray[Any]]) -> Fitted:
    raise MemoryError


async def agent_of(
    world: World, fits: Callable[[list[NDArray[Any]]], Fitted] | None, asked: list[str]
) -> tuple[Agent, MemoryAgentStore]:
    """A device within an application that trains with ``fits`` (None: that trains nothing)."""
    store = MemoryAgentStore()
    await hold_tokens(store, external_series())
    learner = None if fits is None else FlowerLearner(METRIC, Client(fits))
    deps = AgentEnv(world.clock, ENTROPY.child(f"application {next(world.numbers)}"), world.network, learner)
    return Agent(world.config(), world.policy, deps, store, CallableSource(asked.append), Device()), store


def publish(world: World) -> None:
    recipe = KIT.round(external_series(), 0, MODEL.stated().text())
    world.log.add(KIT.series_leaf(external_series()), *leaves_of(recipe))
    world.log.hold(MODEL)


async def test_without_a_learner_a_round_is_refused_before_fetch_data_draw_and_charge(world: World) -> None:
    publish(world)
    asked: list[str] = []
    agent, store = await agent_of(world, None, asked)
    await looked(agent)
    (entry,) = await store.entries()
    assert entry.state is State.REFUSED
    assert entry.detail.startswith("learning-unsupported: this device trains no external models")
    assert (asked, world.log.asked, await store.draw(external_series().hash), entry.charged_epsilon) == (
        [],
        [],
        None,
        "",
    )


async def test_a_learner_changes_nothing_for_other_trainings(world: World) -> None:
    recipe = KIT.round(built_in(), 0, MODEL.stated().text())
    world.log.add(KIT.series_leaf(built_in()), *leaves_of(recipe))
    world.log.hold(MODEL)
    for fits in (None, better):
        asked: list[str] = []
        agent, store = await agent_of(world, fits, asked)
        await hold_tokens(store, built_in())
        await looked(agent)
        assert await states_of(store) == {recipe.name: State.SCHEDULED}
        assert asked == [METRIC]


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (better, ""),
        (lambda parameters: (parameters, 0, {}), ""),
        (lambda _parameters: ([], 0, {}), ""),
        (failing, "the application's training failed: MemoryError"),
        (lambda parameters: (parameters[::-1], 5, {}), "the Flower client's fit gave arrays of other shapes"),
    ],
)
async def test_whatever_a_client_does_its_device_does_what_the_others_do(
    world: World, fits: Callable[[list[NDArray[Any]]], Fitted], words: str
) -> None:
    """Same state and charge, a report of the same length, the same request for the model."""
    publish(world)
    made, asked = [], list[str]()
    for own in (better, fits):
        agent, store = await agent_of(world, own, asked)
        await looked(agent)
        (entry,) = await store.entries()
        requests = world.log.asked[:]
        world.log.asked.clear()
        made.append((entry.state, entry.charged_epsilon, entry.url, len(entry.report), entry.detail, requests))
    assert made[0] == made[1]
    assert made[0][0] is State.SCHEDULED
    assert made[0][-1] == [f"{MODEL.stated().path}/0"]
    assert await trouble(store, Fact.SOURCE_TROUBLE) == words
    assert asked == []
