"""``tacit bench soak`` on small numbers: every contribution is made while others are sent, counted, and released."""

from __future__ import annotations

import pytest

from infra.lab.bench.loading.storage import POSTGRES, has_postgres
from infra.lab.bench.soak import run
from infra.lab.bench.soak.report import costs, kept_bytes, memory, verdicts
from infra.lab.bench.soak.run import GENERATOR, Plan, soak

pytestmark = pytest.mark.slow
MIB = 1 << 20
with_postgres = pytest.mark.skipif(not has_postgres(), reason="PostgreSQL is not installed")


@pytest.mark.parametrize(
    ("servers", "tasks"),
    [(frozenset[str](), 3), pytest.param(frozenset({POSTGRES}), 1, marks=with_postgres)],
    ids=["sqlite", "postgres"],
)
def test_a_run_releases_every_batch_and_finds_what_it_sent(
    monkeypatch: pytest.MonkeyPatch, servers: frozenset[str], tasks: int
) -> None:
    monkeypatch.setattr(run, "SWEPT_SECONDS", 1.0)
    told: list[float] = []
    plan = Plan.of(600, tasks)
    found = soak(plan, servers, told.append)
    assert found.errors == []
    last = found.samples[-1]
    assert (last.sent, last.releases, last.released) == (plan.reports, plan.rounds * tasks, True)
    assert all(size.counted == plan.reports for size in last.databases.values())
    assert [sample.releases for sample in found.samples if sample.released] == [
        tasks * (number + 1) for number in range(plan.rounds)
    ]
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert {"memory, relay", "memory, helper", f"memory, {GENERATOR}"} <= {one.subject for one in memory(found)}
    assert all(value > MIB for one in memory(found) for value in one.values)
    assert all(value > 0 for value in costs(found)[-1].values)
    assert all(size > 100 for size in kept_bytes(found).values()), "a nullifier and a digest, at least"
    assert {one.subject for one in verdicts(found)} > {"CPU, all servers", "database after a release, leader"}
