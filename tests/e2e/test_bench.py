"""The measurements of running services, on small numbers: they come to an end, and every party has its row."""

from __future__ import annotations

import pytest

from infra.lab.bench.ingest import PERCENTILES, ingest_rows
from infra.lab.bench.overload import LISTENERS, overload_rows
from infra.lab.bench.pipeline import pipeline_rows
from infra.lab.bench.targets import UNDER_ATTACK

pytestmark = pytest.mark.slow
SERVERS = {"relay", "all servers"}
TOGETHER, APART = {"gateway + uploads"}, {"gateway", "leader"}


def test_ingest_gives_each_server_its_processor_time_and_the_latency() -> None:
    rows = list(ingest_rows(1, rates={0.0: 60, 500.0: 60}))
    for rate in (0.0, 500.0):
        of_rate = [row for row in rows if row.offered_rate == rate]
        assert {row.role for row in of_rate if row.stage == "ingest"} >= SERVERS | TOGETHER
        assert len([row for row in of_rate if row.stage == "upload latency"]) == len(PERCENTILES)
    assert all(row.us_per_report > 0 for row in rows if row.role in SERVERS | TOGETHER)


def test_pipeline_counts_every_contribution_releases_at_b_and_weighs_the_queue() -> None:
    rows = list(pipeline_rows(1, queued=(200, 400), rates={0.0: 120}, at_b=100))
    assert {row.role for row in rows if row.stage == "whole server side"} >= SERVERS | TOGETHER | APART | {"helper"}
    assert [row.role for row in rows if row.stage == "release latency at B"]
    weighed = {(row.stage, row.role): row for row in rows if row.stage.startswith("memory")}
    assert set(weighed) == {(f"memory, {n} queued", role) for n in (200, 400) for role in ("leader", "helper")}
    assert all(row.us_per_report > 1 << 20 for row in weighed.values())


def test_overload_compares_honest_uploads_beside_attackers_with_those_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.lab.bench.overload.ATTACKERS", {"silent": 40, "flood": 8})
    rows = list(overload_rows(1, frozenset(), count=40, kinds=("silent", "flood")))
    attacked = {row.role: row for row in rows if row.stage == UNDER_ATTACK}
    assert {f"p99, {kind} at the {name}" for kind in ("silent", "flood") for name in LISTENERS} <= set(attacked)
    assert all(row.ratio is not None and row.ratio > 0 for row in attacked.values())
