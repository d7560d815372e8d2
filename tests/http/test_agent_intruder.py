"""An intruder who has every byte of a whole device, journal included, is left to guess, and finds planted mistakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from client_agent.agent import Agent
from client_agent.cached_store import RememberedStore
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import State
from client_agent.panprivate.state_files import FOLDER
from client_agent.panprivate.watches import Watches
from client_agent.runner import DATABASE
from client_agent.store import SqlAgentStore
from infra.lab.intruder.game import judged
from infra.lab.intruder.traces import (
    ONCE,
    TWICE,
    CountedEntropy,
    Moment,
    Moments,
    SeenDisk,
    Trace,
    events_of,
    notes_reads,
)
from infra.lab.intruder.whole_device import WHOLE_ATTACKERS, WHOLE_LEAKS, Home, Leak, lived
from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.databases.sqlite_file import KEPT
from tacit.methods.base.draws import fair_flips
from tacit.recipe.model import Recipe
from tests.http.agent_world import Device, World, give_token
from tests.kit.watched import NOW, SHARED, SINGLE, STEP_SECONDS, WatchedKit

KIT = WatchedKit()
SEED = SeededEntropy(b"whole devices")
STEPS = 4
SIGMAS = 5
MANY = 2 * KEPT + 3
"""More devices than journals stay open in one process."""


def recipe_of(model: str, statistic: str = "count") -> Recipe:
    """A recipe that watches an event for four steps."""
    question = KIT.watched(model, statistic).body()["question"]
    question["encoder"] |= {"start": NOW - STEPS * STEP_SECONDS, "steps": STEPS}
    return KIT.watched(model, statistic, question=question)


class Street:
    """Devices that live from the first step on, with the same log."""

    def __init__(self, world: World, folder: Path, recipe: Recipe) -> None:
        self.world, self.folder, self.recipe = world, folder, recipe
        world.clock.set_back(STEPS * STEP_SECONDS)
        world.log.add(*KIT.leaves(recipe))
        self.begin = world.clock.now()

    async def lives(
        self, number: int, leak: Leak | None = None, moments: Moments = ONCE, together: int = 1
    ) -> list[tuple[Trace, int]]:
        """``number`` devices, ``together`` of them side by side, each with events (1) or without any (0) by the toss of
        a coin."""
        empty = self.folder / "empty.sqlite3"
        store = await SqlAgentStore.open(empty)
        await store.close()
        found: list[tuple[Trace, int]] = []
        for first in range(0, number, together):
            clock = self.world.clock
            clock.set_back(clock.now() - self.begin)
            labels, homes = [], []
            for device in range(first, min(first + together, number)):
                own = SEED.child(f"{self.recipe.name} {number} {device}")
                labels.append(fair_flips(1, own))
                events = events_of(STEPS, labels[-1], own)
                homes.append((await self._home(f"{device - first:04}", empty, own), events))
            traces = await lived(homes, leak, moments)
            for home, _ in homes:
                await _end(home)
            found += zip(traces, labels, strict=True)
        return found

    async def _home(self, name: str, empty: Path, own: SeededEntropy) -> Home:
        folder = self.folder / name  # as long for all: its length is in no file
        folder.mkdir()
        shutil.copy(empty, folder / DATABASE)
        clock, entropy = self.world.clock, CountedEntropy(own)
        kept, disk = await SqlAgentStore.open(folder / DATABASE), SeenDisk(clock.now)
        store = RememberedStore(kept)
        await give_token(store)
        watches = Watches(folder / FOLDER, clock, entropy, disk)
        source, deps = CallableSource(lambda _metric: None), AgentEnv(clock, entropy, self.world.network)
        agent = Agent(self.world.config(), KIT.policy, deps, store, source, Device(), watches)
        await agent.sync()
        return Home(agent, store, folder, self.recipe, clock, entropy, disk)


async def _end(home: Home) -> None:
    (entry,) = await home.store.entries()
    assert entry.state is State.SENT
    assert not list((home.folder / FOLDER).iterdir())
    await home.store.close()
    shutil.rmtree(home.folder)


@pytest.fixture(params=[SINGLE, SHARED])
def street(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Street:
    return Street(world, tmp_path, recipe_of(request.param))


@pytest.mark.parametrize("moment", Moment)
async def test_a_whole_device_with_events_and_one_without_are_seen_alike(street: Street, moment: Moment) -> None:
    lives = await street.lives(4, moments=(moment,))
    assert {label for _, label in lives} == {0, 1}
    assert len({one.beside_bytes for one, _ in lives}) == 1
    everything = b"".join(files for trace, _ in lives for files in trace.files)
    memories = [state for trace, _ in lives for state in trace.memories]
    assert len(set(memories)) == len(memories)
    assert everything.count(b"visit") == everything.count(street.recipe.name.encode())


async def test_two_looks_between_two_ticks_of_a_whole_device_tell_everything(world: World, tmp_path: Path) -> None:
    lives = await Street(world, tmp_path, recipe_of(SINGLE)).lives(12, moments=TWICE)
    assert judged(lives, 6, WHOLE_ATTACKERS).best.advantage == 1


@pytest.mark.parametrize("leak", ["note taken back"])
async def test_what_a_device_wrote_and_took_back_is_found_in_its_raw_files(
    world: World, tmp_path: Path, leak: str
) -> None:
    lives = await Street(world, tmp_path, recipe_of(SINGLE)).lives(12, WHOLE_LEAKS[leak])
    assert judged(lives, 6, WHOLE_ATTACKERS).best.advantage == 1


async def seen_of(street: Street, events: int, name: str) -> list[Trace]:
    """What is seen of the many devices of one host, on each of which the event happens so often in every step."""
    empty = street.folder / f"{name}.sqlite3"
    await (await SqlAgentStore.open(empty)).close()
    street.world.clock.set_back(street.world.clock.now() - street.begin)
    homes = [await street._home(f"{name}{device:04}", empty, SEED.child(f"{name}{device}")) for device in range(MANY)]
    traces = await lived([(home, [events] * STEPS) for home in homes])
    for home in homes:
        await _end(home)
    return traces


async def test_the_journals_that_a_host_of_many_devices_has_closed_are_seen_and_tell_no_events(street: Street) -> None:
    """More devices than journals stay open: a write of one of them closes another's, whose files beside it go."""
    without, with_events = [await seen_of(street, events, name) for events, name in ((0, "a"), (2, "b"))]
    assert [one.beside_bytes for one in without] == [one.beside_bytes for one in with_events]
    for traces in (without, with_events):
        last = [f"{DATABASE}-wal".encode() in one.files[-1] for one in traces]
        assert last == [device >= MANY - KEPT for device in range(MANY)], "those written last are open"


@pytest.mark.parametrize("leak", ["note in the journal"])
async def test_what_a_device_wrote_is_found_on_a_host_that_has_closed_its_journal_since(
    world: World, tmp_path: Path, leak: str
) -> None:
    lives = await Street(world, tmp_path, recipe_of(SINGLE)).lives(2 * MANY, WHOLE_LEAKS[leak], together=MANY)
    assert judged(lives, MANY, WHOLE_ATTACKERS).best.advantage == 1


@pytest.mark.slow
@pytest.mark.parametrize("leak", WHOLE_LEAKS)
async def test_every_planted_mistake_of_a_whole_device_is_found(world: World, tmp_path: Path, leak: str) -> None:
    if leak == "state read" and not notes_reads(tmp_path):
        pytest.skip("the file system notes no reads")
    lives = await Street(world, tmp_path, recipe_of(SINGLE)).lives(40, WHOLE_LEAKS[leak])
    outcome = judged(lives, 20, WHOLE_ATTACKERS)
    assert outcome.best.advantage > 0.9, outcome


@pytest.mark.slow
@pytest.mark.false_alarm(
    6 * 3e-7, "six attackers, each a coin's binomial more than five standard errors to one side", runs=1
)
async def test_no_attacker_of_a_whole_device_does_better_than_a_coin(street: Street) -> None:
    outcome = judged(await street.lives(160), 80, WHOLE_ATTACKERS, await street.lives(161, together=KEPT))
    assert outcome.snapshots == 160 * 2 * (STEPS + 2)
    for one in outcome.attackers:
        assert one.advantage < SIGMAS * one.stderr, one


@pytest.mark.slow
@pytest.mark.false_alarm(
    6 * 3e-7, "six attackers, each a coin's binomial more than five standard errors to one side", runs=1
)
async def test_no_attacker_of_a_host_of_many_devices_does_better_than_a_coin(street: Street) -> None:
    outcome = judged(await street.lives(160, together=MANY), 80, WHOLE_ATTACKERS)
    for one in outcome.attackers:
        assert one.advantage < SIGMAS * one.stderr, one
