"""Every list of every service is told page by page, after everything that can be listed has happened more than once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.tools.documents.gets import Get, gets
from services.admin.api.calls import Route
from services.admin.handlers.routes import ROUTES
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, INTERVAL_SECONDS, INTERVAL_START, Simulation, Template

STEPS, DEVICES = 24, 7
UNUSED = ("analyzer", "shuffler")
"""Services that no recipe here names."""
LISTS = [one for one in gets() if one.paging and one.service != "admin"]
BOUNDED = {"QuestionDocument", "RecipeDocument", "FleetDocument", "SeriesDocument", "RunDocument", "LedgerDocument"} | {
    "KeysDocument", "ProofDocument", "KeyList", "ChangeList", "PasskeyList", "SessionDocument"
}  # fmt: skip
"""Answers of the admin service with sequences that grow with one thing that is named, or with what is open."""


async def asked(simulation: Simulation, one: Get, recipe: str, query: str) -> tuple[list[Any], Any]:
    """The items of a page of a list, and what the next one is asked for by."""
    path = one.path.replace("{hash}", recipe).replace("{recipe_hash}", recipe)
    if one.service == "recipe_server":
        answer = await simulation.network.request("GET", f"{simulation.layout.urls[one.service]}{path}?{query}")
        assert answer.status == 200, answer.body
        page = json.loads(answer.body)
    else:
        page = await simulation.operator(one.service, "GET", f"{path}?{query}")
    following = page.pop("next")
    (items,) = (value for value in page.values() if isinstance(value, list))
    return items, following


async def test_every_list_is_told_by_pages_of_the_size_that_is_asked_for(template: Template, tmp_path: Path) -> None:
    simulation = Simulation(template.copy(tmp_path / "stack"))
    batches = simulation.recipe(name="batches", token=simulation.slot(1), min_batch_size=3, close="at_B")
    async with simulation.running():
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(DEVICES)])
        end = EPOCH * EPOCH_SECONDS + INTERVAL_START + INTERVAL_SECONDS + 120
        pause = (end - simulation.clock.now()) / STEPS
        for _ in range(STEPS):
            simulation.clock.jump(pause)
            await simulation.step_agents()
            await simulation.step()
        for recipe in (simulation.recipe(), batches, batches):
            assert (await simulation.collect(recipe))["state"] == "released"
        await simulation.settle("collector")
        for one in LISTS:
            cursor = "after" if one.service == "recipe_server" else "cursor"
            found: list[Any] = []
            items, following = await asked(simulation, one, batches.hash_text, "limit=1")
            while True:
                assert len(items) <= 1, one
                found += items
                if following is None:
                    break
                query = f"limit=1&{cursor}={following}"
                items, following = await asked(simulation, one, batches.hash_text, query)
            whole, _ = await asked(simulation, one, batches.hash_text, "")
            assert found == whole, one
            assert len(found) >= (0 if one.service in UNUSED else 2), one
    assert {one.service for one in LISTS} <= set(simulation.layout.services)


@pytest.mark.parametrize("route", [one for one in ROUTES if one.method == "GET"], ids=lambda one: one.path)
def test_what_the_admin_service_lists_has_pages_or_a_bound(route: Route) -> None:
    answer = route.answers.get(200)
    fields = {} if answer is None else answer.model_fields
    kinds = [str(one.annotation) for one in fields.values()]
    sequences = [kind for kind in kinds if "list[" in kind or "tuple[" in kind]
    if answer is not None and sequences and answer.__name__ not in BOUNDED:
        assert route.paged
        assert "next" in fields
