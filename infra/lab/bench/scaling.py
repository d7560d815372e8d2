"""How aggregation speeds up with further workers on one database: one leader and one helper worker, and two of each.

Reports are uploaded while no worker runs; the figure is the wall time for each from the moment at which the workers run
until all are counted. Every worker process has the same share of one processor and no more, so that the workers are
what is scarce, and the database is not; more shares than that would need as many machines.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from functools import partial

from infra.lab.bench.ingest import BATCH_SIZE, SUBJECT
from infra.lab.bench.loading.contributions import prepare
from infra.lab.bench.loading.database_sizes import weigh
from infra.lab.bench.loading.live import LiveStack, laid_out, run_on
from infra.lab.bench.loading.load import send_all
from infra.lab.bench.loading.quotas import limited
from infra.lab.bench.loading.storage import POSTGRES, has_postgres
from infra.lab.bench.rows import Row, Timing
from infra.lab.bench.targets import SCALED
from infra.stacks.deployment import Deployment
from tacit.errors import Fatal, UsageError

WORKERS = (1, 2)
WARM_UP = 1000
PAUSE, PATIENCE = 0.1, 600.0


def scaling_rows(repetitions: int, reports: int, share: float) -> Iterator[Row]:
    """Measure both numbers of workers in turn; a ratio is the speed over that of one leader and one helper worker, the
    median over the repetitions. Raises ``UsageError`` without PostgreSQL."""
    if not has_postgres():
        raise UsageError("several workers share a database of PostgreSQL, which is not installed")
    found: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    for _ in range(repetitions):
        for workers, seconds in found.items():
            deployment = Deployment(together=True, leader_workers=workers, helper_workers=workers)
            with laid_out(frozenset({POSTGRES}), deployment) as site:
                seconds.append(run_on(site, partial(_measure, reports=reports, share=share)))
    one = found[WORKERS[0]]
    for workers, seconds in found.items():
        ratio = statistics.median(before / now for before, now in zip(one, seconds, strict=True))
        role = f"{workers} x {workers} workers"
        yield SUBJECT.row(SCALED, role, f"postgres, {share:.0%} of a core each", Timing.of(seconds), ratio=ratio)


async def _measure(stack: LiveStack, reports: int, share: float) -> float:
    """Return the seconds for each of ``reports`` from the start of the workers until all are counted."""
    order = await stack.publish(BATCH_SIZE)
    made = await asyncio.to_thread(prepare, order, WARM_UP + reports, time.time())
    messages = [one.message for one in made]
    await send_all(stack.layout.urls["relay"], messages[:WARM_UP])
    await _until_counted(stack, WARM_UP)
    with stack.paused("leader"):
        await send_all(stack.layout.urls["relay"], messages[WARM_UP:])
    workers = [one.pid for one in stack.services if one.part.name in {"leader", "helper"}]
    with limited(workers, share):
        begun = time.perf_counter()
        await _until_counted(stack, WARM_UP + reports)
        return (time.perf_counter() - begun) / reports


async def _until_counted(stack: LiveStack, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while (found := await weigh(stack.layout, "leader")).counted < count:
        if time.monotonic() > until:
            raise Fatal(f"the leader counted {found.counted:,} of {count:,} reports and no more")
        await asyncio.sleep(PAUSE)
