"""The document of a soak: its samples, its verdicts, and the series that both plots show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from infra.lab.bench.loading.database_sizes import CONFIGS
from infra.lab.bench.rows import machine
from infra.lab.bench.soak.run import GENERATOR, Soak
from infra.lab.bench.soak.samples import Sample
from infra.lab.bench.soak.trends import (
    COST_TOLERANCE,
    LEAST_BYTES,
    MEMORY_TOLERANCE,
    SIZE_TOLERANCE,
    Verdict,
    judged,
    returned,
)

BYTES, MICROSECONDS = "bytes", "us per contribution"
MEMORY = "memory, {}"


@dataclass(frozen=True)
class Series:
    """One curve: what it shows, its unit, its places (contributions sent) and values."""

    subject: str
    unit: str
    places: Sequence[float]
    values: Sequence[float]


def memory(found: Soak) -> list[Series]:
    """Bytes that only one process of each party uses."""
    parties = sorted({party for sample in found.samples for party in sample.memory})
    return [_series(MEMORY.format(party), BYTES, found.samples, _memory_of(party)) for party in parties]


def costs(found: Soak) -> list[Series]:
    """CPU time of each party for each contribution, and their sum."""
    windows = [sample for sample in found.samples if sample.cpu_us]
    parties = sorted({party for sample in windows for party in sample.cpu_us})
    made = [
        _series(f"CPU, {party}", MICROSECONDS, windows, lambda one, of=party: one.cpu_us.get(of, 0.0))
        for party in parties
    ]
    return [*made, _series("CPU, all servers", MICROSECONDS, windows, lambda one: sum(one.cpu_us.values()))]


def sizes(found: Soak) -> list[Series]:
    """Bytes of each database without its spent tokens, and of those."""
    made = []
    for name in CONFIGS:
        made.append(_series(f"database, {name}", BYTES, found.samples, lambda one, of=name: one.databases[of].rest))
        made.append(_series(f"spent tokens, {name}", BYTES, found.samples, lambda one, of=name: one.databases[of].kept))
    return made


def verdicts(found: Soak) -> list[Verdict]:
    """Judge the servers' memory and cost by their slope, and the databases by their size after each release."""
    made = [
        judged(one.subject, one.places, one.values, MEMORY_TOLERANCE, one.unit, LEAST_BYTES)
        for one in memory(found)
        if one.subject != MEMORY.format(GENERATOR)
    ]
    total = costs(found)[-1]
    made.append(judged(total.subject, total.places, total.values, COST_TOLERANCE, total.unit))
    released = [sample for sample in found.samples if sample.released]
    for name in CONFIGS:
        rest = [sample.databases[name].rest for sample in released]
        made.append(returned(f"database after a release, {name}", rest, SIZE_TOLERANCE, LEAST_BYTES))
    return made


def kept_bytes(found: Soak) -> dict[str, float]:
    """Bytes of spent tokens for each contribution, by service: what a task keeps until its tokens expire."""
    last = found.samples[-1]
    return {name: last.databases[name].kept / last.sent for name in CONFIGS}


def document(found: Soak, judgements: Sequence[Verdict]) -> dict[str, Any]:
    """What ``tacit bench soak --json`` prints: plan, verdicts and every sample."""
    last = found.samples[-1]
    return {
        "machine": machine(),
        "database": found.database,
        "plan": {**asdict(found.plan), "reports": found.plan.reports},
        "set_up_seconds": found.set_up,
        "seconds": last.seconds,
        "releases": last.releases,
        "retries": last.retries,
        "spent_token_bytes": kept_bytes(found),
        "verdicts": [asdict(one) for one in judgements],
        "errors": found.errors,
        "samples": [asdict(one) for one in found.samples],
    }


def _memory_of(party: str) -> Any:
    return lambda sample: sample.memory.get(party, 0)


def _series(subject: str, unit: str, samples: Sequence[Sample], value: Any) -> Series:
    return Series(subject, unit, [one.sent for one in samples], [float(value(one)) for one in samples])
