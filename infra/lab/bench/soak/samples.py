"""One sample of a soak: what processes and databases have used by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.lab.bench.loading.database_sizes import DatabaseSize


@dataclass(frozen=True)
class Sample:
    """The state after ``sent`` contributions: ``cpu_us`` by party for each contribution since the sample before,
    ``memory`` by party in bytes that only one process
    uses, ``databases`` by service, ``releases`` so far, and whether it was taken
    right after one (``released``). ``seconds`` since the first upload."""

    sent: int
    seconds: float
    cpu_us: Mapping[str, float]
    memory: Mapping[str, int]
    databases: Mapping[str, DatabaseSize]
    releases: int
    released: bool
    retries: int
