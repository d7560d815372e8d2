"""A service that dies is started again after a pause, a bounded number of times, and never where that would harm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from infra.lab.kit.clock import SimClock
from infra.stacks.layout import Layout
from infra.stacks.processes import PIDS, ServiceProcess
from infra.stacks.reviving import MOST_FAILURES, WINDOW_SECONDS, Failures, Reviving
from infra.stacks.workers import Part
from tacit.errors import UsageError


class Process:
    """A process that ends when it is told to."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, cast("int | None", None)
        self._over = asyncio.Event()

    async def wait(self) -> int:
        await self._over.wait()
        return cast("int", self.returncode)

    def end(self, status: int) -> None:
        self.returncode = status
        self._over.set()


class Service(ServiceProcess):
    """A service without a program."""

    starts = True

    async def start(self, layout: Layout, also: Sequence[str] = ()) -> None:
        del layout, also
        self.process, self.held = cast("Any", Process(self.pid + 1)), False
        self._fresh.set()
        if not self.starts:
            self.end(1)
            raise UsageError(f"{self.title} did not start")

    def end(self, status: int) -> None:
        cast("Process", self.process).end(status)


class Stage:
    """One service under watch, by a clock that moves when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.said = SimClock(), list[str]()
        part = Part("leader", "leader", folder / "config.json", folder / "service.log", "http://127.0.0.1:1")
        self.service = Service(part, cast("Any", Process(100)))
        layout = cast("Any", type("Folder", (), {"state_dir": folder})())
        self.reviving = Reviving(layout, [self.service], self.clock, self.said.append, "tacit up restart {}")

    async def dies(self, status: int, pause: float) -> None:
        """It ends; the pause passes."""
        self.service.end(status)
        for _ in range(20):
            await asyncio.sleep(0)
        await self.clock.advance(pause)
        for _ in range(20):
            await asyncio.sleep(0)


def staged(tmp_path: Path, act: Callable[[Stage], Any]) -> Stage:
    async def run() -> Stage:
        stage = Stage(tmp_path)
        watching = asyncio.ensure_future(stage.reviving.run())
        await asyncio.sleep(0)
        try:
            await act(stage)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return stage

    return asyncio.run(run())


def test_pauses_double_until_a_service_is_given_up_and_failures_of_long_ago_do_not_count() -> None:
    failures = Failures()
    assert [failures.pause(1_000.0 + number) for number in range(MOST_FAILURES)] == [1.0, 2.0, 4.0, 8.0, None]
    later = Failures()
    assert {later.pause(number * WINDOW_SECONDS) for number in range(100)} == {1.0}


def test_a_killed_service_is_started_again_and_the_terminal_says_so(tmp_path: Path) -> None:
    stage = staged(tmp_path, lambda stage: stage.dies(-9, 1.0))
    assert stage.service.pid == 101
    assert stage.said[0].startswith("leader (pid 100) was killed by signal 9; starting it again in 1 s")
    assert stage.said[1] == "leader is running again (pid 101)"
    assert (tmp_path / PIDS).read_text() == '{"leader": 101}'
    assert stage.reviving.exit_code == 0


def test_a_service_that_keeps_dying_is_given_up_with_its_last_words_and_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "service.log").write_text("tacit: listen: cannot bind\n")

    async def keeps_dying(stage: Stage) -> None:
        for pause in (1.0, 2.0, 4.0, 8.0, 1_000.0):
            await stage.dies(1, pause)

    stage = staged(tmp_path, keeps_dying)
    assert not stage.service.runs
    assert "it failed 5 times within 5 minutes, so it is not started again" in stage.said[-2]
    assert "it said: listen: cannot bind" in stage.said[-2]
    assert "once the cause is gone: tacit up restart leader" in stage.said[-2]
    assert stage.said[-1] == "no service is running any more; Ctrl-C ends this command"
    assert stage.reviving.exit_code == 1


def test_a_service_that_cannot_start_is_no_reason_to_try_for_ever(tmp_path: Path) -> None:
    async def cannot(stage: Stage) -> None:
        stage.service.starts = False
        await stage.dies(-9, 1.0)
        for _ in range(10):
            await stage.clock.advance(30.0)
            await asyncio.sleep(0)

    stage = staged(tmp_path, cannot)
    assert stage.said.count("leader did not start") == MOST_FAILURES - 1
    assert stage.reviving.given_up == {"leader": 1}


@pytest.mark.parametrize("status", [78])
def test_a_service_that_says_that_another_start_makes_it_worse_gets_none(tmp_path: Path, status: int) -> None:
    stage = staged(tmp_path, lambda stage: stage.dies(status, 1_000.0))
    assert stage.service.pid == 100
    assert "another start would make it worse" in stage.said[0]
    assert stage.reviving.exit_code == 78


def test_a_service_that_a_person_starts_again_is_given_up_no_more(tmp_path: Path) -> None:
    async def started(stage: Stage) -> None:
        await stage.dies(78, 0.0)
        await stage.service.start(stage.reviving.layout)
        for _ in range(20):
            await asyncio.sleep(0)
        await stage.dies(-9, 1.0)

    stage = staged(tmp_path, started)
    assert stage.said[-1] == "leader is running again (pid 102)"
    assert stage.reviving.exit_code == 0


def test_a_service_that_was_told_to_stop_stays_so(tmp_path: Path) -> None:
    async def stopped(stage: Stage) -> None:
        stage.service.held = True
        await stage.dies(0, 1_000.0)

    assert staged(tmp_path, stopped).said == []
