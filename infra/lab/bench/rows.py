"""The rows of a benchmark, its document, and how one figure is measured."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.lines import lines_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FEATURES = ("avx2", "bmi2", "avx512f", "avx512dq", "avx512ifma", "asimd", "sha3")


@dataclass(frozen=True)
class Row:
    """One line of the table: one stage of one role on one path."""

    stage: str
    """What is measured; see below."""
    vdaf: str
    """The VDAF of the measured task; empty for primitives."""
    parameters: Mapping[str, int]
    """Its parameters, or those of the stage."""
    role: str
    """The party at which it is measured."""
    path: str
    """Instruction set of a kernel (`baseline`, `avx2`, `avx512`, `ifma`; `off` is pure Python). For public-key work
    `openssl` (one by one), `openssl, batch tokens` (what aggregators do unless told otherwise, where the processor has
    the kernels) or `multibuffer`, with IFMA if `features` has it and else AVX2. Of jobs and running services `openssl`
    stands for the default settings and `multibuffer` for `batch_crypto: true`; the database and brokers follow after a
    comma. Of agents `own process` or `host, N devices`, measured in the same minutes."""
    us_per_report: float
    """The median over `repetitions`."""
    floor_us: float | None = None
    """What the stage's primitives alone would cost, at the speed measured in the same run."""
    ratio: float | None = None
    """`us_per_report` over `floor_us`; of memory, over the row with the shortest queue; of agents, of the first row
    over the second."""
    offered_rate: float | None = None
    """Contributions per second; 0 is "as fast as they are answered"; null where nothing is offered."""
    repetitions: int = 1
    """How often it was measured."""
    spread: float = 0.0
    """Interquartile range over the median: above 0.1 something else was running, measure again."""


@dataclass(frozen=True)
class Subject:
    """What the rows of one family have in common: VDAF and parameters."""

    vdaf: str
    parameters: Mapping[str, int] = field(default_factory=dict)

    def row(self, stage: str, role: str, path: str, timing: Timing, **more: Any) -> Row:
        """Make a row of ``timing``; ``more`` may set ``floor_us``, ``ratio`` and ``offered_rate``."""
        floor = more.get("floor_us")
        ratio = timing.micro / floor if floor else None
        return Row(
            stage,
            self.vdaf,
            self.parameters,
            role,
            path,
            timing.micro,
            repetitions=timing.repetitions,
            spread=timing.spread,
            **{"ratio": ratio, **more},
        )


@dataclass(frozen=True)
class Timing:
    """Microseconds per unit: the median over repetitions, and the interquartile range over it."""

    micro: float
    spread: float
    repetitions: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Make a timing from seconds per unit, one figure per repetition."""
        if len(seconds) < 2:
            return cls(1e6 * seconds[0], 0.0, len(seconds))
        low, middle, high = statistics.quantiles(seconds, n=4)
        return cls(1e6 * middle, (high - low) / middle if middle else 0.0, len(seconds))


def measured(call: Callable[[], object], units: int, repetitions: int) -> Timing:
    """Measure this thread's CPU time per unit of ``call``, after one call to warm up that is not measured."""
    call()
    times = []
    for _ in range(repetitions):
        start = time.thread_time_ns()
        call()
        times.append((time.thread_time_ns() - start) / units / 1e9)
    return Timing.of(times)


def machine() -> dict[str, Any]:
    """Return the processor's name, those of its features that kernels use, and the number of cores."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        text = ""
    facts = _facts(text)
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    return {
        "cpu": facts.get("model name") or platform.processor() or platform.machine(),
        "features": [feature for feature in FEATURES if feature in flags],
        "cores": os.cpu_count() or 1,
    }


def _facts(text: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in lines_of(text) if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def document(rows: Iterable[DataclassInstance]) -> dict[str, Any]:
    """Return the JSON document of a run: the machine and its rows."""
    return {"machine": machine(), "rows": [asdict(row) for row in rows]}
