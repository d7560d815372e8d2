"""Recipes as the admin service tells them from the log that it follows, and when it asks the recipe server instead."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.network import Fault, FaultKind
from services.admin.core.documents import EntryPage
from services.admin.core.whole import Seen
from services.admin.handlers import log, recipes
from tests.http.admin_stage import KIT, LOG_URL, Stage

SLOW = Fault(FaultKind.DELAY, seconds=3600)
OWN = ("question_id", "yield", "rejections")
"""What the admin service says of a recipe beside what the recipe server does."""


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    running = Stage(tmp_path)
    await running.prepare()
    await running.start()
    yield running
    await running.inner.close()


def asked(stage: Stage) -> list[str]:
    """What the admin service asked the recipe server of recipes so far."""
    places = [one.url.removeprefix(LOG_URL) for one in stage.network.exchanges]
    return [one for one in places if one.startswith("/v1/recipes")]


async def told(stage: Stage, place: str) -> Any:
    """What the recipe server itself says."""
    return json.loads((await stage.inner.request("GET", LOG_URL + place)).body)


async def shown(stage: Stage, recipe: str) -> dict[str, Any]:
    _, document = await stage.call("GET", f"/v1/recipes/{recipe}", status=200)
    return {name: value for name, value in document.items() if name not in OWN}


async def listed(stage: Stage) -> list[dict[str, Any]]:
    _, page = await stage.call("GET", "/v1/recipes", status=200)
    return [{name: value for name, value in one.items() if name not in OWN} for one in page["recipes"]]


async def published(stage: Stage, name: str) -> str:
    question = await stage.approved(name=name)
    return str((await stage.call("POST", f"/v1/questions/{question}/publish", status=200))[1]["hash"])


async def test_the_followed_log_tells_of_recipes_what_the_recipe_server_tells(stage: Stage) -> None:
    recipe = KIT.recipe()
    for leaf in (KIT.recipe_leaf(recipe), KIT.opt_in_leaf(recipe, "leader")):
        assert (await stage.post_leaf(leaf)).status == 201
    for state in ("pending", "active"):
        document = await told(stage, f"/v1/recipes/{recipe.hash_text}")
        del document["leaf"]
        assert (await shown(stage, recipe.hash_text), document["state"]) == (document, state)
        assert await listed(stage) == (await told(stage, "/v1/recipes"))["recipes"]
        assert (await stage.post_leaf(KIT.opt_in_leaf(recipe, "helper"))).status in {200, 201}
    await stage.clock.advance(recipe.interval.end - stage.clock.now())
    assert [(await shown(stage, recipe.hash_text))["state"], (await listed(stage))[0]["state"]] == ["over", "over"]
    assert asked(stage) == []


async def test_what_this_service_published_is_shown_at_once_although_the_log_was_just_read(stage: Stage) -> None:
    assert await listed(stage) == []
    for name in ("first", "second"):
        recipe = await published(stage, name)
        assert [one["hash"] for one in await listed(stage)][-1] == recipe
        assert (await shown(stage, recipe))["name"] == name
    _, ledger = await stage.call("GET", "/v1/ledger", status=200)
    assert [one["name"] for one in ledger["accounts"][0]["recipes"]] == ["first", "second"]
    assert asked(stage) == []


async def test_a_recipe_that_the_followed_log_does_not_show_yet_is_asked_for(stage: Stage) -> None:
    assert await listed(stage) == []
    recipe = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    place = f"/v1/recipes/{recipe.hash_text}"
    document = await told(stage, place)
    del document["leaf"]
    for _ in range(2):
        assert await shown(stage, recipe.hash_text) == document
    assert asked(stage) == [place] * 2
    await stage.clock.advance(60)
    assert [one["hash"] for one in await listed(stage)] == [recipe.hash_text]
    assert await shown(stage, recipe.hash_text) == document
    assert asked(stage) == [place] * 2


async def test_while_the_log_is_read_for_the_first_time_the_recipe_server_is_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [KIT.recipe(name=f"visits-{number}", slot=number) for number in range(3)]
    for one in found:
        assert (await stage.post_leaf(KIT.recipe_leaf(one))).status == 201
    monkeypatch.setattr(recipes, "PATIENCE_SECONDS", 0.0)
    _, page = await stage.call("GET", "/v1/recipes?limit=2", status=200)
    assert [one["hash"] for one in page["recipes"]] == [one.hash_text for one in found[:2]]
    assert asked(stage) == ["/v1/recipes?limit=2"]
    await stage.call("GET", "/v1/log", status=200)
    _, rest = await stage.call("GET", f"/v1/recipes?limit=2&cursor={page['next']}", status=200)
    assert ([one["hash"] for one in rest["recipes"]], rest["next"]) == ([found[2].hash_text], None)
    assert len(asked(stage)) == 1


async def test_an_old_reading_is_not_told_while_the_log_takes_its_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    assert (await shown(stage, recipe.hash_text))["state"] == "pending"
    for role in ("leader", "helper"):
        assert (await stage.post_leaf(KIT.opt_in_leaf(recipe, role))).status == 201
    monkeypatch.setattr(recipes, "PATIENCE_SECONDS", 0.0)
    stage.network.plan = lambda exchange: SLOW if exchange.url.endswith("/checkpoint") else None
    assert ((await listed(stage))[0]["state"], asked(stage)) == ("pending", [])
    await stage.clock.advance(60)
    assert ((await listed(stage))[0]["state"], (await shown(stage, recipe.hash_text))["state"]) == ("active", "active")
    assert len(asked(stage)) == 2


async def test_entries_that_are_forgotten_while_a_page_is_made_of_them_are_not_there_for_now(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = log.entries_of

    def forgotten(seen: Seen, first: int, limit: int) -> EntryPage:
        seen.tree.clear()
        return made(seen, first, limit)

    assert len((await stage.call("GET", "/v1/log/entries", status=200))[1]["entries"]) == 2
    monkeypatch.setattr(log, "entries_of", forgotten)
    assert await stage.refused("GET", "/v1/log/entries") == (503, "problem:peer-away")
    monkeypatch.setattr(log, "entries_of", made)
    assert len((await stage.call("GET", "/v1/log/entries", status=200))[1]["entries"]) == 2
