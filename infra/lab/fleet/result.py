"""The results of a fleet's run, summed over all shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from client_agent.journal import State
from infra.lab.devices.faults import FATE, Fault
from infra.lab.devices.metrics import merged
from infra.lab.devices.shard import ShardResult
from infra.lab.devices.truth import added


@dataclass
class FleetResult(ShardResult):
    """Sums over the shards. ``timings`` are the longest shard's seconds by stage, ``cpu`` all shards' CPU seconds,
    ``services`` the CPU seconds of the stack's processes by service while the fleet ran. ``seconds`` is the wall-clock
    time of the whole run without the wait for the recipe's interval."""

    services: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, shards: Sequence[ShardResult]) -> FleetResult:
        """The shards' results as one: counts and CPU are added up, of wall times the longest stays, as shards run side
        by side."""
        whole = cls(progress=merged([shard.progress for shard in shards]))
        for shard in shards:
            whole.devices += shard.devices
            whole.sampled += shard.sampled
            whole.dummies += shard.dummies
            whole.known = added(whole.known, shard.known)
            whole.answered = added(whole.answered, shard.answered)
            whole.items.update(shard.items)
            whole.beyond += shard.beyond
            whole.without_token += shard.without_token
            whole.prepared += shard.prepared
            whole.deliveries.states.update(shard.deliveries.states)
            whole.deliveries.sums.update(shard.deliveries.sums)
            for stage, seconds in shard.timings.items():
                whole.timings[stage] = max(whole.timings.get(stage, 0.0), seconds)
            for stage, seconds in shard.cpu.items():
                whole.cpu[stage] = whole.cpu.get(stage, 0.0) + seconds
        return whole

    @property
    def contributions(self) -> int:
        """Number of contributions that ended, counted or not."""
        return self.deliveries.states.total()

    @property
    def injected(self) -> Counter[Fault]:
        """Number of contributions by fault, without those that have none."""
        found: Counter[Fault] = Counter()
        for (fault, _), count in self.deliveries.states.items():
            if fault is not Fault.NONE:
                found[fault] += count
        return found

    def ended(self, state: State, *, counting: bool) -> int:
        """Number of contributions that ended in ``state``, among those that should count or among those that should
        not."""
        states = self.deliveries.states.items()
        return sum(count for (fault, end), count in states if end is state and FATE[fault].counts is counting)

    def tokens_ms(self) -> tuple[float, float]:
        """Milliseconds per token: wall-clock, and CPU of the simulator alone."""
        tokens = self.progress.tokens
        if not tokens:
            return 0.0, 0.0
        return 1000 * self.timings.get("tokens", 0.0) / tokens, 1000 * self.cpu.get("tokens", 0.0) / tokens

    def document(self) -> dict[str, Any]:
        """Plain JSON values; latencies in milliseconds, CPU in microseconds per contribution."""
        progress, count = self.progress, max(1, self.contributions)
        wall, cpu = self.tokens_ms()
        return {
            "devices": self.devices,
            "sampled": self.sampled,
            "dummies": self.dummies,
            "beyond_weight": self.beyond,
            "without_token": self.without_token,
            "contributions": self.contributions,
            "acknowledged": progress.acknowledged,
            "attempts": progress.attempts,
            "injected": {fault.word: number for fault, number in sorted(self.injected.items())},
            "ended": _by_name(self.deliveries.states),
            "problems": dict(progress.causes.most_common()),
            "seconds": self.seconds,
            "stages": {stage: seconds for stage, seconds in self.timings.items() if seconds >= LEAST_SHOWN},
            "throughput": progress.throughput,
            "latency_ms": {name: 1000 * progress.percentile(share) for name, share in PERCENTILES.items()},
            "tokens": {"count": progress.tokens, "wall_ms_per_token": wall, "simulator_cpu_ms_per_token": cpu},
            "cpu_us_per_contribution": {
                **{name: 1e6 * seconds / count for name, seconds in sorted(self.services.items())},
                **{
                    f"simulator: {stage}": 1e6 * seconds / count
                    for stage, seconds in self.cpu.items()
                    if seconds >= LEAST_SHOWN
                },
            },
        }


LEAST_SHOWN = 0.01
"""Seconds below which a stage is left out."""
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def _by_name(states: Counter[tuple[Fault, State]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (fault, state), count in sorted(states.items()):
        found.setdefault("honest" if fault is Fault.NONE else fault.word, {})[state.value] = count
    return found
