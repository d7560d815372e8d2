"""A fleet whose devices watch an event, over the real wire: streams, encrypted states, reports, what was released."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.devices.faults import Fault, parse_faults
from infra.lab.fleet.oracle import Oracle, Verdict
from infra.lab.fleet.origin import population_of, slot_private_key, state_keys
from infra.lab.fleet.result import FleetResult
from infra.lab.fleet.run import Data, Load, open_fleet
from tacit.errors import UsageError
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tests.e2e.test_fleet import EPOCH_SECONDS, Stage, quick_stage

DEVICES = 120
STEPS = 5
ONE, TWO = "pan-private-single", "pan-private"


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with quick_stage(tmp_path, monkeypatch) as running:
        yield running


def recipe_of(stage: Stage, model: str, statistic: str, slot: int) -> Recipe:
    """Visits in five minutes that are over, asked of every device for half an hour."""
    start = int(stage.clock.now()) // 60 * 60
    most: dict[str, Any] = {} if statistic == "count" else {"most": 2}
    period = {"start": start - STEPS * 60, "step_seconds": 60, "steps": STEPS}
    body = {
        "name": f"{model}-{statistic}",
        "model": model,
        "metric": "visit",
        "statistic": statistic,
        "encoder": {"kind": "occurrences", **period, **most},
        "population": DEVICES,
        "rate": "1",
        "min_batch_size": 60,
        "start": start,
        "duration": 1800,
        "epoch": start // EPOCH_SECONDS,
        "slot": slot,
    }
    return propose(Survey.from_body(body), stage.layout.parties_of(model))


async def sent(stage: Stage, recipe: Recipe, faults: str = "") -> tuple[Oracle, FleetResult]:
    target = await stage.published(recipe)
    oracle = Oracle(stage.layout, target, stage.clock)
    await oracle.before(stage.transport)
    plan = stage.plan(
        target,
        recipe.name,
        devices=DEVICES,
        population=population_of(recipe, "events:0.2", None, None),
        slot_key=await slot_private_key(stage.layout, target),
        state_keys=state_keys(stage.layout, recipe),
        faults=parse_faults(faults),
        everybody=True,
    )
    return oracle, await stage.run(plan)


async def assert_judged(stage: Stage, recipe: Recipe, oracle: Oracle, result: FleetResult) -> Verdict:
    verdict = await stage.verdict(oracle, result)
    assert verdict.remarks == []
    assert verdict.holds, [one for one in verdict.findings if not one.holds]
    assert {f"released: {label}" for label in labels(recipe)} <= {one.what for one in verdict.findings}
    assert verdict.answers
    for one in verdict.answers:
        assert abs(one.estimate - (one.truth if one.answered is None else one.answered)) < 6 * one.stderr, one
    return verdict


@pytest.mark.slow
@pytest.mark.false_alarm(1e-8, "six standard errors")
async def test_counts_of_one_server_are_what_was_sent_and_a_wrong_sum_is_found(stage: Stage) -> None:
    recipe = recipe_of(stage, ONE, "count", 0)
    oracle, result = await sent(stage, recipe, "duplicate=0.1,truncated=0.1,abort=0.05,vanish=0.05")
    assert result.injected[Fault.TRUNCATED] > 0
    assert result.contributions == result.sampled == DEVICES
    stage.clock.jump(recipe.interval.end - stage.clock.now() + 2)
    verdict = await assert_judged(stage, recipe, oracle, result)
    (answer,) = verdict.answers
    assert answer.truth == result.known[0]
    assert {"analyzer: accepted", "analyzer: stored", "analyzer: rejected"} <= {one.what for one in verdict.findings}

    result.deliveries.sums[0] += 1
    wrong = [one.what for one in (await stage.verdict(oracle, result)).findings if not one.holds]
    assert wrong == ["released: nonzero"]


@pytest.mark.slow
@pytest.mark.false_alarm(1e-7, "eight times six standard errors")
async def test_every_statistic_of_both_models_is_what_was_sent(stage: Stage) -> None:
    cells = ((ONE, "histogram"), (ONE, "mean"), (TWO, "count"), (TWO, "histogram"))
    recipes = [recipe_of(stage, *cell, slot) for slot, cell in enumerate(cells)]
    runs = [(recipe, *await sent(stage, recipe)) for recipe in recipes]
    stage.clock.jump(max(recipe.interval.end for recipe in recipes) - stage.clock.now() + 2)
    for recipe, oracle, result in runs:
        await assert_judged(stage, recipe, oracle, result)


async def test_what_a_fleet_of_watching_devices_cannot_do_is_said_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe = recipe_of(stage, ONE, "count", 0)
    target = await stage.published(recipe)
    monkeypatch.setattr("infra.lab.fleet.run.asyncio.run", lambda made: made.close() or target)

    def opened(model: str | None = None, data: Data = Data(), faults: str = "") -> None:  # noqa: B008
        open_fleet(stage.origin, recipe.name, Load(devices=5, faults=faults), data, model=model)

    opened(ONE)
    with pytest.raises(UsageError, match=f"is of model {ONE}, not {TWO}"):
        opened(TWO)
    with pytest.raises(UsageError, match="bad-proof is not for recipes that watch an event"):
        opened(faults="bad-proof=0.1")
    with pytest.raises(UsageError, match="answers as one without events"):
        opened(data=Data(missing=0.5))
    with pytest.raises(UsageError, match=r"takes events\[:RATE\]"):
        opened(data=Data("events:2"))
    rows = tmp_path / "rows.csv"
    rows.write_text("visit\n1\n-1\n")
    with pytest.raises(UsageError, match="how often the event happened"):
        opened(data=Data(file=rows))
