"""The measurements of running services, on small numbers: they come to an end, and every party has its row."""

from __future__ import annotations

import shutil

import pytest

from infra.lab.bench.admin import MIX, PAGES, Asked, admin_rows
from infra.lab.bench.agents import OWN, agent_rows
from infra.lab.bench.device import HOSTED, PARTS, WHOLE, device_rows
from infra.lab.bench.ingest import PERCENTILES, ingest_rows
from infra.lab.bench.overload import LISTENERS, overload_rows
from infra.lab.bench.pipeline import pipeline_rows
from infra.lab.bench.targets import ADMIN_LATENCY, ADMIN_MEMORY, ADMIN_PAINT, AGENTS, IDLE, UNDER_ATTACK, WEIGHT

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


def test_agents_cost_less_together_than_alone() -> None:
    rows = {(row.stage, row.path): row for row in agent_rows(1, hosted=6, alone=1, window=3.0)}
    assert set(rows) == {(stage, path) for stage in AGENTS for path in (OWN, "host, 6 devices")}
    assert all(row.us_per_report > 0 or row.stage == IDLE for row in rows.values()), "three seconds without any work"
    alone, hosted = rows[WEIGHT, OWN], rows[WEIGHT, "host, 6 devices"]
    assert hosted.ratio == alone.us_per_report / hosted.us_per_report > 2


def test_a_contribution_costs_its_device_the_sum_of_its_parts() -> None:
    rows = {row.path: row.us_per_report for row in device_rows(3)}
    assert list(rows) == [WHOLE, HOSTED, *PARTS]
    assert all(0 < rows[part] < rows[WHOLE] for part in PARTS)


@pytest.mark.slow
def test_the_admin_api_answers_beside_a_past_of_its_own() -> None:
    pages = 1 if shutil.which("chromium") else 0
    rows = list(admin_rows(Asked(recipes=4, rows=600, rate=20, seconds=2, pages=pages)))
    latencies = {row.role: row.us_per_report for row in rows if row.stage == ADMIN_LATENCY}
    assert set(latencies) == {"p50", "p99", *(f"p99 of {kind}" for kind in MIX)}
    assert 0 < latencies["p50"] <= latencies["p99"]
    (memory,) = [row.us_per_report for row in rows if row.stage == ADMIN_MEMORY]
    assert 1 << 20 < memory < 512 << 20
    paints = [row.us_per_report for row in rows if row.stage == ADMIN_PAINT]
    assert len(paints) == pages * len(PAGES)
    assert all(one > 0 for one in paints)
