"""Aggregators on a database, or a whole folder, that was restored from the past (P32): refused first, and where the
operator accepts it, nothing that may have been spent or released is so again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.adapters.databases.recovery import Recovery
from tacit.aggregator.log_follower import FOLLOWER
from tacit.aggregator.store import SqlStore
from tacit.errors import RolledBack, UsageError
from tacit.recipe.model import Recipe
from tacit.service.app import HEALTH_PATH
from tacit.task import CLOCK_LEEWAY
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, INTERVAL_START, Simulation
from tests.simulation.conftest import NewSimulation

BEGIN = EPOCH * EPOCH_SECONDS + INTERVAL_START
ROLES = pytest.mark.parametrize("name", ["leader", "helper"])


def folder_of(simulation: Simulation, name: str) -> Path:
    return simulation.layout.configs[name].parent


def store_of(simulation: Simulation, name: str) -> SqlStore[Any]:
    store = simulation.apps[name][FOLLOWER].store
    assert isinstance(store, SqlStore)
    return store


async def begun(simulation: Simulation) -> Recipe:
    """The usual recipe, which is served, in whose window something may have been spent."""
    recipe = simulation.recipe()
    simulation.clock.jump(BEGIN + 60 - simulation.clock.now())
    return recipe


async def restored(simulation: Simulation, name: str, *, whole: bool, later: Callable[[], Recipe] | None) -> None:
    """A backup is made, the service goes on (and takes part in a further recipe), and then the backup is put back."""
    folder = folder_of(simulation, name)
    backup = folder.parent / "backup"
    await simulation.stop(name)
    shutil.copytree(folder, backup)
    await simulation.start(name)
    if later is not None:
        await simulation.publish(later())
    await simulation.stop(name)
    if whole:
        shutil.rmtree(folder)
        backup.rename(folder)
    else:
        shutil.copy(backup / f"{name}.sqlite3", folder / f"{name}.sqlite3")


def states(simulation: Simulation, name: str) -> dict[bytes, tuple[str, str]]:
    found = simulation.rows(name, "select recipe_hash, state, rule from tasks")
    return {recipe_hash: (state, rule) for recipe_hash, state, rule in found}


def next_recipe(simulation: Simulation, slot: int = 1, later: int = 0) -> Recipe:
    """Of another slot of this epoch, or of one so many epochs ``later``."""
    start = {"start": BEGIN + later * EPOCH_SECONDS} if later else {}
    return simulation.recipe(name=f"next-{later}-{slot}", token=simulation.slot(slot, EPOCH + later), **start)


@pytest.mark.slow
@ROLES
async def test_an_accepted_backup_closes_every_task_whose_window_had_begun_and_serves_later_ones(
    simulation: Simulation, name: str
) -> None:
    async with simulation.running():
        recipe = await begun(simulation)
        lost, served = next_recipe(simulation), simulation.party(name, recipe)
        await restored(simulation, name, whole=False, later=lambda: lost)
        with pytest.raises(UsageError, match="older than the last state of this service"):
            await simulation.start(name)
        await simulation.start(name, Recovery.ACCEPT)
        for again in range(2):
            await simulation.step(name)
            assert states(simulation, name)[recipe.hash] == ("ended", "own-records-rolled-back")
            assert states(simulation, name)[lost.hash] == ("refused", "own-records-rolled-back")
            with pytest.raises(LookupError):
                simulation.party(name, recipe)
            async with store_of(simulation, name).transaction() as tx:
                assert not await tx.is_open(served, simulation.clock.now())
            if not again:
                await simulation.restart(name)
        later = simulation.recipe(name="later", token=simulation.slot(0, EPOCH + 1), start=BEGIN + EPOCH_SECONDS)
        await simulation.publish(later)
        assert simulation.party(name, later).task.recipe_hash == later.hash


@ROLES
@pytest.mark.parametrize("log_away", [False, True], ids=["the log is read at once", "the log is away at first"])
async def test_what_an_operator_accepted_is_not_held_against_tasks_that_begin_later(
    new_simulation: NewSimulation, name: str, log_away: bool
) -> None:
    simulation = new_simulation()
    begins = BEGIN + 6 * CLOCK_LEEWAY
    async with simulation.running():
        simulation.clock.jump(BEGIN + 60 - simulation.clock.now())
        later = simulation.recipe(name="later", start=int(begins), duration=1800)
        if log_away:
            await simulation.publish(later)  # before the backup: served again, and begun when the log is read
        await restored(simulation, name, whole=False, later=lambda: next_recipe(simulation))
        await simulation.start(name, Recovery.ACCEPT)
        if not log_away:
            await simulation.step(name)
            await simulation.publish(later)
        simulation.clock.jump(begins + 60 - simulation.clock.now())
        for slot in range(2):
            await simulation.publish(next_recipe(simulation, slot, later=1))
            assert states(simulation, name)[later.hash] == ("active", "")
            health = await simulation.network.request("GET", simulation.layout.urls[name] + HEALTH_PATH)
            assert "trouble" not in json.loads(health.body)
            if not slot:
                await simulation.restart(name)


@ROLES
@pytest.mark.parametrize(("before", "state"), [(CLOCK_LEEWAY - 10, "ended"), (CLOCK_LEEWAY + 10, "active")])
async def test_an_accepted_backup_closes_a_task_whose_first_reports_may_have_come_from_clocks_ahead_of_ours(
    simulation: Simulation, name: str, before: float, state: str
) -> None:
    async with simulation.running():
        recipe = simulation.recipe()
        simulation.clock.jump(BEGIN - before - simulation.clock.now())
        await simulation.stop(name)
        await simulation.start(name, Recovery.ACCEPT)
        await simulation.step(name)
        assert states(simulation, name)[recipe.hash][0] == state


@ROLES
async def test_a_whole_folder_from_the_past_is_shown_by_the_log(simulation: Simulation, name: str) -> None:
    async with simulation.running():
        recipe = await begun(simulation)
        await restored(simulation, name, whole=True, later=lambda: next_recipe(simulation))
        await simulation.start(name)
        served = simulation.party(name, recipe)
        with pytest.raises(RolledBack):
            await simulation.step(name)
        async with store_of(simulation, name).transaction() as tx:
            assert not await tx.is_open(served, simulation.clock.now()), "closed at once, whoever holds the party"
        health = await simulation.network.request("GET", simulation.layout.urls[name] + HEALTH_PATH)
        assert "from the past" in json.loads(health.body)["trouble"]
        await simulation.stop(name)
        with pytest.raises(UsageError, match="others hold what this service sent"):
            await simulation.start(name)
        await simulation.start(name, Recovery.ACCEPT)
        await simulation.step(name)
        await simulation.restart(name)
        await simulation.step(name)
        assert states(simulation, name)[recipe.hash] == ("ended", "own-records-rolled-back")


@pytest.mark.slow
@ROLES
async def test_the_newest_backup_put_back_after_an_older_one_goes_on(simulation: Simulation, name: str) -> None:
    async with simulation.running():
        recipe = await begun(simulation)
        folder = folder_of(simulation, name)
        await simulation.stop(name)
        older = (folder / f"{name}.sqlite3").read_bytes()
        await simulation.start(name)
        await simulation.publish(next_recipe(simulation))
        await simulation.stop(name)
        newest = (folder / f"{name}.sqlite3").read_bytes()
        (folder / f"{name}.sqlite3").write_bytes(older)
        with pytest.raises(UsageError, match="older"):
            await simulation.start(name)
        (folder / f"{name}.sqlite3").write_bytes(newest)
        for path in folder.glob(f"{name}.sqlite3-*"):
            path.unlink()
        await simulation.start(name)
        await simulation.step(name)
        assert simulation.party(name, recipe).task.recipe_hash == recipe.hash


@ROLES
async def test_a_lost_folder_refuses_what_it_opted_in_to_and_goes_on(simulation: Simulation, name: str) -> None:
    async with simulation.running():
        recipe = await begun(simulation)
        await simulation.stop(name)
        for path in folder_of(simulation, name).glob(f"{name}.sqlite3*"):
            path.unlink()
        with pytest.raises(UsageError, match="new or a different one"):
            await simulation.start(name)
        (folder_of(simulation, name) / f"{name}.mark").unlink()
        await simulation.start(name)
        await simulation.step(name)
        assert states(simulation, name)[recipe.hash] == ("refused", "own-records-lost")
