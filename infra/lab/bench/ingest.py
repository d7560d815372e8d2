"""The cost of accepting a contribution: relay, gateway with leader uploads, and database, as real processes.

Contributions are prepared beforehand. With PostgreSQL the process that works on jobs is stopped meanwhile; with SQLite,
where one process does both, there are as few jobs as possible. The figures are the CPU time of every server process per
contribution at each offered rate, and how long uploads took to be acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from infra.lab.bench.loading.contributions import Contribution, prepare
from infra.lab.bench.loading.implementations import OPENSSL
from infra.lab.bench.loading.live import BUCKETS, LiveStack, default_servers, laid_out, path_of, run_on
from infra.lab.bench.loading.load import Load, send_all
from infra.lab.bench.rows import Row, Subject, Timing
from infra.stacks.deployment import Deployment
from tacit.errors import Fatal

RATES = {0.0: 2000, 1000.0: 2000, 200.0: 400}
"""Offered contributions per second (0: as fast as they are answered) -> contributions per repetition."""
PARTIES = ("relay", "gateway", "gateway + uploads", "leader", "helper", "database", "redis", "mosquitto")
"""The services whose CPU time is counted; the other services poll and wait at their own pace."""
TOTAL, BESIDE = "all servers", "others"
FEW_JOBS = {"job_size": 4096, "min_job_size": 1 << 30, "max_job_delay": 3600.0}
BATCH_SIZE = 1_000_000
WARM_UP = 200
SUBJECT = Subject("histogram", {"length": BUCKETS})
PERCENTILES = (50, 99)


def ingest_rows(
    repetitions: int, servers: frozenset[str] | None = None, rates: dict[float, int] | None = None
) -> Iterator[Row]:
    """Measure, at each rate and with gateway and uploads in one process: every party's CPU time, their sum, and two
    percentiles of the upload latency."""
    beside = default_servers() if servers is None else servers
    plan = RATES if rates is None else rates
    path = path_of(OPENSSL, beside, together=True)
    with laid_out(beside, Deployment(together=True), limits=FEW_JOBS) as site:
        runs = run_on(site, lambda stack: _measure(stack, plan, repetitions))
    for rate, some in runs.items():
        yield from cost_rows("ingest", path, rate, [cost for cost, _ in some])
        yield from latency_rows("upload latency", path, rate, [load for _, load in some])


def cost_rows(stage: str, path: str, rate: float, costs: list[dict[str, float]]) -> Iterator[Row]:
    """Yield a row per party, one for their sum, and one for the other services. ``costs``: CPU seconds per contribution
    by party, one mapping per repetition."""
    for party in PARTIES:
        if any(party in cost for cost in costs):
            timing = Timing.of([cost.get(party, 0.0) for cost in costs])
            yield SUBJECT.row(stage, party, path, timing, offered_rate=rate)
    inside = [sum(cost.get(party, 0.0) for party in PARTIES) for cost in costs]
    yield SUBJECT.row(stage, TOTAL, path, Timing.of(inside), offered_rate=rate)
    beside = [sum(cost.values()) - one for cost, one in zip(costs, inside, strict=True)]
    yield SUBJECT.row(stage, BESIDE, path, Timing.of(beside), offered_rate=rate)


def latency_rows(stage: str, path: str, rate: float, loads: list[Load]) -> Iterator[Row]:
    """Yield a row per percentile of the wall time until an upload was acknowledged."""
    for share in PERCENTILES:
        timing = Timing.of([load.percentile(share) for load in loads])
        yield SUBJECT.row(stage, f"p{share}", path, timing, offered_rate=rate)


def spent(before: dict[str, float], after: dict[str, float], units: int) -> dict[str, float]:
    """Return CPU seconds per unit and party between two readings; parties that used none are left out."""
    parties = {party: (after[party] - before.get(party, 0.0)) / units for party in after}
    return {party: seconds for party, seconds in parties.items() if seconds > 0}


async def warm_up(stack: LiveStack, made: Iterator[Contribution]) -> int:
    """Send some contributions that no row counts, so that a service's one-time work is done. Returns how many."""
    await send_all(stack.layout.urls["relay"], [next(made).message for _ in range(WARM_UP)])
    return WARM_UP


async def _measure(
    stack: LiveStack, plan: dict[float, int], repetitions: int
) -> dict[float, list[tuple[dict[str, float], Load]]]:
    order = await stack.publish(BATCH_SIZE, "at_B")  # unlike those of an interval, its jobs respect ``FEW_JOBS``
    found: dict[float, list[Any]] = {}
    total = WARM_UP + sum(plan.values()) * repetitions
    made = iter(await asyncio.to_thread(prepare, order, total, time.time()))
    sent = await warm_up(stack, made)
    with stack.paused("leader"):
        for rate, count in plan.items():
            for _ in range(repetitions):
                messages = [next(made).message for _ in range(count)]
                before = stack.cpu()
                load = await send_all(stack.layout.urls["relay"], messages, rate)
                found.setdefault(rate, []).append((spent(before, stack.cpu(), count), load))
                sent += count
    await stack.require_stored(order.recipe, sent)
    if not found:
        raise Fatal("no rate to offer")
    return found
