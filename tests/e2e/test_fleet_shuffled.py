"""A fleet of the shuffled model over the real wire: what was sent is what was shuffled, forwarded and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import infra.lab.devices.shard as shard_module
import tacit.methods.result as result_module
from tacit.recipe.model import Recipe
from tests.e2e.test_fleet import Stage, quick_stage

DEVICES = 300
COUNTS = {"a": 200, "b": 60, "": 40}
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with quick_stage(tmp_path, monkeypatch) as running:
        yield running


def recipe_of(stage: Stage, randomizer: str, slot: int) -> Recipe:
    asked = {"randomizer": randomizer, "encoder": CATEGORIES, "population": DEVICES, "min_batch_size": 240}
    return stage.recipe("shuffled", f"shuffled-{randomizer}", slot, **asked)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-8, "six standard errors of the answers that the oracle compares and that are not cut")
async def test_what_devices_sent_is_what_comes_out_behind_the_shuffler(stage: Stage) -> None:
    words = [word for word, count in COUNTS.items() for _ in range(count)]
    recipes = [recipe_of(stage, "zsum", 0), recipe_of(stage, "unbiased", 1)]
    runs = [await stage.answered(recipe, words, "duplicate=0.02,truncated=0.02,abort=0.02") for recipe in recipes]
    stage.clock.jump(max(recipe.interval.end for recipe in recipes) - stage.clock.now() + 2)
    for oracle, result in runs:
        verdict = await stage.verdict(oracle, result)
        assert verdict.remarks == []
        assert verdict.holds, [one for one in verdict.findings if not one.holds]
        names = {one.what for one in verdict.findings}
        assert {"shuffler: accepted", "shuffler: stored", "released: a", "released: no value"} <= names
        shown = [answer for answer in verdict.answers if answer.estimate]
        assert shown
        assert all(abs(answer.estimate - answer.truth) < 6 * answer.stderr for answer in shown)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-8, "six standard errors of the answers that the oracle compares")
@pytest.mark.parametrize(("dap", "through"), [("dap-18", "shuffler"), ("dap-19", "shuffler"), ("dap-19", "gateway")])
async def test_what_devices_sent_is_what_leader_and_helper_release_in_every_version_of_dap(
    stage: Stage, dap: str, through: str
) -> None:
    words = [word for word, count in COUNTS.items() for _ in range(count)]
    asked = {"encoder": CATEGORIES, "population": DEVICES, "min_batch_size": 240}
    recipe = stage.recipe("secure-aggregation", "mixed", 0, dap_version=dap, through=through, **asked)
    oracle, result = await stage.answered(recipe, words, "duplicate=0.02,truncated=0.02,abort=0.02")
    stage.clock.jump(recipe.interval.end - stage.clock.now() + 2)
    verdict = await stage.verdict(oracle, result)
    assert verdict.remarks == []
    assert verdict.holds, [one for one in verdict.findings if not one.holds]
    found = {one.what for one in verdict.findings}
    assert ("released: a" in found, "shuffler: stored" in found) == (True, through == "shuffler")
    assert all(abs(answer.estimate - answer.truth) < 6 * answer.stderr for answer in verdict.answers)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-7, "six standard errors of the noise in each of 60 answers")
async def test_of_more_answers_than_a_result_lists_those_above_the_cut_come_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (result_module, shard_module):
        monkeypatch.setattr(module, "MOST_LISTED", 50)
    asked = {"statistic": "histogram", "randomizer": "flipped", "population": DEVICES, "min_batch_size": 280}
    recipe = stage.recipe("shuffled", "numbers", 0, encoder={"kind": "number", "low": 1, "high": 60}, **asked)
    words = ["7"] * 160 + ["60"] * 120 + ["1"] * 10 + [""] * 10
    oracle, result = await stage.answered(recipe, words, "")
    stage.clock.jump(recipe.interval.end - stage.clock.now() + 2)
    verdict = await stage.verdict(oracle, result)
    assert verdict.remarks == []
    assert verdict.holds, [one for one in verdict.findings if not one.holds]
    names = {one.what for one in verdict.findings}
    assert {"released: 7", "released: 60", "released: answers that are not listed"} <= names
    truths = {answer.label: answer.truth for answer in verdict.answers}
    assert (truths["7"], truths["60"]) == (160, 120)
    assert all(abs(answer.estimate - answer.truth) < 6 * answer.stderr for answer in verdict.answers)
