"""A fleet of the local model over the real wire: what was sent is what was kept, counted and found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tacit.recipe.model import Recipe
from tests.e2e.test_fleet import Stage, quick_stage

DEVICES = 600
COUNTS = {"ab": 450, "c": 100, "much too long": 20, "": 30}
STRINGS = {"kind": "strings", "length": 2, "alphabet": "abc"}
CATEGORIES = {"kind": "categories", "categories": ["ab", "c", "d"]}


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with quick_stage(tmp_path, monkeypatch) as running:
        yield running


def recipe_of(stage: Stage, encoder: dict[str, Any], slot: int) -> Recipe:
    asked = {"encoder": encoder, "population": DEVICES, "epsilon": "1", "min_batch_size": 300}
    return stage.recipe("local", f"local-{encoder['kind']}", slot, **asked)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-8, "six standard errors of the answers that the oracle compares")
async def test_texts_and_categories_are_found_as_often_as_devices_have_them(stage: Stage) -> None:
    words = [word for word, count in COUNTS.items() for _ in range(count)]
    recipes = [recipe_of(stage, STRINGS, 0), recipe_of(stage, CATEGORIES, 1)]
    runs = [await stage.answered(recipe, words, "duplicate=0.05,truncated=0.05,abort=0.05") for recipe in recipes]
    stage.clock.jump(max(recipe.interval.end for recipe in recipes) - stage.clock.now() + 2)
    found = []
    for oracle, result in runs:
        verdict = await stage.verdict(oracle, result)
        assert verdict.remarks == []
        assert verdict.holds, [one for one in verdict.findings if not one.holds]
        assert {"analyzer: accepted", "analyzer: stored", "analyzer: rejected"} <= {
            one.what for one in verdict.findings
        }
        for answer in verdict.answers:
            assert abs(answer.estimate - answer.truth) < 6 * answer.stderr, answer
        found.append({answer.label: answer.truth for answer in verdict.answers})
    texts, categories = found
    assert texts["ab"] == categories["ab"] == COUNTS["ab"]
    assert {"ab", "c", "d"} <= set(categories)
