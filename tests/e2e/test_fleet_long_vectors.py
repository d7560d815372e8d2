"""Vectors of ten thousand entries over the real wire: 3 MB a report, through relay, gateway, leader and helper.

A two-layer network of 9,985 parameters without a projection; the release is the sum of what was sent."""

from __future__ import annotations

from pathlib import Path

import pytest

import infra.lab.fleet.oracle as oracle_module
from relay.handlers import RELAY
from tacit.learning.plan import EXAMPLE, Plan
from tacit.ohttp import LARGE_CLASSES
from tacit.operations.learning.plans import forecast
from tacit.recipe.policy import Policy, upload_limits
from tests.e2e.test_fleet import Stage
from tests.e2e.test_fleet_learning import opened, published, trained
from tests.kit.simulation import HIGH_CAPS, relax

DEVICES = 30
PLAN = Plan.model_validate(
    {
        **EXAMPLE,
        "training": {
            **EXAMPLE["training"],  # type: ignore[dict-item]
            "architecture": {"kind": "two-layer", "inputs": 64, "hidden": 133, "classes": 10},
        },
        "devices": DEVICES,
        "rate": "0.95",
        "min_batch_size": 20,
        "rounds": 1,
        "round_seconds": 1200,
        "release_seconds": 1200,
        "epsilon": 4,
        "delta": "0.000001",
    }
)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-5, "fewer than 20 of 30 coins of probability 0.95, entries 8 standard errors away")
async def test_a_round_of_ten_thousand_entries_releases_the_sum_of_what_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle_module, "POLL_SECONDS", 0.05)
    found = forecast(PLAN, Policy.model_validate(upload_limits(LARGE_CLASSES[-1])))
    assert found.contribution_bytes > 3_000_000
    stage = Stage(tmp_path / "stack", max_upload=LARGE_CLASSES[-1])
    relax(tmp_path / "stack", **HIGH_CAPS)
    async with stage.running() as running:
        series = await published(running, PLAN)
        takers, (_, released) = await trained(running, await opened(running, series, [], PLAN), DEVICES)
        assert len(takers) >= PLAN.min_batch_size
        assert released[0]["report_count"] == len(takers)
        forwarded = running.stack.apps["relay"][RELAY].counters.totals()["forwarded_bytes"]
        assert forwarded >= len(takers) * LARGE_CLASSES[-1], "each report is padded to the largest class"
