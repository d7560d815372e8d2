"""Recipes as the admin service tells them from the log that it follows, and when it asks the recipe server instead."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.network import Fault, FaultKind
from services.admin.api.documents import EntryPage
from services.admin.handlers import log, recipes
from services.admin.questions.followed_log import Seen
from services.admin.questions.shared import MOST_ASKED, SHARED_SECONDS
from tacit.codec import b64url
from tests.http.admin_stage import KIT, LOG_URL, Stage, serving

SLOW = Fault(FaultKind.DELAY, seconds=3600)
_UNKNOWN = itertools.count()
OWN = ("question_id", "yield", "rejections")
"""What the admin service says of a recipe beside what the recipe server does."""


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(recipes, "PATIENCE_SECONDS", 60.0)  # a busy machine is no slow log
    async with serving(tmp_path) as running:
        yield running


def asked(stage: Stage) -> list[str]:
    """What the admin service asked the recipe server of recipes so far."""
    places = [one.url.removeprefix(LOG_URL) for one in stage.network.exchanges]
    return [one for one in places if one.startswith("/v1/recipes")]


def unknown() -> str:
    """A hash that no recipe has, a new one for each call."""
    return b64url(next(_UNKNOWN).to_bytes(32, "big"))


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


async def test_a_recipe_that_the_followed_log_does_not_show_is_looked_for_in_it_once_more(stage: Stage) -> None:
    assert await listed(stage) == []
    await stage.clock.advance(SHARED_SECONDS)
    recipe = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    document = await told(stage, f"/v1/recipes/{recipe.hash_text}")
    del document["leaf"]
    assert await shown(stage, recipe.hash_text) == document
    assert asked(stage) == []


async def test_hashes_that_nobody_knows_cost_the_recipe_server_one_look_at_its_log_in_two_seconds(stage: Stage) -> None:
    assert await listed(stage) == []
    for _ in range(3):
        await stage.clock.advance(SHARED_SECONDS)
        before = len(stage.network.exchanges)
        for _ in range(2):
            answers = await asyncio.gather(*(stage.call("GET", f"/v1/recipes/{unknown()}") for _ in range(20)))
            assert {answer.status for answer, _ in answers} == {404}
        assert [one.url for one in stage.network.exchanges[before:]] == [f"{LOG_URL}/checkpoint"]


async def test_while_the_log_is_slow_the_recipe_server_is_asked_once_for_each_hash_and_for_so_many_at_the_most(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await listed(stage) == []
    monkeypatch.setattr(recipes, "PATIENCE_SECONDS", 0.0)
    stage.network.plan = lambda exchange: SLOW if exchange.url.endswith("/checkpoint") else None
    await stage.clock.advance(60)
    recipe = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(recipe))).status == 201
    wanted = [recipe.hash_text, *(unknown() for _ in range(MOST_ASKED - 1))]
    for _ in range(2):
        answers = await asyncio.gather(*(stage.call("GET", f"/v1/recipes/{one}") for one in wanted * 2))
        assert [answer.status for answer, _ in answers] == [200, *[404] * (MOST_ASKED - 1)] * 2
    assert sorted(asked(stage)) == sorted(f"/v1/recipes/{one}" for one in wanted)
    answer, _ = await stage.call("GET", f"/v1/recipes/{unknown()}", status=503)
    assert "retry-after" in answer.headers
    assert (await stage.post_leaf(KIT.opt_in_leaf(recipe, "leader"))).status == 201
    await stage.clock.advance(SHARED_SECONDS)
    assert list((await shown(stage, recipe.hash_text))["opt_ins"]) == ["leader"]
    assert len(asked(stage)) == MOST_ASKED + 1


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
