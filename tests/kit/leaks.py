"""State keepers that have one mistake each. As the intruder finds these, finding nothing in the real one means
something."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from time import thread_time
from typing import ClassVar

from client_agent.panprivate.slots import Content, Disk
from client_agent.panprivate.watch import Plan
from infra.lab.intruder.traces import Keeper, KeeperKind
from infra.lab.kit.clock import SimClock
from tacit.ports import Entropy


class Remembers(Keeper):
    """Knows at the end of a step whether the event happened, which is no mistake by itself."""

    happened = False

    def happen(self) -> None:
        """Record the event as usual, and remember it."""
        super().happen()
        self.happened = True


class Skips(Remembers):
    """Writes nothing at the end of a step in which nothing happened."""

    def tick(self) -> None:
        """Leave the state as it is when a step passes."""

    def end_step(self) -> None:
        """Update only if the event happened."""
        if self.happened:
            super().end_step()
        self.happened = False


class WritesAtOnce(Keeper):
    """Also syncs the file when the event happens."""

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        super().__init__(plan, folder, clock, entropy, disk)
        self._disk = disk

    def happen(self) -> None:
        """Record the event as usual, and sync the file."""
        super().happen()
        with self.path.open("rb") as file:
            self._disk.sync(file.fileno())


class ReadsAgain(Keeper):
    """Reads the state from its file when the event happens."""

    def happen(self) -> None:
        """Read the file, then record the event as usual."""
        self.path.read_bytes()
        super().happen()


class Repeats(Keeper):
    """Draws the same randomness in every update."""

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        super().__init__(plan, folder, clock, entropy, disk)
        self.watch._entropy = _repeated(entropy)


class Grows(Keeper):
    """Appends a byte to the file for each event."""

    noted = b""

    def happen(self) -> None:
        """Record the event as usual, and note it."""
        super().happen()
        self.noted += b"\0"

    def end_step(self) -> None:
        """Update as usual, and write the notes after the state."""
        super().end_step()
        size = self.watch.file_size
        with self.path.open("r+b") as file:
            file.seek(size)
            file.write(self.noted)


class ReturnsEarly(Remembers):
    """Skips the rerandomisation at the end of a step in which nothing happened, and writes the old state."""

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        super().__init__(plan, folder, clock, entropy, disk)
        self._slots, self._step = self.watch._slots, 0

    def end_step(self) -> None:
        """Always write the state, but rerandomise it only if the event happened."""
        self._step += 1
        if self.happened:
            super().end_step()
        else:
            self._slots.write(Content(self._step, self.watch.plan.head() + self.watch.state))
        self.happened = False


class Lingers(Remembers):
    """Works longer at the end of a step in which the event happened."""

    def end_step(self) -> None:
        """Update as usual, then hash for three times as long as that took, on any machine."""
        began = thread_time()
        super().end_step()
        updated = thread_time()
        while self.happened and thread_time() - updated < 3 * (updated - began):
            sha256(bytes(50_000))
        self.happened = False


class Shares(Keeper):
    """Notes the event where all devices of the process see it, and the next update of any draws more."""

    happened: ClassVar[list[bool]] = []

    def __init__(self, plan: Plan, folder: Path, clock: SimClock, entropy: Entropy, disk: Disk) -> None:
        super().__init__(plan, folder, clock, entropy, disk)
        self._entropy = entropy

    def happen(self) -> None:
        """Record the event as usual, and note it."""
        super().happen()
        self.happened.append(True)

    def end_step(self) -> None:
        """Update as usual, and draw 32 bytes more if there is a note."""
        super().end_step()
        if self.happened:
            self._entropy(32)
        self.happened.clear()


LEAKS: Mapping[str, KeeperKind] = {
    "update skipped": Skips,
    "sync on event": WritesAtOnce,
    "read on event": ReadsAgain,
    "same randomness": Repeats,
    "longer on event": Grows,
    "early return": ReturnsEarly,
    "longer work": Lingers,
    "note for all": Shares,
}


def _repeated(entropy: Entropy) -> Entropy:
    drawn = entropy(64)

    def repeated(length: int, /) -> bytes:
        return drawn[:length]

    return repeated
