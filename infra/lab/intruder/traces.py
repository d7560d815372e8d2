"""Records what an intruder sees of one device, from the first step to the last."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from client_agent.panprivate.slots import Disk
from client_agent.panprivate.watch import EventWatch, Plan
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.scratch import scratch_folder
from tacit.methods.base.draws import fair_flips
from tacit.ports import Entropy
from tacit.uniform import uniform_below

BUSIEST = 3
"""Most events in one step of a device with events."""
TOGETHER = 50
"""Devices that live side by side where times are judged. Between an event and the next tick of its device there is the
work of all others, as between the two there is up to a second of whatever else a device does. Without it the game would
measure what the event left in the processor's caches and predictors a millisecond earlier, and where it moved the
scheduler's time slice."""
UNREAD = 0
"""Access time that the intruder sets after a look (1970): any read changes it, even if the system records only the
first access after a write (relatime)."""


class Moment(Enum):
    """When the intruder looks. Looks at either of these moments are promised to reveal nothing; looks at both are two
    looks between two ticks."""

    STEP = "after the end of every step"
    TOLD = "after the events of every step, before the next tick"


Moments = Collection[Moment]
ONCE: Moments = (Moment.STEP,)
TWICE: Moments = tuple(Moment)


@dataclass(frozen=True, slots=True)
class Trace:
    """For every look: the file, the state in memory, the file's size, and how many files were read since the last look.
    For each step: the writes as (simulated time, place, bytes), the syncs, and the CPU seconds and random bytes of the
    update (without those of recording events)."""

    files: list[bytes] = field(default_factory=list)
    memories: list[bytes] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    accessed: list[int] = field(default_factory=list)
    writes: list[tuple[tuple[float, int, int], ...]] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)

    @property
    def beside_bytes(self) -> tuple[object, ...]:
        """Everything that contains no randomness; it should be the same for every device of a recipe."""
        numbers = (self.sizes, self.syncs, self.drawn, self.accessed)
        return tuple(self.writes), *(tuple(one) for one in numbers)

    @property
    def snapshots(self) -> int:
        """Number of snapshots of storage and memory."""
        return len(self.files) + len(self.memories)


class SeenDisk:
    """The system's disk with a record of its calls. It does not sync, as no power cut is simulated."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.writes: list[tuple[float, int, int]] = []
        self.syncs = 0

    def write(self, file: int, data: bytes, at: int) -> int:
        """``os.pwrite``; records when, where and how many bytes."""
        self.writes.append((self._now(), at, len(data)))
        return os.pwrite(file, data, at)

    def sync(self, file: int) -> None:
        """Count the call, without syncing."""
        self.syncs += 1


class CountedEntropy:
    """Randomness that counts the bytes drawn from it."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.drawn = 0

    def __call__(self, length: int, /) -> bytes:
        self.drawn += length
        return self._entropy(length)


class Keeper:
    """Keeps the state of one device with the product's own code: records each event at once, then ends the step."""

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        self.watch = EventWatch.open(plan, folder, clock.now, entropy, disk)
        self.path = plan.path(folder)

    def happen(self) -> None:
        """Record the event, which happens now."""
        self.watch.record()

    def tick(self) -> None:
        """Check the clock within a step."""
        self.watch.advance()

    def end_step(self) -> None:
        """Update the state for a step that is over, whether or not an event happened in it."""
        self.watch.advance()


KeeperKind = Callable[[Plan, Path, SimClock, Entropy, Disk], Keeper]


def devices(
    plan: Plan,
    number: int,
    entropy: SeededEntropy,
    kind: KeeperKind = Keeper,
    moments: Moments = ONCE,
    together: int = 1,
) -> Iterator[tuple[Trace, int]]:
    """Simulate ``number`` devices, ``together`` of them side by side, each with events (1) or without (0) by the toss
    of a fair coin; yields their traces and labels."""
    with scratch_folder("tacit-intruder-") as folder:
        for first in range(0, number, together):
            lives = [
                _Life(plan, folder, device, entropy.child(f"device {device}"), kind)
                for device in range(first, min(first + together, number))
            ]
            _live(lives, plan.schedule.steps, moments)
            yield from ((life.trace, life.label) for life in lives)


def events_of(steps: int, label: int, entropy: Entropy) -> Sequence[int]:
    """Draw how often the event happens in each step: with label 0 never, with label 1 at least once (random step)."""
    counts = [label * fair_flips(1, entropy) * uniform_below(BUSIEST, entropy) for _ in range(steps)]
    counts[uniform_below(steps, entropy)] += label
    return counts


class _Life:
    """One device, whose label says whether it has events (1) or not (0), and the trace that the intruder has of it."""

    def __init__(self, plan: Plan, folder: Path, device: int, entropy: SeededEntropy, kind: KeeperKind) -> None:
        self.label = fair_flips(1, entropy)
        self._events = iter(events_of(plan.schedule.steps, self.label, entropy))
        self._clock, self._jump = SimClock(plan.schedule.start), plan.schedule.step_seconds
        self._disk, self._counted = SeenDisk(self._clock.now), CountedEntropy(entropy)
        own = replace(plan, recipe=device.to_bytes(len(plan.recipe), "big"))
        self._keeper = kind(own, folder, self._clock, self._counted, self._disk)
        self.trace = Trace()
        mark_unread(self._keeper.path)

    def happen(self) -> None:
        """Let the events of one step happen; what the disk sees is counted from here."""
        self._disk.writes, self._disk.syncs = [], 0
        for _ in range(next(self._events)):
            self._keeper.happen()

    def tick(self) -> None:
        """The clock is checked within the step."""
        self._keeper.tick()

    def end_step(self) -> None:
        """End the step, and note what its update costs: CPU time, random bytes, and writes to the disk."""
        self._clock.jump(self._jump)
        self._counted.drawn = 0
        start = time.thread_time_ns()
        self._keeper.end_step()
        self.trace.seconds.append((time.thread_time_ns() - start) / 1e9)
        self.trace.drawn.append(self._counted.drawn)
        self.trace.writes.append(tuple(self._disk.writes))
        self.trace.syncs.append(self._disk.syncs)

    def look(self) -> None:
        """Note what an intruder reads at this moment: the file, its size and access, and the state in memory."""
        path = self._keeper.path
        self.trace.accessed.append(int(was_read(path)))
        data = path.read_bytes()
        mark_unread(path)
        self.trace.files.append(data)
        self.trace.memories.append(self._keeper.watch.state)
        self.trace.sizes.append(len(data))

    def close(self) -> None:
        """End the device and remove its file."""
        self._keeper.watch.close()
        self._keeper.path.unlink()


def _live(lives: Sequence[_Life], steps: int, moments: Moments) -> None:
    at_step = (_Life.look,) if Moment.STEP in moments else ()
    told = (_Life.look,) if Moment.TOLD in moments else ()
    step = (_Life.happen, *told, _Life.tick, _Life.end_step, *at_step)
    for part in (*at_step, *itertools.chain.from_iterable(itertools.repeat(step, steps)), _Life.close):
        for life in lives:
            part(life)


def mark_unread(path: Path) -> None:
    """Set the access time such that the next read of the file is noticed."""
    os.utime(path, ns=(UNREAD, path.stat().st_mtime_ns))


def was_read(path: Path) -> bool:
    """Return whether the file was read since ``mark_unread``, as far as the file system records it."""
    return path.stat().st_atime_ns != UNREAD


def notes_reads(folder: Path) -> bool:
    """Return whether the file system records access times in ``folder`` (it does not if mounted with noatime)."""
    path = folder / "read"
    path.write_bytes(b"?")
    mark_unread(path)
    path.read_bytes()
    return was_read(path)
