"""Targeting from end to end: a census is released and published, a recipe for some devices follows, the others stay
silent, and a recipe for too few is refused by every party on its own (SA2 5.5).

Fixed seeds choose coins and randomised answers, so nothing here is left to chance. With epsilon0 = 8 the census errs by
less than a device, so that its floors lie just below the truth.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from client_agent.journal import State
from infra.lab.kit.network import LOSE_RESPONSE
from infra.lab.kit.recipes import census_question
from tacit.logview.live import LiveLog
from tacit.recipe.census import attest, counts_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tests.kit.device import Device
from tests.kit.simulation import AGENTS, EPOCH, EPOCH_SECONDS, HIGH_CAPS, Simulation, Template, relax

BEGIN = EPOCH * EPOCH_SECONDS
CENSUS_START, CENSUS_SECONDS = 1860, 1800
TARGET_START, TARGET_SECONDS = 4200, 1800
ATTRIBUTES = {"locale": ("de", "en"), "os": ("linux", "mac")}
OWN: list[dict[str, str]] = [
    *({"locale": "de", "os": "linux"} for _ in range(10)),
    *({"locale": "de", "os": "mac"} for _ in range(2)),
    *({"locale": "en", "os": "mac"} for _ in range(3)),
    {"locale": "en", "os": "windows"},
    {},
]
MEMBERS = range(10)
"""Devices with locale=de and os=linux; the last two of all devices cannot answer the census."""
LAX: dict[str, Any] = {
    "attributes": ATTRIBUTES,
    "min_audience": 6,
    **HIGH_CAPS,
    "allow_unbounded_local": True,
}
AGGREGATORS = ("leader", "helper")


def census(simulation: Simulation, **options: Any) -> Recipe:
    defaults: dict[str, Any] = {
        "name": "census",
        "question": census_question(ATTRIBUTES),
        "population": 15,
        "min_batch_size": 10,
        "epsilon": Decimal(8),
        "start": BEGIN + CENSUS_START,
        "duration": CENSUS_SECONDS,
    }
    return simulation.recipe(**{**defaults, **options})


def targeted(simulation: Simulation, **criteria: str) -> Recipe:
    return simulation.recipe(
        name="targeted",
        token=simulation.slot(1),
        criteria=criteria,
        rate=Decimal("0.5"),
        population=10,
        min_batch_size=2,
        start=BEGIN + TARGET_START,
        duration=TARGET_SECONDS,
    )


async def answered(simulation: Simulation, recipe: Recipe) -> None:
    """Let the recipe's interval pass."""
    await simulation.live(recipe.interval.start - 1, pieces=2)
    await simulation.live(recipe.interval.end - 1, pieces=3)
    simulation.clock.jump(2)


def log_of(simulation: Simulation, device: int = 0) -> LiveLog:
    return simulation.devices[device].agent.live


@dataclass(frozen=True)
class Counted:
    """A stack whose log holds a released census and both shares of it, and its devices at that moment."""

    template: Template
    devices: Sequence[Device]
    now: float

    def again(self, to: Path, **policy: Any) -> Simulation:
        """A copy of it; ``policy`` changes that of the devices."""
        simulation = Simulation(self.template.copy(to), seed=5, now=self.now)
        simulation.policy = simulation.policy.model_copy(update=policy)
        simulation.adopt(self.devices)
        return simulation


@pytest.fixture(scope="module")
def counted(bare: Template, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """The census, from published recipe to both shares in the log."""
    return asyncio.run(_count(bare.copy(tmp_path_factory.mktemp("audience") / "stack")))


async def _count(folder: Path) -> Counted:
    relax(folder, **LAX)
    simulation = Simulation(folder, seed=4)
    async with simulation.running():
        recipe = census(simulation)
        await simulation.publish(recipe)
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(len(OWN))], OWN)
        await simulation.step_agents()
        await answered(simulation, recipe)
        assert (await simulation.collect(recipe))["state"] == "released"
        await simulation.step(*AGGREGATORS)
        return Counted(Template(folder), simulation.devices, simulation.clock.now())


@pytest.mark.slow
async def test_the_published_shares_add_up_to_the_released_counts(counted: Counted, tmp_path: Path) -> None:
    simulation = counted.again(tmp_path / "stack")
    async with simulation.running():
        recipe = census(simulation)
        await simulation.devices[0].agent.sync()
        (found,) = log_of(simulation).censuses
        (result,) = await simulation.results(recipe)
        assert found.recipe.hash == recipe.hash
        assert counts_of(found) == tuple(row["count"] for row in result["buckets"])
        assert result["buckets"][0]["label"] == "locale=de,os=linux"
        assert found.report_count == result["report_count"] == len(OWN)
        cell = attest(found, {"locale": "de", "os": "linux"})
        assert cell.estimate == pytest.approx(result["buckets"][0]["estimate"])
        assert (cell.floor, attest(found, {"locale": "de"}).floor) == (9, 11)
        states = Counter([await device.state(recipe) for device in simulation.devices])
        assert states == {State.SENT: len(OWN)}


@pytest.mark.slow
async def test_only_devices_of_the_audience_answer_a_targeted_recipe_and_the_others_are_silent(
    counted: Counted, tmp_path: Path
) -> None:
    simulation = counted.again(tmp_path / "stack")
    async with simulation.running():
        recipe = targeted(simulation, locale="de", os="linux")
        await simulation.publish(recipe)
        await answered(simulation, recipe)
        entries = [await device.entry(recipe) for device in simulation.devices]
        for number, entry in enumerate(entries):
            assert entry is not None
            if number in MEMBERS:
                assert entry.state in {State.SENT, State.NOT_SAMPLED}
                assert entry.charged_epsilon == recipe.privacy.epsilon["aggregator"]
            else:
                assert (entry.state, entry.detail) == (State.INELIGIBLE, "outside the recipe's audience")
                assert (entry.charged_epsilon, entry.report) == ("", b"")
        sent = [one for one in entries if one is not None and one.state is State.SENT]
        assert 2 <= len(sent) < len(MEMBERS)
        polls = len(simulation.wire.between("gateway", "recipe_server", "/v1/"))
        uploads = len(simulation.wire.between("gateway", "leader", "/reports"))
        assert uploads == len(sent)
        messages = [one for one in simulation.wire.between(AGENTS, "relay") if one.method == "POST"]
        assert len(messages) == polls + uploads
        assert (await simulation.collect(recipe))["state"] == "released"
        (result,) = await simulation.results(recipe)
        assert result["report_count"] == len(sent)


async def test_tokens_are_fetched_for_every_slot_whoever_is_asked(counted: Counted) -> None:
    for device in counted.devices:
        rows = await device.store.prefetches()
        own = [row for row in rows if row.slot.epoch == EPOCH]
        assert {row.slot.slot for row in own} == {0, 1}
        assert all(row.settled for row in own)


async def test_a_recipe_for_too_few_devices_never_enters_the_log(counted: Counted, tmp_path: Path) -> None:
    simulation = counted.again(tmp_path / "stack")
    async with simulation.running():
        for criteria in ({"locale": "de", "os": "mac"}, {"locale": "en"}):
            answer = await simulation.post_recipe(targeted(simulation, **criteria))
            problem = json.loads(answer.body)
            assert (answer.status, problem["type"]) == (422, "urn:tacit:refusal:audience-floor")
            assert "at least 6 are needed" in problem["detail"]
        assert (await simulation.post_recipe(targeted(simulation, locale="de"))).status == 201


@pytest.mark.parametrize("name", AGGREGATORS)
async def test_an_aggregator_refuses_a_recipe_for_too_few_devices_by_itself(
    counted: Counted, tmp_path: Path, name: str
) -> None:
    simulation = counted.again(tmp_path / "stack")
    async with simulation.running():
        recipe = targeted(simulation, locale="de", os="linux")
        await simulation.restart(name, policy=_policy(simulation, min_audience=10))
        await simulation.publish(recipe)
        known = await simulation.operator(name, "GET", "/v1/recipes")
        (found,) = (one for one in known["recipes"] if one["recipe_hash"] == recipe.hash_text)
        assert (found["state"], found["rule"]) == ("refused", "audience-floor")
        device = simulation.devices[0]
        await device.agent.sync()
        await device.agent.work()
        assert await device.entry(recipe) is None, "it waits for the opt-in that never comes"


async def test_a_device_refuses_a_recipe_for_too_few_devices_although_everybody_else_takes_it(
    counted: Counted, tmp_path: Path
) -> None:
    simulation = counted.again(tmp_path / "stack", min_audience=10)
    async with simulation.running():
        recipe = targeted(simulation, locale="de", os="linux")
        await simulation.publish(recipe)
        assert simulation.party("leader", recipe)
        await answered(simulation, recipe)
        for device in simulation.devices:
            entry = await device.entry(recipe)
            assert entry is not None
            assert (entry.state, entry.charged_epsilon) == (State.REFUSED, "")
            assert "audience-floor: census census attests 9 devices" in entry.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise",
    [pytest.param({}, marks=pytest.mark.slow), {"randomizer": "flips", "aggregator_flips": 64, "epsilon": Decimal(3)}],
)
async def test_shares_survive_a_crash_between_release_and_the_log_and_are_published_once(
    bare: Template, tmp_path: Path, noise: dict[str, Any]
) -> None:
    """With noise of the aggregators, a share drawn anew would not add up to what the collector opened."""
    folder = bare.copy(tmp_path / "stack")
    relax(folder, **LAX)
    simulation = Simulation(folder, seed=6)
    async with simulation.running():
        recipe = census(simulation, **noise)
        await simulation.publish(recipe)
        simulation.provision([{}] * len(OWN), OWN)
        await simulation.step_agents()
        await answered(simulation, recipe)
        assert (await simulation.collect(recipe))["state"] == "released"
        for name in AGGREGATORS:
            await simulation.crash(name)
            simulation.partition(name, "recipe_server")
        await simulation.step(*AGGREGATORS)
        simulation.heal()
        assert shares_in_log(simulation) == 0
        for name in AGGREGATORS:
            simulation.break_next(name, "recipe_server", LOSE_RESPONSE, "/v1/leaves")
        await simulation.step(*AGGREGATORS)
        for name in AGGREGATORS:
            await simulation.crash(name)
        await simulation.step(*AGGREGATORS)
        await simulation.step(*AGGREGATORS)
        assert shares_in_log(simulation) == 2
        await simulation.devices[0].agent.sync()
        (found,) = log_of(simulation).censuses
        (result,) = await simulation.results(recipe)
        assert counts_of(found) == tuple(row["count"] for row in result["buckets"])


async def test_a_census_counts_in_the_bundle_long_after_it_ended_and_then_no_more(
    counted: Counted, tmp_path: Path
) -> None:
    simulation = counted.again(tmp_path / "stack")
    async with simulation.running():
        age = Policy().census_max_age_seconds
        end = census(simulation).interval.end
        for moment, expected in ((end + age - 10, 1), (end + age + 10, 0)):
            simulation.clock.jump(moment - simulation.clock.now())
            await simulation.settle("gateway", "recipe_server", "relay")
            await simulation.devices[0].agent.sync()
            assert len(log_of(simulation).censuses) == expected


def shares_in_log(simulation: Simulation) -> int:
    ((count,),) = simulation.rows("recipe_server", "SELECT count(*) FROM entries WHERE type = 'census-share'")
    return int(count)


def _policy(simulation: Simulation, **changes: Any) -> Policy:
    return simulation.policy.model_copy(update=changes)
