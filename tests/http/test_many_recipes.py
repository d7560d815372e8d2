"""A log with many live recipes and long round inputs, from the recipe server through gateway and relay to a device."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from client_agent.journal import State
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, changed
from recipe_server.app import create_app
from recipe_server.config import RecipeServerConfig
from recipe_server.handlers import RECIPES
from recipe_server.service import RecipeService
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.ohttp import SIZE_CLASSES
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.tlog.pages import MAX_PAGES, Head
from tests.http.agent_world import ENTROPY, KIT, LOG_URL, NEVER_SAMPLED, World, trouble

SLOTS = 125
ROUND_INPUT = 16_384


async def serve(world: World, folder: Path) -> RecipeService:
    """A real recipe server in the place of the test's log."""
    write_secret(folder / "log.key", b64url(KIT.keys["log"].private).encode())
    config = RecipeServerConfig.model_validate(
        {
            "state_dir": folder,
            "log_name": KIT.log_policy.origin,
            "log_key": folder / "log.key",
            "policy": KIT.policy,
            "accept_late_directories": True,
        }
    )
    app = create_app(config, ServiceEnv(world.clock, ENTROPY.child("log"), world.inner, background=False))
    await world.inner.unmount(LOG_URL)
    await world.inner.mount(LOG_URL, app)
    return app[RECIPES]


async def publish(service: RecipeService, first: int, count: int) -> None:
    """So many recipes with both opt-ins, and the directories that they need."""
    for number in range(first, first + count):
        epoch, slot = divmod(number, SLOTS)
        if slot == 0:
            await service.publish_leaf(KIT.directory_leaf(EPOCH + epoch, SLOTS).encode())
        body = changed(NEVER_SAMPLED, "name", f"question-{number}")
        body = changed(body, "token", {"issuer": "issuer.example", "epoch": EPOCH + epoch, "slot": slot})
        recipe = changed(body, "interval.start", NEVER_SAMPLED.interval.start + epoch * EPOCH_SECONDS)
        await service.publish_leaf(KIT.recipe_leaf(recipe).encode())
        for role in ("leader", "helper"):
            await service.publish_leaf(KIT.opt_in_leaf(recipe, role).encode())


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
async def test_a_device_reads_every_live_recipe_and_decides_about_each(
    world: World, tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a thousand come over days; here they come at once, with the directories that they need
    monkeypatch.setattr("recipe_server.admission.MAX_LOOKAHEAD", count // SLOTS)
    service = await serve(world, tmp_path / "log")
    await publish(service, 0, count)
    agent, store = await world.device()
    await agent.step()
    assert await trouble(store) == ""
    assert len(agent.live.recipes) == count
    pages = len(Head.decode(await service.head()).pages)
    assert pages <= MAX_PAGES
    assert len(world.relayed()) == 2 + pages
    decided = Counter(entry.state for entry in await store.entries())
    assert decided[State.NOT_SAMPLED] >= 1
    assert set(world.relayed()) == {SIZE_CLASSES[0]}
    await world.clock.advance(120)
    await agent.step()
    assert len(world.relayed()) == 3 + pages, "what did not change is not fetched again"


async def test_rounds_with_the_longest_inputs_reach_every_device(world: World, tmp_path: Path) -> None:
    """Nine of them were more than one message holds."""
    service = await serve(world, tmp_path / "log")
    await service.publish_leaf(KIT.directory_leaf(EPOCH, 24).encode())
    recipe = KIT.recipe(name="training", population=20_000, rate=Decimal(1))
    series = propose_series(recipe, Shape(20, 20, recipe.interval.start, 3600, per_epoch=20))
    await service.publish_leaf(KIT.series_leaf(series).encode())
    inputs = [f"{index:04}" * (ROUND_INPUT // 4) for index in range(20)]
    for index, text in enumerate(inputs):
        await service.publish_leaf(KIT.recipe_leaf(KIT.round(series, index, text)).encode())
    agent, store = await world.device()
    await agent.step()
    assert await trouble(store) == ""
    assert [live.recipe.question.round_input for live in agent.live.recipes] == inputs


async def test_the_log_takes_no_more_than_every_device_can_fetch(world: World, tmp_path: Path) -> None:
    service = await serve(world, tmp_path / "log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recipe_server.page_capacity.CAPACITY", 150_000)
        with pytest.raises(Refusal, match="log-room") as caught:
            await publish(service, 0, SLOTS)
        assert "this leaf takes" in caught.value.detail
        recipes = len(await service.recipes())
        assert 3 <= recipes < 20
        assert sum(await pages_of(service)) < 150_000
        world.clock.jump(NEVER_SAMPLED.interval.end + 3600 - NOW)
        later = changed(NEVER_SAMPLED, "interval.start", NEVER_SAMPLED.interval.end + 3600)
        later = changed(later, "token.slot", SLOTS - 1)
        await service.publish_leaf(KIT.recipe_leaf(later).encode())


async def pages_of(service: RecipeService) -> list[int]:
    """Sizes of the pages that readers fetch now."""
    return [len(service.page(digest) or b"") for digest in Head.decode(await service.head()).pages]
