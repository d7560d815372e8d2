"""Reports from devices through relay, gateway and shuffler to leader and helper, and a release at the collector."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tacit.models.faces.device import Fate
from tests.http.mixed_stage import PER_REQUEST, B, MixedStage, mixed_stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[MixedStage]:
    async with mixed_stage(tmp_path) as found:
        yield found


async def test_reports_of_devices_become_a_release(stage: MixedStage) -> None:
    for name in ("shuffler", "leader", "helper"):
        assert await stage.states(name) == {stage.recipe.hash_text: "active"}
    count = B + 10
    for number in range(count):
        assert (await stage.send(stage.devices.report(number % 16))).fate is Fate.STORED
    assert (await stage.status("leader"))["uploaded"] == 0
    assert (await stage.collect())["state"] == "collecting"
    stage.end_interval()
    assert (await stage.collect())["state"] == "collecting", "the shuffler has not forwarded anything"
    assert await stage.forwarding.step() == -(-count // PER_REQUEST) + 1
    assert await stage.forwarding.step() == 0
    assert (await stage.collect())["state"] == "released"
    (result,) = await stage.results()
    assert result["report_count"] == count
    assert [(await stage.status(name))["aggregated"] for name in ("shuffler", "leader", "helper")] == [count] * 3
