"""A fleet of the shuffled model over the real wire: what was sent is what was shuffled, forwarded and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import infra.lab.fleet.oracle as oracle_module
from infra.lab.devices import faulty_transports, sender
from infra.lab.devices.faults import parse_faults
from infra.lab.fleet.oracle import Oracle
from infra.lab.fleet.origin import population_of, slot_private_key
from infra.lab.fleet.result import FleetResult
from tacit.recipe.builder import propose
from tacit.recipe.model import Recipe
from tacit.recipe.survey import Survey
from tests.e2e.test_fleet import EPOCH_SECONDS, Stage

DEVICES = 300
COUNTS = {"a": 200, "b": 60, "": 40}
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(faulty_transports, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(sender, "AWAY_SECONDS", 0.2)
    monkeypatch.setattr(oracle_module, "POLL_SECONDS", 0.05)
    async with Stage(tmp_path / "stack").running() as running:
        yield running


def recipe_of(stage: Stage, randomizer: str, slot: int) -> Recipe:
    start = int(stage.clock.now()) // 60 * 60
    body = {
        "name": f"shuffled-{randomizer}",
        "model": "shuffled",
        "randomizer": randomizer,
        "metric": "word",
        "encoder": CATEGORIES,
        "population": DEVICES,
        "rate": "1",
        "min_batch_size": 240,
        "start": start,
        "duration": 1800,
        "epoch": start // EPOCH_SECONDS,
        "slot": slot,
    }
    return propose(Survey.from_body(body), stage.layout.parties_of("shuffled"))


async def sent(stage: Stage, recipe: Recipe, rows: Path, faults: str) -> tuple[Oracle, FleetResult]:
    target = await stage.published(recipe)
    oracle = Oracle(stage.layout, target, stage.clock)
    await oracle.before(stage.transport)
    plan = stage.plan(
        target,
        recipe.name,
        devices=DEVICES,
        population=population_of(recipe, None, rows, "word"),
        slot_key=await slot_private_key(stage.layout, target),
        faults=parse_faults(faults),
        everybody=True,
    )
    return oracle, await stage.run(plan)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-8, "six standard errors of the answers that the oracle compares and that are not cut")
async def test_what_devices_sent_is_what_comes_out_behind_the_shuffler(stage: Stage, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    words = [word for word, count in COUNTS.items() for _ in range(count)]
    rows.write_text("device,word\n" + "".join(f"{number},{word}\n" for number, word in enumerate(words)))
    recipes = [recipe_of(stage, "zsum", 0), recipe_of(stage, "unbiased", 1)]
    runs = [await sent(stage, recipe, rows, "duplicate=0.02,truncated=0.02,abort=0.02") for recipe in recipes]
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
