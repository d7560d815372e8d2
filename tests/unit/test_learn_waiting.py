"""What a training run shows while it waits: what for, how much of the time is over, and how much is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from infra.views.learn_run_view import show_waiting, waiting_line
from infra.views.terminal import BAR_WIDTH
from tacit.operations.learning.run import Waiting

ROUND = Waiting("digits-0: reports", 1000.0, 1100.0, 1130.0)


def line(now: float, waiting: Waiting = ROUND) -> str:
    console = Console(width=120, file=io.StringIO(), color_system=None)
    with console.capture() as shown:
        console.print(waiting_line(waiting, now))
    return shown.get().rstrip()


@pytest.mark.parametrize(
    ("now", "full", "left"),
    [
        (900.0, 0, "0:03:20 left"),
        (1000.0, 0, "0:01:40 left"),
        (1050.0, BAR_WIDTH / 2, "0:00:50 left"),
        (1100.0, BAR_WIDTH, "0:00:30 more at most"),
        (1129.5, BAR_WIDTH, "0:00:01 more at most"),
        (1500.0, BAR_WIDTH, "0:00:00 more at most"),
    ],
)
def test_the_bar_is_the_time_of_the_reports_and_then_that_of_the_release_is_told(
    now: float, full: float, left: str
) -> None:
    shown = line(now)
    assert shown.startswith("digits-0: reports\n")
    assert shown.endswith(f" {left}")
    assert abs(shown.count("\u2501") - full) <= 1


def test_a_wait_without_a_length_is_shown_too() -> None:
    assert line(5.0, Waiting("x", 5.0, 5.0, 5.0)).endswith("0:00:00 more at most")


def test_nothing_is_drawn_where_nobody_looks_and_what_was_drawn_on_a_terminal_disappears() -> None:
    for is_terminal in (False, True):
        written = io.StringIO()
        console = Console(file=written, force_terminal=is_terminal, width=100)
        with show_waiting(console, lambda: 1050.0, ROUND):
            pass
        assert ("0:00:50 left" in written.getvalue()) == is_terminal
