"""The state of a watched event on a device: one file of constant size, whole wherever the process dies."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from client_agent.panprivate.slots import OsDisk, decode_slot, newest, slot_size
from client_agent.panprivate.state_files import ASIDE
from client_agent.panprivate.watch import EventWatch, Plan, Schedule, kept_step
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import DecodeError, Fatal, UsageError
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.stored import OneServer, StoredState, TwoServers
from tacit.panprivate.two_servers import SharedNonZero, SharedOccurrences, Sharing

DRAW = SeededEntropy(b"panprivate_watch")
KEY = PrivateKey.generate(DRAW)
PUBLIC, OTHER = KEY.public_key(), PrivateKey.generate(DRAW).public_key()
START, STEP, STEPS = 1_000, 10, 5
SHARING = Sharing(PUBLIC, OTHER, b"a task")
KEPT: tuple[StoredState, ...] = (
    OneServer(NonZero(PUBLIC)),
    OneServer(Occurrences(PUBLIC, 3)),
    TwoServers(SharedNonZero(SHARING)),
    TwoServers(SharedOccurrences(SHARING, 2)),
)
COUNTED = OneServer(Occurrences(PUBLIC, 9))
PLAN = Plan(bytes(range(32)), COUNTED, Schedule(START, STEP, STEPS))


def _count(state: bytes) -> int:
    return [KEY.open_bit(cell.encode()) for cell in COUNTED.cells(state)].index(1)


class World:
    """A folder and a clock; watches of one plan, one after the other."""

    def __init__(self, folder: Path, plan: Plan = PLAN) -> None:
        self.folder, self.plan, self.clock = folder, plan, SimClock(START)
        self.path = plan.path(folder)

    def open(self, disk: OsDisk | None = None) -> EventWatch:
        return EventWatch.open(self.plan, self.folder, self.clock.now, DRAW, disk or OsDisk())

    def kept(self) -> bytes:
        """What a device that starts again has."""
        watch = self.open()
        watch.close()
        return watch.state


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "pan")


@pytest.mark.parametrize("stored", KEPT, ids=lambda stored: type(stored.machine).__name__)
@pytest.mark.parametrize("event", [0, 1])
def test_every_step_replaces_one_slot_of_a_file_that_keeps_its_size(
    tmp_path: Path, stored: StoredState, event: int
) -> None:
    world = World(tmp_path, replace(PLAN, stored=stored))
    watch = world.open()
    sizes = {world.path.stat().st_size}
    before = world.path.read_bytes()
    for step in range(1, STEPS + 1):
        watch.record(event)
        world.clock.jump(STEP)
        assert watch.advance()
        after = world.path.read_bytes()
        half = len(before) // 2
        assert (after[:half] != before[:half]) + (after[half:] != before[half:]) == 1
        assert kept_step(world.path) == watch.step == step
        sizes.add(len(after))
        before = after
    assert sizes == {watch.file_size}
    assert watch.over
    assert [path.name for path in tmp_path.iterdir()] == [world.path.name]
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600
    watch.close()


def test_the_file_is_written_when_a_step_ends_and_never_when_something_happens(world: World) -> None:
    watch = world.open()
    first = world.path.read_bytes()
    for _ in range(3):
        watch.record()
        watch.advance()
    assert world.path.read_bytes() == first
    world.clock.jump(STEP)
    watch.advance()
    assert world.path.read_bytes() != first
    assert _count(watch.state) == 3
    watch.close()


@pytest.mark.parametrize("act", [lambda watch: watch.record(1), lambda watch: watch.record(0), EventWatch.advance])
def test_memory_holds_other_ciphertexts_after_every_tick_and_every_event(world: World, act: object) -> None:
    watch = world.open()
    before = watch.state
    assert callable(act)
    act(watch)
    pieces = [{state[at : at + 32] for at in range(0, len(state), 32)} for state in (before, watch.state)]
    assert not pieces[0] & pieces[1]
    watch.close()


def test_steps_that_the_device_slept_through_are_one_update(world: World) -> None:
    watch = world.open()
    watch.record()
    world.clock.jump(3 * STEP)
    assert watch.advance()
    assert not watch.advance()
    assert watch.step == 3
    watch.close()
    assert _count(world.kept()) == 1


def test_a_clock_that_goes_back_changes_no_file_and_loses_no_event(world: World) -> None:
    watch = world.open()
    world.clock.jump(3 * STEP)
    watch.advance()
    world.clock.set_back(2 * STEP)
    watch.record()
    assert not watch.advance()
    assert watch.step == 3
    world.clock.jump(3 * STEP)
    assert watch.advance()
    assert (watch.step, _count(watch.state)) == (4, 1)
    watch.close()


def test_what_happens_before_the_first_step_or_after_the_last_one_does_not_count(world: World) -> None:
    world.clock.set_back(1)
    watch = world.open()
    watch.record()
    world.clock.jump(1 + STEPS * STEP)
    watch.record()
    watch.advance()
    assert watch.over
    final = watch.state
    watch.record()
    assert not watch.advance()
    assert watch.state == final
    assert _count(final) == 0
    watch.close()


class Dying(OsDisk):
    """Ends the process, as it were, at one of the calls of an update."""

    def __init__(self, call: str, length: int = 0) -> None:
        self._call, self._length = call, length

    def write(self, file: int, data: bytes, at: int) -> int:
        if self._call != "write":
            return super().write(file, data, at)
        super().write(file, data[: self._length], at)
        raise KeyboardInterrupt

    def sync(self, file: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["write", "sync"])
@pytest.mark.parametrize("length", [0, 1, 23, 24, 56, 4095, 4096])
def test_a_process_that_dies_inside_an_update_leaves_the_old_state_or_the_new_one(
    world: World, call: str, length: int
) -> None:
    for _ in range(2):
        watch = world.open()
        watch.record()
        world.clock.jump(STEP)
        watch.advance()
        watch.close()
    watch = world.open(Dying(call, length))
    watch.record()
    world.clock.jump(STEP)
    with pytest.raises(KeyboardInterrupt):
        watch.advance()
    watch.close()
    step = kept_step(world.path)
    assert (step, _count(world.kept())) in {(2, 2), (3, 3)}
    again = world.open()
    world.clock.jump(STEP)
    assert again.advance()
    assert _count(again.state) == step
    again.close()


def test_an_update_that_the_disk_refuses_is_made_by_the_next_call(world: World) -> None:
    class Full(OsDisk):
        refused = 0

        def write(self, file: int, data: bytes, at: int) -> int:
            self.refused += 1
            if self.refused == 1:
                raise OSError(5, "Input/output error")
            return super().write(file, data, at)

    watch = world.open(Full())
    watch.record()
    world.clock.jump(STEP)
    with pytest.raises(Fatal, match="Input/output error"):
        watch.advance()
    assert watch.advance()
    watch.close()
    assert _count(world.kept()) == 1


def _flip(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for at in places:
        data[at] ^= 1
    path.write_bytes(data)


def test_a_state_that_is_damaged_is_put_aside_and_never_answered_from(world: World) -> None:
    world.open().close()
    half = world.path.stat().st_size // 2
    _flip(world.path, 200, half + 200)
    with pytest.raises(UsageError, match="neither of its slots is whole; it was put aside"):
        world.open()
    aside = world.path.with_name(world.path.name + ASIDE)
    assert aside.exists()
    assert not world.path.exists()
    again = world.open()
    assert (again.step, _count(again.state)) == (0, 0)
    again.close()
    assert aside.exists()


@pytest.mark.parametrize("size", [0, 1, 4096, 8191, 1 << 21])
def test_a_file_of_another_size_is_put_aside(world: World, size: int) -> None:
    world.open().close()
    os.truncate(world.path, size)
    with pytest.raises(UsageError, match="put aside"):
        world.open()


def test_one_damaged_slot_costs_one_step(world: World) -> None:
    watch = world.open()
    world.clock.jump(STEP)
    watch.advance()
    watch.close()
    data = world.path.read_bytes()
    half = len(data) // 2
    slots = [decode_slot(data[:half]), decode_slot(data[half:])]
    newer = max(range(2), key=lambda at: slots[at] or (0, b""))
    _flip(world.path, newer * half + 300)
    assert kept_step(world.path) == 0
    assert _count(world.kept()) == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (replace(PLAN, stored=OneServer(Occurrences(OTHER, 9))), "other keys"),
        (replace(PLAN, stored=OneServer(Occurrences(PUBLIC, 8))), "another statistic"),
        (replace(PLAN, schedule=Schedule(START, STEP, STEPS + 1)), "other steps"),
    ],
)
def test_a_recipe_that_became_another_one_does_not_get_the_state(world: World, changed: Plan, why: str) -> None:
    world.open().close()
    world.plan = changed
    with pytest.raises(UsageError, match=why):
        world.open()
    assert not world.path.exists()


def test_a_file_under_the_name_of_another_recipe_is_put_aside(world: World) -> None:
    world.open().close()
    other = replace(PLAN, recipe=bytes(32))
    world.path.rename(other.path(world.folder))
    world.plan = other
    with pytest.raises(UsageError, match="another recipe"):
        world.open()


def test_a_state_of_things_that_are_no_ciphertexts_is_refused() -> None:
    for stored in KEPT:
        state = stored.initial(DRAW)
        assert stored.checked(state) == state
        for bad in (state[:-1], bytes(32) + state[32:], state[:-32] + b"\xff" * 32):
            with pytest.raises(DecodeError):
                stored.checked(bad)


def test_two_processes_do_not_keep_one_state(world: World) -> None:
    watch = world.open()
    with pytest.raises(UsageError, match="another process"):
        world.open()
    watch.close()


def test_nothing_is_left_of_a_state_that_was_sent_and_none_is_begun_after_the_last_step(world: World) -> None:
    watch = world.open()
    world.clock.jump(STEPS * STEP)
    watch.advance()
    twin = world.path.with_name("twin")
    os.link(world.path, twin)
    held = twin.read_bytes()
    watch.erase()
    assert not world.path.exists()
    left = twin.read_bytes()
    assert not any(piece in left for piece in (held[at : at + 32] for at in range(0, len(held), 32)) if any(piece))
    with pytest.raises(UsageError, match="is over"):
        world.open()


def test_the_file_holds_two_states_and_no_older_one(world: World) -> None:
    """What an intruder with the file finds: the last two states, each as if made just now."""
    watch = world.open()
    states = [_newest(world.path)]
    for _ in range(STEPS):
        watch.record()
        world.clock.jump(STEP)
        watch.advance()
        states.append(_newest(world.path))
    watch.close()
    raw = world.path.read_bytes()
    assert [state in raw for state in states] == [False] * (len(states) - 2) + [True, True]
    assert len(raw) == 2 * slot_size(112 + COUNTED.size)


def _newest(path: Path) -> bytes:
    return newest(path).payload[112:]


@pytest.mark.parametrize("stored", KEPT, ids=lambda stored: type(stored.machine).__name__)
@pytest.mark.parametrize("event", [0, 1])
def test_file_and_memory_share_no_ciphertext_whether_or_not_an_event_came_between(
    tmp_path: Path, stored: StoredState, event: int
) -> None:
    """One look, before the next tick, at both: where they are the same without an event, one shows."""
    world = World(tmp_path, replace(PLAN, stored=stored))
    watch = world.open()
    for _ in range(STEPS):
        if event:
            watch.record()
        both = [
            {state[at : at + 32] for at in range(0, len(state), 32)} for state in (watch.state, _newest(world.path))
        ]
        assert both[0].isdisjoint(both[1])
        world.clock.jump(STEP)
        assert watch.advance()
    watch.close()


CHILD = """
import sys
from pathlib import Path
from infra.lab.kit.clock import SimClock
from tests.unit.test_panprivate_watch import PLAN, World, START, STEP
from dataclasses import replace
from client_agent.panprivate.watch import Schedule
world = World(Path(sys.argv[1]), replace(PLAN, schedule=Schedule(START, STEP, 1000)))
watch = world.open()
world.clock.jump(watch.step * STEP)
while True:
    watch.record()
    world.clock.jump(STEP)
    watch.advance()
    print(watch.step, flush=True)
"""


def test_a_killed_process_leaves_a_state_that_counts_every_step_it_knows(tmp_path: Path) -> None:
    plan = replace(PLAN, schedule=Schedule(START, STEP, 1000))
    world, told = World(tmp_path, plan), 0
    for lines in (1, 2, 3):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(lines):
            told = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.communicate()
        step = kept_step(world.path)
        assert step >= told
        assert _count(world.kept()) == min(step, 9)
