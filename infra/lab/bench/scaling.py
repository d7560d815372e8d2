"""How aggregation speeds up with further workers on one database: one leader and one helper worker, and two of each.

Reports are uploaded while no worker runs; the figure is the wall time for each from the moment at which the workers run
until all are counted. Every worker process has the same share of one processor and no more, so that the workers are
what is scarce, and the database is not; more shares than that would need as many machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from infra.lab.bench.ingest import BATCH_SIZE, SUBJECT
from infra.lab.bench.loading.contributions import prepare
from infra.lab.bench.loading.database_sizes import weigh
from infra.lab.bench.loading.live import LiveStack, laid_out, run_on
from infra.lab.bench.loading.load import send_all
from infra.lab.bench.loading.storage import POSTGRES, has_postgres
from infra.lab.bench.rows import Row, Timing
from infra.lab.bench.targets import SCALED
from infra.stacks.deployment import Deployment
from tacit.errors import Fatal, UsageError

ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Where the controller of processor time is: in a hierarchy of its own, or in the one of all controllers."""
PERIOD_US = 20_000
LEAST_SHARE = 0.05

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


@contextlib.contextmanager
def limited(pids: Sequence[int], share: float) -> Iterator[None]:
    """Give each of the processes at most ``share`` of one processor while the block runs. Raises ``UsageError`` where
    this user may not, or the system has no such limits."""
    if not LEAST_SHARE <= share <= 1:
        raise UsageError(f"a share of a processor is between {LEAST_SHARE} and 1")
    with contextlib.ExitStack() as stack:
        for pid in pids:
            stack.enter_context(_group(pid, round(share * PERIOD_US)))
        yield


@contextlib.contextmanager
def _group(pid: int, quota_us: int) -> Iterator[None]:
    root = next((root for root in ROOTS if (root / "cgroup.procs").exists()), None)
    if root is None:
        raise UsageError("this system has no control groups for processor time")
    folder = root / f"tacit-bench-{os.getpid()}-{pid}"
    try:
        folder.mkdir()
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US), "utf-8")
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us), "utf-8")
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}", "utf-8")
        (folder / "cgroup.procs").write_text(str(pid), "utf-8")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise UsageError(f"limits of processor time need root and the cpu controller: {error.strerror}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (root / "cgroup.procs").write_text(str(pid), "utf-8")
        with contextlib.suppress(OSError):
            folder.rmdir()
