"""What an intruder sees of one device, from the first step to the last."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from client_agent.panprivate.slots import Disk
from client_agent.panprivate.watch import EventWatch, Plan
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.draws import fair_flips, uniform_below
from tacit.ports import Entropy

BUSIEST = 3
"""Most events in one step of a device with events."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Before the first step and after each: the file, the state in memory, and the file's size. For each step: the
    writes as (simulated time, place, bytes), syncs, and of its update (not of recording the events) CPU seconds and the
    random bytes that it drew."""

    files: list[bytes] = field(default_factory=list)
    memories: list[bytes] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    writes: list[tuple[tuple[float, int, int], ...]] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)

    @property
    def snapshots(self) -> int:
        """Of storage and of memory."""
        return len(self.files) + len(self.memories)


class SeenDisk:
    """The system's disk, whose calls somebody counts; it syncs nothing, for nobody cuts the power."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.writes: list[tuple[float, int, int]] = []
        self.syncs = 0

    def write(self, file: int, data: bytes, at: int) -> int:
        """As ``Disk`` says."""
        self.writes.append((self._now(), at, len(data)))
        return os.pwrite(file, data, at)

    def sync(self, file: int) -> None:
        """As ``Disk`` says."""
        self.syncs += 1


class CountedEntropy:
    """Counts the bytes that are drawn."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.drawn = 0

    def __call__(self, length: int, /) -> bytes:
        self.drawn += length
        return self._entropy(length)


class Keeper:
    """What keeps the state of one device: the product's own code, every event at once, then the end of the step."""

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        self.watch = EventWatch.open(plan, folder, clock.now, entropy, disk)
        self.path = plan.path(folder)

    def happen(self) -> None:
        """The event, now."""
        self.watch.record()

    def tick(self) -> None:
        """A moment inside a step."""
        self.watch.advance()

    def end_step(self) -> None:
        """The clock says that a step is over; ``happen`` may have been called in it."""
        self.watch.advance()


KeeperKind = Callable[[Plan, Path, SimClock, Entropy, Disk], Keeper]


def devices(plan: Plan, number: int, entropy: SeededEntropy, kind: KeeperKind = Keeper) -> Iterator[tuple[Trace, int]]:
    """``number`` devices, each with events (1) or without any (0) by the toss of a coin, and their traces."""
    with tempfile.TemporaryDirectory(prefix="tacit-intruder-") as folder:
        for device in range(number):
            own = entropy.child(f"device {device}")
            label = fair_flips(1, own)
            recipe = device.to_bytes(len(plan.recipe), "big")
            yield _lived(replace(plan, recipe=recipe), Path(folder), _events(plan, label, own), own, kind), label


def _events(plan: Plan, label: int, entropy: Entropy) -> Sequence[int]:
    """How often the event happens in each step: at one step at random at least, for a device of this label."""
    steps = plan.schedule.steps
    counts = [label * fair_flips(1, entropy) * uniform_below(BUSIEST, entropy) for _ in range(steps)]
    counts[uniform_below(steps, entropy)] += label
    return counts


def _lived(plan: Plan, folder: Path, events: Sequence[int], entropy: Entropy, kind: KeeperKind) -> Trace:
    clock = SimClock(plan.schedule.start)
    disk = SeenDisk(clock.now)
    counted = CountedEntropy(entropy)
    keeper = kind(plan, folder, clock, counted, disk)
    trace = Trace()
    _look(trace, keeper)
    for count in events:
        disk.writes, disk.syncs = [], 0
        for _ in range(count):
            keeper.happen()
        keeper.tick()  # as there is one between every event and the end of its step: caches are warm for all
        clock.jump(plan.schedule.step_seconds)
        counted.drawn = 0
        start = time.thread_time_ns()
        keeper.end_step()
        trace.seconds.append((time.thread_time_ns() - start) / 1e9)
        trace.drawn.append(counted.drawn)
        _look(trace, keeper)
        trace.writes.append(tuple(disk.writes))
        trace.syncs.append(disk.syncs)
    keeper.watch.close()
    keeper.path.unlink()
    return trace


def _look(trace: Trace, keeper: Keeper) -> None:
    data = keeper.path.read_bytes()
    trace.files.append(data)
    trace.memories.append(keeper.watch.state)
    trace.sizes.append(len(data))
