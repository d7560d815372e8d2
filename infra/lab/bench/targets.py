"""The speeds that Tacit aims at, and the rows to which they apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.lab.bench.loading.implementations import MULTIBUFFER, OPENSSL, multibuffer_set
from infra.lab.bench.rows import Row

CLAIM, LEDGER = "claim, fresh interpreter", "ledger of 1,000 recipes"
ACCOUNTING = (CLAIM, LEDGER)
ALONE, READ = "claim alone", "read and claim"
ALONE_AT_RATE, UNDER_ATTACK = "upload latency, alone", "upload latency, attacked"
UPDATE, DECRYPT = "state update", "decrypt a report"
UPDATE_TIMES, CHOICE_TIMES = "state update, |t|", "choice in it, |t|"
DECRYPT_SHARE, VERIFY_CELLS = "decrypt a kept share", "verify a kept share"
OPEN = "open a report"
STARTED, IDLE, WEIGHT = "agent start, wall time", "agent idle, a second", "agent memory"
ADMIN_LATENCY, ADMIN_READ, ADMIN_MEMORY = "admin API latency", "admin log latency, first read", "admin memory"
ADMIN_CPU, ADMIN_PAINT = "admin API request", "dashboard latency, first paint"
CONTRIBUTION = "device contribution"
AGENTS, HOST = (STARTED, IDLE, WEIGHT), "host"
SCALED = "aggregation, wall time"
BEST_PATHS = ("avx512", "ifma")
IFMA, AVX2 = ("ifma",), ("avx2",)
HISTOGRAM = (256, 16)
SECOND = 1e6


@dataclass(frozen=True)
class PerformanceTarget:
    """The most, ``limit``, that rows with this stage, role and path should show; an empty field matches everything.
    ``parameters``: those of the VDAF; ``instructions``: the sets on which the multi-buffer kernels behind such a row
    must run."""

    stage: str
    limit: float
    role: str = ""
    paths: tuple[str, ...] = ()
    vdaf: str = ""
    offered_rate: float | None = None
    instructions: tuple[str, ...] = ()
    parameters: tuple[int, ...] = ()

    def concerns(self, row: Row, instructions: str) -> bool:
        """Whether the target applies to the row, whose multi-buffer kernels run on ``instructions``."""
        return (
            row.stage == self.stage
            and self.role in {"", row.role}
            and (not self.paths or row.path.split(",")[0] in self.paths)
            and self.vdaf in {"", row.vdaf}
            and self.parameters in {(), tuple(row.parameters.values())}
            and self.offered_rate in {None, row.offered_rate}
            and (not self.instructions or instructions in self.instructions)
        )


def _kernel(
    vdaf: str, paths: tuple[str, ...], helper: float, leader: float, parameters: tuple[int, ...] = ()
) -> list[PerformanceTarget]:
    limits = {"helper": helper, "leader": leader}
    return [
        PerformanceTarget("verify_init", limit, role, paths, vdaf, parameters=parameters)
        for role, limit in limits.items()
    ]


def _by_crypto(
    stage: str, openssl: float, batch: float, role: str, rate: float | None = None
) -> list[PerformanceTarget]:
    return [
        PerformanceTarget(stage, openssl, role, (OPENSSL,), offered_rate=rate),
        PerformanceTarget(stage, batch, role, (MULTIBUFFER,), offered_rate=rate, instructions=IFMA),
    ]


TARGETS: Sequence[PerformanceTarget] = (
    *_kernel("histogram", IFMA, 2.2, 1.7, HISTOGRAM),
    *_kernel("histogram", AVX2, 9.0, 7.5, HISTOGRAM),
    *_kernel("sumvec", IFMA, 6.5, 5.0),
    *_kernel("sumvec", AVX2, 27.0, 22.0),
    *_kernel("count", BEST_PATHS, 0.13, 0.08),
    *_kernel("sum", BEST_PATHS, 0.4, 0.3),
    PerformanceTarget("verify_init", 0.3, "helper", AVX2, "count"),
    PerformanceTarget("shard", 6.0, "client", IFMA, "histogram", parameters=HISTOGRAM),
    PerformanceTarget("token verify", 4.0, paths=(MULTIBUFFER,), instructions=IFMA),
    PerformanceTarget("HPKE open", 5.5, "leader", (MULTIBUFFER,), instructions=IFMA),
    PerformanceTarget("upload, group commit", 45.0, "leader"),
    *_by_crypto("aggregation job", 135.0, 45.0, "leader + helper"),
    *_by_crypto("whole server side", 350.0, 220.0, "all servers", 0.0),
    *_by_crypto("whole server side", 450.0, 300.0, "all servers", 1000.0),
    PerformanceTarget("sustained, wall time", SECOND / 5000, paths=(MULTIBUFFER,), instructions=IFMA),
    PerformanceTarget("release latency at B", 0.2 * SECOND),
    PerformanceTarget(CLAIM, 0.05 * SECOND, paths=(ALONE,)),
    PerformanceTarget(LEDGER, 2 * SECOND),
    PerformanceTarget(UPDATE, 250, paths=("one server",), vdaf="count"),
    PerformanceTarget(UPDATE, 1000, paths=("two servers",), vdaf="count"),
    PerformanceTarget(UPDATE, 4000, paths=("one server",), vdaf="histogram"),
    PerformanceTarget(UPDATE, 20_000, paths=("two servers",), vdaf="histogram"),
    PerformanceTarget(DECRYPT, SECOND / 15_000),
    PerformanceTarget(IDLE, 0.0002 * SECOND, paths=(HOST,)),
    PerformanceTarget(WEIGHT, 1 << 20, paths=(HOST,)),
    PerformanceTarget(CONTRIBUTION, 0.008 * SECOND, paths=("whole",)),
    PerformanceTarget(ADMIN_LATENCY, 0.05 * SECOND, "p99"),
    PerformanceTarget(ADMIN_MEMORY, 512 << 20),
    PerformanceTarget(ADMIN_PAINT, SECOND),
)
"""Limits are microseconds of CPU time per report (accounting: in total; idle agent: per second), microseconds of wall
time for "wall time" and "latency", and bytes for memory. What is wanted of the multi-buffer kernels is wanted with
IFMA; with AVX2 their rows have no target."""
MOST_GROWTH = 1.10
"""Ratio of the memory with a longer queue to that with a short one."""
LEAST_SCALED = 1.7
"""Ratio of the speed of two workers at each aggregator to that of one."""
MOST_UNDER_ATTACK = 2.0
"""Ratio of the p99 of honest uploads under attack to that without."""

MOST_T = 4.5
"""Welch's t of updates with and without an event, as dudect judges it."""


def target_of(row: Row, instructions: str | None = None) -> float | None:
    """Return the largest value that the row should show, None if there is no target for the instruction set on which
    its multi-buffer kernels run (by default that of this machine)."""
    ran_on = multibuffer_set() if instructions is None else instructions
    return next((target.limit for target in TARGETS if target.concerns(row, ran_on)), None)
