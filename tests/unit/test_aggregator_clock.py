"""An aggregator whose clock is wrong for a moment, at its start or while it runs, voids, ends and refuses nothing
(P37)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.recipes import NOW
from services.leader.store import LeaderStore
from tacit.aggregator.records import TaskState
from tacit.recipe.model import Recipe
from tests.unit.test_aggregator_log_follower import KIT, Log, Subject, serve

DAY = 86_400
JUMPS = {"-30 years": -30 * 365 * DAY, "-31 days": -31 * DAY, "+70 days": 70 * DAY, "+30 years": 30 * 365 * DAY}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LeaderStore]:
    found = LeaderStore(f"sqlite+aiosqlite:///{tmp_path / 'leader.sqlite3'}")
    await found.open()
    yield found
    await found.close()


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return KIT.recipe()


def subject(store: LeaderStore, log: Log) -> Subject:
    """A follower beside a log whose clock is right."""
    found = Subject(store, log, void_after=60.0)
    log.now = found.clock.steady
    return found


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
@pytest.mark.parametrize("start", [False, True], ids=["running", "at start"])
async def test_a_live_task_stays_and_is_not_void(store: LeaderStore, recipe: Recipe, jump: float, start: bool) -> None:
    log = await serve(store, recipe)
    found = subject(store, log)
    await found.follower.step()
    if start:
        found = subject(store, log)
    found.clock.set_back(-jump)
    log.posted.clear()
    for _ in range(2):
        await found.follower.load()
        await found.follower.step()
        row = await found.row(recipe)
        assert (row.state, row.void, log.posted) == (TaskState.ACTIVE, b"", [])
    found.clock.set_back(jump)
    await found.follower.step()
    assert (await found.row(recipe)).state is TaskState.ACTIVE
    found.clock.jump(recipe.interval.end - NOW + 61)
    await found.follower.step()
    assert (await found.row(recipe)).void, "void when its time is over by both clocks"
    assert len(log.posted) == 1


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_a_recipe_that_came_meanwhile_is_opted_in_to_afterwards(
    store: LeaderStore, recipe: Recipe, jump: float
) -> None:
    log = Log(KIT.directory_leaf())
    found = subject(store, log)
    await found.follower.step()
    found.clock.set_back(-jump)
    log.add(KIT.recipe_leaf(recipe))
    await found.follower.step()
    assert await found.rows() == {}
    found.clock.set_back(jump)
    await found.follower.step()
    assert (await found.row(recipe)).state is TaskState.OPTED_IN
