"""The process that keeps a device's watches: driven by the clock, told of events by a local socket."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client_agent.panprivate.listening import SOCKET, keep_watches, tell, verdict
from client_agent.panprivate.recipes import plan_of
from client_agent.panprivate.state_files import FOLDER
from client_agent.panprivate.watch import kept_step, states_in
from client_agent.panprivate.watches import Watches
from infra.cli import run
from infra.lab.kit.clock import SimClock, settle
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import changed
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.panprivate.stored import OneServer
from tacit.recipe.policy import Policy
from tacit.recipe.watch_work import work_per_second
from tests.kit.watched import BEGIN, SHARED, STEP_SECONDS, STEPS, WatchedKit

KIT = WatchedKit(b"listening")
HISTOGRAM, SHARED_COUNT = KIT.watched(statistic="histogram"), KIT.watched(SHARED)
DRAW = SeededEntropy(b"panprivate_listening")


def held(path: Path) -> int:
    """How often the event happened, by the newest slot of a histogram's state."""
    data, stored = path.read_bytes(), plan_of(HISTOGRAM).stored
    assert isinstance(stored, OneServer)
    step, half = kept_step(path), len(data) // 2
    (slot,) = [slot for slot in (data[:half], data[half:]) if int.from_bytes(slot[16:20], "big") == step]
    cells = slot[24 + 112 :][: stored.size]
    return [KIT.state_key.open_bit(cell.encode()) for cell in stored.cells(stored.checked(cells))].index(1)


class Kept:
    """Watches for two recipes about one event, and the process around them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, SimClock(BEGIN)
        self.watches = Watches(folder / FOLDER, self.clock, DRAW)
        self.told: list[str] = []
        for recipe in (HISTOGRAM, SHARED_COUNT):
            self.watches.expect(recipe)
        self.paths = [plan_of(recipe).path(folder / FOLDER) for recipe in (HISTOGRAM, SHARED_COUNT)]

    async def tell(self, event: str, times: int) -> str:
        return await asyncio.to_thread(tell, self.folder, event, times)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Kept]:
    stage = Kept(tmp_path)
    async with keep_watches(stage.watches, tmp_path, stage.clock, 1.0, stage.told.append):
        await settle()
        yield stage
    stage.watches.close()
    assert not (tmp_path / SOCKET).exists()


async def test_events_that_applications_tell_are_kept_step_by_step_for_several_recipes(stage: Kept) -> None:
    assert stat.S_IMODE((stage.folder / SOCKET).stat().st_mode) == 0o600
    before = stage.paths[0].read_bytes()
    assert [await stage.tell(*said) for said in (("visit", 2), ("visit", 0), ("crash", 1))] == [
        "ok",
        "ok",
        "not watched",
    ]
    assert stage.paths[0].read_bytes() == before
    await stage.clock.advance(STEP_SECONDS)
    assert [kept_step(path) for path in stage.paths] == [1, 1]
    assert held(stage.paths[0]) == 2
    await stage.tell("visit", 1)
    await stage.clock.advance(STEP_SECONDS)
    assert held(stage.paths[0]) == 3
    assert stage.told == []


async def test_no_file_of_the_device_notes_when_an_event_came(stage: Kept) -> None:
    def times() -> dict[Path, tuple[int, ...]]:
        found = {path: path.stat() for path in [stage.folder, *sorted(stage.folder.rglob("*"))]}
        accessed = {path: () if path.is_dir() else (one.st_atime_ns,) for path, one in found.items()}  # listed just now
        return {path: (one.st_mtime_ns, one.st_ctime_ns, *accessed[path]) for path, one in found.items()}

    before = times()
    assert await stage.tell("visit", 1) == "ok"
    assert times() == before


async def test_memory_is_replaced_with_every_tick_and_the_file_with_every_step_alone(stage: Kept) -> None:
    states, files = set(), set()
    for _ in range(STEP_SECONDS):
        await stage.clock.advance(1)
        states.add(stage.watches.state(HISTOGRAM))
        files.add(stage.paths[0].read_bytes())
    assert (len(states), len(files)) == (STEP_SECONDS, 2)


async def test_a_watch_that_begins_while_nothing_is_watched_is_replaced_from_the_next_tick_on(tmp_path: Path) -> None:
    clock, states = SimClock(BEGIN), list[bytes]()
    watches = Watches(tmp_path / FOLDER, clock, DRAW)
    async with keep_watches(watches, tmp_path, clock, 1.0, pytest.fail):
        for _ in range(2):
            await clock.advance(3.5)
            watches.expect(HISTOGRAM)
            states.append(watches.state(HISTOGRAM))
            await settle()
            for _ in range(3):
                await clock.advance(0.5)
                states.append(watches.state(HISTOGRAM))
            watches.forget({HISTOGRAM.hash})
    watches.close()
    ticked = [earlier != later for earlier, later in itertools.pairwise(states)]
    assert ticked == [True, False, True, True, True, False, True], "at whole seconds, and a new one between the two"


async def test_more_events_than_count_take_no_more_work_than_those_that_do(stage: Kept) -> None:
    drawn = 0

    def counting(length: int, /) -> bytes:
        nonlocal drawn
        drawn += length
        return DRAW(length)

    stage.watches.close()
    watches = Watches(stage.folder / FOLDER, stage.clock, counting)
    watches.expect(HISTOGRAM)
    most, used = watches.most("visit"), []
    assert most == HISTOGRAM.body()["question"]["encoder"]["most"] > 1
    assert watches.most("crash") == 0
    for times in (most, 256):
        before = drawn
        assert await verdict(watches, f"record visit {times}\n".encode()) == "ok"
        used.append(drawn - before)
    assert used[0] == used[1] > 0
    stage.clock.jump(STEP_SECONDS)
    watches.tick()
    assert held(stage.paths[0]) == most
    watches.close()


def test_what_several_recipes_cost_together_is_bounded_by_recipes_alone(tmp_path: Path) -> None:
    one, other = work_per_second(HISTOGRAM), work_per_second(SHARED_COUNT)
    clock = SimClock(BEGIN)
    watches = Watches(tmp_path, clock, DRAW, work=one + other - 1)
    watches.expect(SHARED_COUNT)
    watches.record("visit", 3)
    watches.expect(HISTOGRAM)
    assert len(watches) == 1
    assert watches.trouble.endswith(
        f"takes {one} multiplications a second, and {other} of {one + other - 1} are given to others"
    )
    assert plan_of(HISTOGRAM).stored.checked(watches.state(HISTOGRAM))  # a device that kept nothing has an answer, too
    watches.forget({SHARED_COUNT.hash})
    watches.expect(HISTOGRAM)
    clock.jump(STEP_SECONDS)
    watches.tick()
    assert (len(watches), watches.trouble) == (1, "")
    watches.close()
    for recipe in (HISTOGRAM, SHARED_COUNT):  # what was taken up once goes on, whatever comes before it
        again = Watches(tmp_path, clock, DRAW, work=1)
        again.expect(recipe)
        assert len(again) == (recipe is HISTOGRAM)
        again.close()


def test_the_recipes_of_one_analyst_leave_the_work_of_watching_for_another(tmp_path: Path) -> None:
    """Its second recipe would fit beside the first, and takes the other's half."""
    one, other = work_per_second(HISTOGRAM), work_per_second(SHARED_COUNT)
    analyst = HISTOGRAM.parties.analyst
    named = Policy(analysts={analyst.operator: analyst.signing_key, "other.example": analyst.signing_key})
    theirs = changed(HISTOGRAM, "parties.analyst.operator", "other.example")
    watches = Watches(tmp_path, SimClock(BEGIN), DRAW, work=2 * max(one, other), policy=named)
    watches.expect(HISTOGRAM)
    watches.expect(SHARED_COUNT)
    assert len(watches) == 1
    assert f"{analyst.operator} has {max(one, other)}, and {one} are in use" in watches.trouble
    watches.expect(theirs)
    assert len(watches) == 2
    watches.close()
    alone = Watches(None, SimClock(BEGIN), DRAW, work=2 * max(one, other))
    alone.expect(HISTOGRAM)
    alone.expect(SHARED_COUNT)
    assert len(alone) == 2, "a policy that names no analysts divides nothing"


async def test_an_agent_that_is_slow_to_answer_is_not_called_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_agent.panprivate.listening.PATIENCE_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(tmp_path / SOCKET))
        busy.listen()
        with pytest.raises(UsageError, match="may count all the same"):
            await asyncio.to_thread(tell, tmp_path, "visit", 1)


async def test_a_line_that_is_no_record_changes_nothing(stage: Kept) -> None:
    for line in (
        b"",
        b"\n",
        b"record visit\n",
        b"record visit -1\n",
        b"record visit 257\n",
        b"record  1\n",
        b"forget visit 1\n",
        b"\xff\n",
    ):
        reader, writer = await asyncio.open_unix_connection(stage.folder / SOCKET)
        writer.write(line)
        writer.write_eof()
        assert await reader.read() == b"malformed\n"
        writer.close()
    reader, writer = await asyncio.open_unix_connection(stage.folder / SOCKET)
    writer.write(b"x" * 5000)
    assert await reader.read() == b""
    writer.close()
    await stage.clock.advance(STEP_SECONDS)
    assert held(stage.paths[0]) == 0


async def test_a_folder_is_never_too_deep_for_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    stage = Kept(deep)
    async with keep_watches(stage.watches, deep, stage.clock, 1.0, stage.told.append):
        await settle()
        assert await stage.tell("visit", 2) == "ok"
        assert (stage.told, stat.S_IMODE((deep / SOCKET).stat().st_mode)) == ([], 0o600)
    assert not (deep / SOCKET).exists()
    stage.watches.close()


async def test_a_folder_in_which_no_socket_can_be_made_is_told_and_the_steps_go_on(tmp_path: Path) -> None:
    stage = Kept(tmp_path)
    taken = tmp_path / "taken"
    (taken / SOCKET).mkdir(parents=True)
    async with keep_watches(stage.watches, taken, stage.clock, 1.0, stage.told.append):
        await stage.clock.advance(STEP_SECONDS)
    assert [kept_step(path) for path in stage.paths] == [1, 1]
    assert len(stage.told) == 1
    assert "applications cannot tell this agent of events" in stage.told[0]
    stage.watches.close()


def test_one_state_that_is_gone_does_not_end_the_other_watches(tmp_path: Path) -> None:
    stage = Kept(tmp_path)
    stage.watches.close()
    stage.paths[0].write_bytes(b"")
    again = Watches(tmp_path / FOLDER, stage.clock, DRAW)
    for recipe in (HISTOGRAM, SHARED_COUNT):
        again.expect(recipe)
    assert len(again) == 2
    assert "put aside" in again.trouble
    assert again.record("visit")
    again.close()


async def test_a_disk_that_takes_no_write_is_told_and_asked_again_at_the_next_tick(
    stage: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    await stage.tell("visit", 2)
    with monkeypatch.context() as patch:
        patch.setattr("client_agent.panprivate.slots.os.pwrite", full)
        await stage.clock.advance(STEP_SECONDS)
        assert "No space left on device" in stage.watches.trouble
        assert kept_step(stage.paths[0]) == 0
    await stage.clock.advance(1)
    assert stage.watches.trouble == ""
    assert held(stage.paths[0]) == 2


def test_a_process_that_starts_again_erases_all_that_is_left_of_a_recipe_that_is_decided(tmp_path: Path) -> None:
    stage = Kept(tmp_path)
    stage.watches.close()
    folder, own = tmp_path / FOLDER, HISTOGRAM.hash
    (folder / f"{own.hex()}.state.aside").write_bytes(b"x" * 9000)
    (folder / f".{own.hex()}.state.new").write_bytes(b"half a state")
    (folder / "notes.txt").write_text("somebody else's")
    again = Watches(folder, stage.clock, DRAW)
    again.forget({own})
    left = sorted(path.name for path in folder.iterdir())
    assert left == sorted([stage.paths[1].name, "notes.txt"])
    again.keep_only(())
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_state_that_cannot_be_erased_is_told_and_erased_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Kept(tmp_path)

    def broken(_file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("client_agent.panprivate.slots.os.fsync", broken)
        stage.watches.forget({HISTOGRAM.hash})
    assert "cannot be erased: Input/output error" in stage.watches.trouble
    stage.watches.forget({HISTOGRAM.hash})
    assert stage.watches.trouble == ""
    assert not stage.paths[0].exists()
    stage.watches.close()


def test_after_the_last_step_nothing_is_counted_and_when_the_recipe_is_over_nothing_is_left(tmp_path: Path) -> None:
    stage = Kept(tmp_path)
    stage.clock.jump(STEPS * STEP_SECONDS)
    stage.watches.tick()
    final = stage.watches.state(HISTOGRAM)
    assert stage.watches.record("visit")
    assert stage.watches.state(HISTOGRAM) == final
    stage.clock.jump(HISTOGRAM.interval.duration)
    stage.watches.tick()
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert not stage.watches.record("visit")


def test_watches_in_memory_leave_no_files_and_count_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clock = SimClock(BEGIN)
    watches, stored = Watches(None, clock, DRAW), plan_of(HISTOGRAM).stored
    watches.expect(HISTOGRAM)
    watches.record("visit", 2)
    clock.jump(STEP_SECONDS)
    watches.tick()
    assert isinstance(stored, OneServer)
    assert [KIT.state_key.open_bit(cell.encode()) for cell in stored.cells(watches.state(HISTOGRAM))] == [0, 0, 1, 0]
    watches.forget({HISTOGRAM.hash})
    assert list(tmp_path.iterdir()) == []


def test_the_commands_list_state_that_does_not_depend_on_events_and_say_where_nobody_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = create_layout(tmp_path, StackOptions(epoch_seconds=60), OsEntropy(), BEGIN)
    (config,) = provision_agents(layout, 1, SeededEntropy(1), BEGIN)
    assert run(["agent", "record", "visit", "--config", str(config)]) == 1
    assert "no agent watches here; start it with: tacit agent run" in capsys.readouterr().err
    assert run(["agent", "state", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    stage = Kept(config.parent)
    stage.watches.record("visit", 3)
    assert run(["agent", "state", "--config", str(config), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == states_in(config.parent / FOLDER)
    assert sorted(row["recipe"] for row in rows) == sorted(b64url(one.hash) for one in (HISTOGRAM, SHARED_COUNT))
    assert {(row["step"], row["bytes"]) for row in rows} == {(0, 8192)}
    stage.watches.close()
    stage.paths[0].write_bytes(b"?")
    assert run(["agent", "state", "--config", str(config)]) == 1
    assert "no state has" in capsys.readouterr().err
