"""A log has its checkpoints cosigned, and shows readers what its witnesses have seen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW
from recipe_server.app import create_app
from recipe_server.config import RecipeServerConfig
from recipe_server.handlers import RECIPES
from services.witness.handlers import WITNESS
from tacit import media_types
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.logview.live import LiveLog
from tacit.logview.paged import PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.policy import WitnessLimit
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.cosignature import Quorum
from tacit.tlog.leaves import SignedLeaf
from tests.http.witness_world import KIT, LOG_URL, LyingLog, Stage, url_of

NAMES = ("first", "second")


class World(Stage):
    """A recipe server and its witnesses."""

    keys: dict[str, NoteKey]
    app: web.Application

    async def start_log(self, folder: str = "log", **changes: object) -> None:
        home = self.folder / folder
        write_secret(home / "log.key", b64url(KIT.keys["log"].private).encode())
        config = RecipeServerConfig.model_validate(
            {
                "state_dir": home,
                "log_name": KIT.log_policy.origin,
                "log_key": home / "log.key",
                "policy": KIT.policy,
                "accept_late_directories": True,
                "witnesses": [{"url": url_of(name), "key": key.encode()} for name, key in self.keys.items()],
            }
            | changes
        )
        self.app = create_app(config, ServiceEnv(self.clock, SeededEntropy(1), self.network, background=False))
        await self.network.mount(LOG_URL, self.app)

    async def settle(self) -> None:
        for _ in range(50):
            if sum([await driver.step() for driver in self.app[DRIVERS]]) == 0:
                return

    async def publish(self, leaf: SignedLeaf) -> None:
        headers = {"Content-Type": media_types.JSON}
        answer = await self.network.request("POST", f"{LOG_URL}/v1/leaves", headers=headers, body=leaf.encode())
        assert answer.status == 201, answer.body

    def view(self, k: int = 2) -> LogView:
        quorum = Quorum(tuple(self.keys.values()), k, 86400, self.clock.now)
        return LogView(LogPolicy(KIT.log_policy.log_key, quorum))

    async def read(self, view: LogView) -> LiveLog:
        async def get(path: str) -> bytes:
            return (await self.network.request("GET", f"{LOG_URL}{path}")).body

        return LiveLog.from_entries(await PagedReader(get).read(view, LeafSigners(KIT.policy)) or ())

    async def trouble(self) -> str:
        page = json.loads((await self.network.request("GET", f"{LOG_URL}/healthz")).body)
        return str(page.get("trouble", ""))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    running = World(tmp_path)
    running.keys = {name: await running.start(name) for name in NAMES}
    await running.start_log()
    yield running
    await running.network.close()


async def test_readers_see_entries_once_the_witnesses_have_cosigned_them(world: World) -> None:
    view = world.view()
    with pytest.raises(Refusal, match="0 recent cosignatures"):
        await world.read(view)
    await world.settle()
    assert not (await world.read(view)).recipes
    await world.publish(KIT.directory_leaf())
    await world.publish(KIT.recipe_leaf(KIT.recipe()))
    assert not (await world.read(view)).recipes  # stored and acknowledged, not yet witnessed
    await world.settle()
    live = await world.read(view)
    assert [item.recipe.name for item in live.recipes] == ["doctor-visits"]
    assert view.state.size == 2
    checkpoint = (await world.network.request("GET", f"{LOG_URL}/checkpoint")).body
    assert view.advance(checkpoint, ()).size == 2


async def test_a_witness_that_is_away_stops_neither_publication_nor_what_was_witnessed(world: World) -> None:
    await world.publish(KIT.directory_leaf())
    await world.settle()
    view = world.view()
    await world.read(view)
    await world.network.unmount(url_of("second"))
    await world.publish(KIT.recipe_leaf(KIT.recipe()))
    await world.settle()
    assert view.state.size == 1
    await world.read(view)
    assert await world.trouble() == ""  # once is no trouble: a witness may be starting
    await world.clock.advance(2)
    await world.settle()
    assert "witness second.example/w" in await world.trouble()
    await world.start("second")
    await world.settle()  # not asked before its time
    await world.read(view)
    assert view.state.size == 1
    await world.clock.advance(100)
    await world.settle()
    assert (await world.read(view)).recipes
    assert await world.trouble() == ""


async def test_a_log_whose_clock_was_ahead_for_a_while_goes_on_asking_its_witnesses(world: World) -> None:
    world.clock.jump(300 * 86_400)
    await world.network.unmount(url_of("second"))
    await world.settle()
    world.clock.set_back(300 * 86_400)
    await world.start("second")
    for _ in range(2):
        await world.settle()
        world.clock.jump(60)
    await world.publish(KIT.directory_leaf())
    await world.settle()
    view = world.view()
    await world.read(view)
    assert view.state.size == 1


async def test_a_log_that_its_witnesses_contradict_asks_them_again_as_no_new_leaf_would(world: World) -> None:
    """All clocks were twenty minutes behind for a while, and are right again."""
    world.clock.set_back(1200)
    await world.settle()
    world.clock.set_back(-1200)
    url, leaf = f"{LOG_URL}/v1/leaves", KIT.directory_leaf().encode()
    headers = {"Content-Type": media_types.JSON}
    assert (await world.network.request("POST", url, headers=headers, body=leaf)).status == 503
    await world.settle()
    world.clock.jump(61)
    await world.settle()
    await world.publish(KIT.directory_leaf())


async def test_lines_are_made_anew_before_readers_find_them_old_and_survive_a_restart(world: World) -> None:
    await world.settle()
    view = world.view()
    await world.clock.advance(86_000)
    await world.read(view)
    await world.clock.advance(1_000)
    with pytest.raises(Refusal, match="0 recent cosignatures"):
        await world.read(view)
    await world.settle()
    await world.read(view)
    await world.network.unmount(url_of("first"))
    await world.start_log()
    await world.settle()
    await world.read(view)


async def test_a_witness_that_is_far_behind_is_taken_along_in_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipe_server.witnessing.MAX_STEP", 2)
    await world.publish(KIT.directory_leaf())
    for slot in range(4):
        await world.publish(KIT.recipe_leaf(KIT.recipe(slot=slot, name=f"slot-{slot}")))
    await world.settle()
    view = world.view()
    assert len((await world.read(view)).recipes) == 4
    assert world.apps["first"][WITNESS].counts["cosigned"] == 3


async def test_a_second_log_under_the_same_key_is_shown_to_nobody_who_demands_witnesses(world: World) -> None:
    await world.publish(KIT.directory_leaf())
    await world.publish(KIT.recipe_leaf(KIT.recipe()))
    await world.settle()
    honest = world.view()
    await world.read(honest)
    await world.start_log("fork")
    await world.publish(KIT.directory_leaf())
    await world.publish(KIT.recipe_leaf(KIT.recipe(slot=3, name="for-one-device")))
    for _ in range(5):
        await world.settle()
        await world.clock.advance(100)
    victim = world.view()
    with pytest.raises(Refusal, match="0 recent cosignatures"):
        await world.read(victim)
    assert "another tree" in await world.trouble()
    for app in world.apps.values():
        assert app[WITNESS].counts["refused"] > 0


async def test_witnesses_refuse_a_log_whose_server_admitted_a_second_leaf(world: World) -> None:
    await world.publish(KIT.directory_leaf())
    await world.settle()
    assert await world.app[RECIPES].newest() == 1
    log = LyingLog([KIT.directory_leaf(), KIT.directory_leaf(slots=2)])
    await world.network.mount(LOG_URL, log.app())
    for name in NAMES:
        answer = await world.ask(log.request(1), name)
        assert json.loads(answer.body)["type"].endswith("log-twice")


@pytest.mark.parametrize("off", [-90_000, 90_000])
async def test_a_witness_that_lies_about_the_time_does_not_stop_readers(world: World, off: int) -> None:
    """Two of three suffice; while the third is away readers keep the tree that two honest witnesses have cosigned."""
    world.keys["third"] = await world.start("third")
    await world.start_log("three")
    await world.publish(KIT.directory_leaf())
    await world.settle()
    view = world.view()
    await world.read(view)
    await world.network.unmount(url_of("third"))
    liar = world.apps["second"][WITNESS]
    liar._deps = replace(liar._deps, clock=SimClock(NOW + off))
    await world.publish(KIT.recipe_leaf(KIT.recipe()))
    for _ in range(2):
        await world.settle()
        await world.read(view)
        assert view.state.size == 1
        await world.clock.advance(2)
    assert "witness second.example/w: its clock is off" in await world.trouble()
    await world.start("third")
    await world.clock.advance(60)
    await world.settle()
    assert (await world.read(view)).recipes


async def test_readers_are_shown_nothing_that_the_logs_own_policy_refuses(world: World) -> None:
    """A policy that demands all three, while one of them is away: the last tree that all have cosigned stays."""
    world.keys["third"] = await world.start("third")
    limit = WitnessLimit(keys=tuple(key.encode() for key in world.keys.values()), k=3)
    await world.start_log("three", policy=KIT.policy.model_copy(update={"witnesses": limit}))
    await world.publish(KIT.directory_leaf())
    await world.settle()
    view = world.view(k=3)
    await world.read(view)
    await world.network.unmount(url_of("third"))
    await world.publish(KIT.recipe_leaf(KIT.recipe()))
    await world.settle()
    await world.read(view)
    assert view.state.size == 1
