"""The page of a series that trains a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.recipes import RecipeKit
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tests.http.admin_collector import CollectorStub, beside
from tests.http.admin_stage import KIT, prepared
from tests.http.model_stage import MODEL, OTHER, POLICY, SERIES, round_of
from tests.http.test_admin_pages import Html, signed_in


def released(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name, "recipe_hash": recipe.hash_text, "batch": 0, "statistic": "vector-sum",
        "report_count": 321, "released_at": recipe.interval.end + 9,
        "interval": {"start": recipe.interval.start, "duration": recipe.interval.duration},
        "buckets": [{"label": label, "count": 1, "estimate": 0.5, "stderr": 0.1} for label in labels(recipe)],
    }  # fmt: skip


async def test_the_page_of_a_training_run_shows_its_models_and_contributions_and_no_entry_of_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecipeKit, "policy", POLICY)
    collector, first, second = CollectorStub(), round_of(), round_of(1, OTHER)
    async with prepared(tmp_path) as stage:
        await stage.start(**await beside(stage, collector))
        for leaf in (KIT.series_leaf(SERIES), KIT.recipe_leaf(first), KIT.recipe_leaf(second)):
            assert (await stage.post_leaf(leaf)).status == 201
        collector.released = [released(first)]
        await stage.clock.advance(BESIDE_SECONDS)
        browser = await signed_in(stage, "viewer")
        await browser.get(f"/series/{SERIES.hash_text}")
        assert not Html(browser.page).wrong
        assert "A training run" in browser.page
        for shown in (MODEL.stated().model[:8], OTHER.stated().model[:8], ">321<", "not yet"):
            assert shown in browser.page
        for hidden in ("Estimates", "Over time", "No round has been released"):
            assert hidden not in browser.page
