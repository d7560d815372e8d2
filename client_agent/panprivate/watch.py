"""One watched event over the steps of its recipe: encrypted in memory, and written once a step.

A step is a stretch of the clock. An event is folded into the encrypted state in memory when it happens, so that nothing
in the clear waits for the end of the step; the state is replaced every tick besides, whether or not anything happened.
The file is written when a step has ended, at no other time, and once for any number of steps that ended while
the device was off: one rerandomisation has the distribution of many, and that the device was off is no secret.

Events of a step that a power cut ends are lost. The clock only ever moves a watch forward.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from client_agent.panprivate.slots import OS_DISK, Content, Disk, InMemory, Kept, Slots, newest
from client_agent.panprivate.state_files import ASIDE, FILE, SUFFIX, DamagedStateError
from tacit.codec import b64url
from tacit.errors import DecodeError, UsageError
from tacit.panprivate.stored import StoredState
from tacit.ports import Entropy

MAX_STEPS = 1 << 31
_PLAN = struct.Struct(">32s32s32sQII")

Now = Callable[[], float]
"""A function that returns the POSIX time, in seconds."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``steps`` steps of ``step_seconds`` each, from ``start`` (POSIX seconds) on. Raises ``ValueError`` out of
    range."""

    start: int
    step_seconds: int
    steps: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < 1 << 63 and 1 <= self.step_seconds < 1 << 32 and 1 <= self.steps < MAX_STEPS):
            raise ValueError("a schedule has a start, steps of at least a second, and at least one of them")

    def ended(self, now: float) -> int:
        """How many steps have ended at ``now`` (POSIX seconds), from 0 to ``steps``."""
        return max(0, min(self.steps, int((now - self.start) // self.step_seconds)))

    def runs(self, now: float) -> bool:
        """Whether ``now`` (POSIX seconds) is in one of the steps; the end of the last one is not."""
        return self.start <= now < self.start + self.steps * self.step_seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """What is watched: the recipe (its hash, 32 bytes), the form of the state, and the schedule."""

    recipe: bytes
    stored: StoredState
    schedule: Schedule

    def head(self) -> bytes:
        """The bytes before the state in a file, which are the same on all devices and at all times."""
        keys = hashlib.sha256(b"".join(key.element for key in self.stored.keys)).digest()
        when = self.schedule
        return _PLAN.pack(self.recipe, keys, self.stored.shape(), when.start, when.step_seconds, when.steps)

    def path(self, folder: Path) -> Path:
        """The file of the state below ``folder``."""
        return folder / f"{self.recipe.hex()}{SUFFIX}"


class EventWatch:
    """The state of one plan, held by this process alone."""

    __slots__ = ("_entropy", "_now", "_slots", "_state", "plan")

    def __init__(self, plan: Plan, slots: Kept, now: Now, entropy: Entropy) -> None:
        self.plan = plan
        self._slots, self._now, self._entropy = slots, now, entropy
        self._state = plan.stored.step(0, slots.content.payload[_PLAN.size :], entropy)

    @classmethod
    def open(cls, plan: Plan, folder: Path, now: Now, entropy: Entropy, disk: Disk = OS_DISK) -> EventWatch:
        """The watch whose file is below ``folder``, or a new one.

        Raises ``DamagedStateError`` if the file holds no state of this plan; the file is then put aside, and the next
        call begins anew. Raises ``UsageError`` if another process has the file, if files cannot be used, and if a new
        watch would begin after the last step, as after an erased one.
        """
        path = plan.path(folder)
        aside = path.with_name(path.name + ASIDE)
        try:
            if not path.exists():
                _begin(plan, path, now, entropy)
            slots = Slots.open(path, disk)
        except DecodeError as error:
            raise _put_aside(path, aside, str(error)) from error
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be used'}") from error
        try:
            _require_of(plan, slots.content.payload)
        except DecodeError as error:
            slots.close()
            raise _put_aside(path, aside, str(error)) from error
        return cls(plan, slots, now, entropy)

    @classmethod
    def in_memory(cls, plan: Plan, now: Now, entropy: Entropy) -> EventWatch:
        """A new watch whose state is only in this process."""
        return cls(plan, InMemory(_first(plan, now, entropy), plan.path(Path())), now, entropy)

    @property
    def step(self) -> int:
        """The number of steps that had ended when the file was written."""
        return self._slots.content.number

    @property
    def over(self) -> bool:
        """Whether all steps have ended, so that an answer can be made of the state."""
        return self.step == self.plan.schedule.steps

    @property
    def file_size(self) -> int:
        """Size of the file in bytes, which is constant; 0 without a file."""
        return self._slots.file_size

    @property
    def path(self) -> Path:
        """The file in which the state is kept."""
        return self._slots.path

    @property
    def state(self) -> bytes:
        """The encrypted state in memory. Its bytes always differ from those of the file, whether or not an event
        happened since."""
        return self._state

    def record(self, event: int = 1) -> None:
        """Fold in one event (1), or a tick without one (0): the work is the same, and only in memory. Nothing changes
        before the first step and after the last one."""
        if not self.over and self.plan.schedule.runs(self._now()):
            self._state = self.plan.stored.step(event, self._state, self._entropy)

    def advance(self) -> bool:
        """Replace the state in memory, and write it if a step has ended since the last write; returns whether it was
        written. Raises ``Fatal`` if the disk does not accept it; the next call tries again.

        The written state is another replacement than the one in memory. If the two were the same now, the next event
        would show, because they would then differ before the next tick.
        """
        if self.over:
            return False
        self._state = self.plan.stored.step(0, self._state, self._entropy)
        ended = self.plan.schedule.ended(self._now())
        if ended <= self.step:
            return False
        written = self.plan.stored.step(0, self._state, self._entropy)
        self._slots.write(Content(ended, self.plan.head() + written))
        return True

    def erase(self) -> None:
        """Erase the state, once the recipe is decided on. Raises ``OSError``."""
        self._state = b""
        self._slots.erase(self._entropy)

    def close(self) -> None:
        """Release the file. What was recorded since the last step ended is lost."""
        self._slots.close()


def kept_step(path: Path) -> int:
    """The number of ended steps in a state file, also while it is in use. Raises ``DecodeError`` and ``OSError``."""
    return newest(path).number


def states_in(folder: Path) -> list[dict[str, str | int]]:
    """Every state below ``folder``, also while a process keeps it: recipe (its hash), ended steps, bytes, file. Raises
    ``UsageError`` for a damaged one."""
    rows: list[dict[str, str | int]] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        named = FILE.fullmatch(path.name)
        if named is None:
            continue
        try:
            step, size = kept_step(path), path.stat().st_size
        except FileNotFoundError:
            continue  # erased just now
        except (OSError, DecodeError) as error:
            raise UsageError(f"{path}: {error}") from error
        rows.append({"recipe": b64url(bytes.fromhex(named[1])), "step": step, "bytes": size, "path": str(path)})
    return rows


def _begin(plan: Plan, path: Path, now: Now, entropy: Entropy) -> None:
    first, second = (_first(plan, now, entropy) for _ in range(2))
    if first.number == plan.schedule.steps:
        raise UsageError(f"{path}: there is no state, and the last step of its recipe is over")
    Slots.make(path, first, second)


def _first(plan: Plan, now: Now, entropy: Entropy) -> Content:
    return Content(plan.schedule.ended(now()), plan.head() + plan.stored.initial(entropy))


def _require_of(plan: Plan, payload: bytes) -> None:
    """Raise ``DecodeError`` unless the payload is a state of ``plan``."""
    head, state = payload[: _PLAN.size], payload[_PLAN.size :]
    if len(head) != _PLAN.size:
        raise DecodeError("it holds no state")
    (recipe, keys, *rest), (own_recipe, own_keys, *own_rest) = _PLAN.unpack(head), _PLAN.unpack(plan.head())
    if recipe != own_recipe:
        raise DecodeError("it belongs to another recipe")
    if keys != own_keys:
        raise DecodeError("it is encrypted to other keys than the recipe's")
    if rest != own_rest:
        raise DecodeError("it was made for another statistic or other steps than the recipe's")
    plan.stored.checked(state)


def _put_aside(path: Path, aside: Path, why: str) -> DamagedStateError:
    path.replace(aside)
    return DamagedStateError(f"{path}: {why}; it was put aside as {aside.name}, and the watch begins anew")
