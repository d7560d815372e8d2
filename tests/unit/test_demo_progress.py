"""Where nobody looks at a terminal, progress is plain lines on stderr."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from infra.lab.demo.results.view import EVERY_SECONDS, Lines, Stages


class Time:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_line_says_the_stage_the_share_done_and_the_time_left_every_few_seconds() -> None:
    said: list[str] = []
    time = Time()
    lines = Lines(said.append, time)
    stage = lines.begin("uploads", 1600)
    for _ in range(80):
        time.seconds += 0.25
        lines.advance(stage, 10)
        lines.tell()
    assert len(said) == 20 / EVERY_SECONDS
    assert said[0] == "uploads: 12 % of 1,600, 5 s, about 35 s left"
    assert said[-1] == "uploads: 50 % of 1,600, 20 s, about 20 s left"
    lines.end(stage)
    assert said[-1] == "uploads: done in 20 s"
    time.seconds += 60
    lines.tell()
    assert len(said) == 5, "nothing is open"


def test_a_stage_that_has_hardly_begun_promises_no_end() -> None:
    said: list[str] = []
    time = Time()
    lines = Lines(said.append, time)
    lines.begin("collection", 1)
    time.seconds = 8
    lines.tell()
    assert said == ["collection: 0 % of 1, 8 s"]


def test_of_stages_in_each_other_the_inner_one_is_told_of() -> None:
    said: list[str] = []
    time = Time()
    lines = Lines(said.append, time)
    lines.begin("steps", 10)
    inner = lines.begin("tokens", 10)
    time.seconds = 6
    lines.tell()
    lines.end(inner)
    time.seconds = 12
    lines.tell()
    assert [line.partition(":")[0] for line in said] == ["tokens", "tokens", "steps"]


def test_redirected_progress_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    stages = Stages(Console(file=io.StringIO()))
    with stages.running(), stages.stage("devices", 3) as tick:
        assert stages.current == "devices"
        tick(2)
        tick()
    written = capsys.readouterr().err
    assert written == "devices: done in 0 s\n"
    assert all(character.isprintable() or character == "\n" for character in written)
    assert stages.current == ""


def test_a_stage_in_which_a_run_ends_stays_the_current_one() -> None:
    stages = Stages(Console(file=io.StringIO()), Lines(lambda _line: None))
    with pytest.raises(ValueError, match="broken"), stages.running(), stages.stage("uploads", 3):
        raise ValueError("broken")
    assert stages.current == "uploads"


def test_a_terminal_gets_bars(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    stages = Stages(Console(file=screen, force_terminal=True, width=120))
    with stages.running(), stages.stage("devices", 3) as tick:
        tick()
    assert "devices" in screen.getvalue()
    assert "3/3" in screen.getvalue()
    assert capsys.readouterr().err == ""
