"""A fleet that trains a model in the rounds of a series over the real wire: the releases are the sums of what was sent.

Every device tosses its own coin in each round, trains the round's model on its own digits, and proves the norm."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import infra.lab.fleet.oracle as oracle_module
from client_agent.journal import State
from infra.lab.devices.destination import Destination
from infra.lab.devices.journal import CODES
from infra.lab.fleet.oracle import Oracle
from infra.lab.fleet.origin import slot_private_key
from infra.lab.fleet.run import learners_of
from infra.stacks.layout import signing_key_of
from infra.stacks.options import OPERATORS
from tacit.errors import UsageError
from tacit.learning.plan import EXAMPLE, Plan
from tacit.operations.calls import call
from tacit.operations.learning.plans import planned_series
from tacit.operations.learning.rounds import next_round, run_of
from tacit.operations.publishing import send_model
from tacit.operations.series_rounds import Asked
from tacit.recipe.model import TokenSlot
from tacit.recipe.series import Series
from tacit.recipe.training import read_round_model
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.e2e.test_fleet import EPOCH_SECONDS, Stage
from tests.kit.fleet_journal import read_journal
from tests.kit.simulation import HIGH_CAPS, relax

DEVICES = 150
PLAN = Plan.model_validate(
    {
        **EXAMPLE,
        "devices": DEVICES,
        "rate": "0.5",
        "min_batch_size": 40,
        "rounds": 2,
        "round_seconds": 1200,
        "release_seconds": 1200,
        "epsilon": 6,
        "delta": "0.000001",
    }
)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(oracle_module, "POLL_SECONDS", 0.05)
    made = Stage(tmp_path / "stack")
    relax(tmp_path / "stack", **HIGH_CAPS)
    async with made.running() as running:
        yield running


async def published(stage: Stage, plan: Plan = PLAN) -> Series:
    """The series of the plan, whose first round begins in two minutes."""
    start = int(stage.clock.now()) // 60 * 60 + 120
    token = TokenSlot(issuer=OPERATORS["issuer"], epoch=start // EPOCH_SECONDS, slot=0)
    series = planned_series(plan, stage.layout.parties, start, token, plan.rounds)
    await post(stage, LeafType.SERIES, series.body())
    return series


async def post(stage: Stage, kind: LeafType, body: Mapping[str, Any]) -> None:
    leaf = sign_leaf(kind, body, stage.layout.parties.analyst.operator, signing_key_of(stage.layout))
    url = f"{stage.layout.urls['recipe_server']}/v1/leaves"
    headers = {"content-type": "application/json"}
    answer = await stage.transport.request("POST", url, headers=headers, body=leaf.encode())
    assert answer.status == 201, answer.body


async def opened(stage: Stage, series: Series, asked: list[Asked], plan: Plan = PLAN) -> Destination:
    """The next round, published with its model, as a device verifies it once it has begun."""
    following = next_round(plan, series, run_of(plan, series, asked), stage.clock.now())
    assert following is not None
    recipe = following.recipe
    await post(stage, LeafType.RECIPE, recipe.body())
    for _ in range(3):
        await stage.stack.step("leader", "helper", "collector")
    with pytest.raises(UsageError, match="model"):
        await stage.verified(recipe.name)
    stated = read_round_model(recipe.question.round_input or "", plan.training)
    await send_model(stage.transport, stage.layout.urls["recipe_server"], stated, following.model)
    stage.clock.jump(max(0.0, recipe.interval.start + 1 - stage.clock.now()))
    return await stage.verified(recipe.name)


async def trained(stage: Stage, target: Destination, devices: int = DEVICES) -> tuple[set[int], Asked]:
    """A round of a fleet of so many ``devices``: who took part, and what was released."""
    oracle, recipe = Oracle(stage.layout, target, stage.clock), target.recipe
    await oracle.before(stage.transport)
    key, population = await slot_private_key(stage.layout, target), learners_of(target, devices, 0.0)
    plan = stage.plan(target, recipe.name, devices=devices, slot_key=key, population=population, everybody=True)
    result = await stage.run(plan)
    stage.clock.jump(recipe.interval.end - stage.clock.now() + 2)
    verdict = await stage.verdict(oracle, result)
    assert verdict.remarks == []
    assert verdict.holds, [one for one in verdict.findings if not one.holds]
    assert [one.found for one in verdict.findings if one.what == "released: sums that agree"] == [
        recipe.randomizer.categories
    ]
    assert all(abs(one.estimate - one.truth) < 8 * one.stderr for one in verdict.answers)
    result.deliveries.sums[recipe.randomizer.categories - 1] += 1
    found = (await stage.verdict(oracle, result, 0.0)).findings
    assert [one.expected - one.found for one in found if not one.holds] == [1, 1]
    lines = read_journal(plan.journal)[1]
    takers = {int(one) for one in lines["device"][lines["state"] == CODES[State.SENT]]}
    assert len(takers) == result.sampled
    base, bearer = stage.layout.urls["collector"], stage.layout.operator_token("collector")
    released = await call(stage.transport, "GET", f"{base}/v1/results/{recipe.hash_text}", bearer=bearer)
    return takers, (recipe, released["results"])


@pytest.mark.false_alarm(1e-9, "entries 8 standard errors away, fewer than 40 of 150 coins of probability 0.5")
async def test_each_round_releases_the_sum_of_the_updates_of_those_whose_coin_said_yes(stage: Stage) -> None:
    series = await published(stage)
    first, released = await trained(stage, await opened(stage, series, []))
    second, _ = await trained(stage, await opened(stage, series, [released]))
    assert first & second, "a device may take part in several rounds"
    assert first - second
    assert second - first
