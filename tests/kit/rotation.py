"""A part of the slow tests, another one every day, so that a run of all checks has some of them and every one has its
turn: the files are shared out over the days by their recorded durations, and a day has the same ones in every run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from tests.kit.durations import RECORDED_SLOW, file_of, recorded

DAY_SECONDS = 150
"""How long the files of one day may last, as recorded; a longer file is alone, unless it is longer than a run."""
RUN_SECONDS = 300.0
"""When so much time has passed, the tests that have not begun are skipped."""


def turns(seconds: Mapping[str, int]) -> list[list[str]]:
    """The files of every day, after which the first day's have their turn again."""
    days: list[list[str]] = []
    left = 0
    for path, lasting in sorted(seconds.items()):
        if lasting > RUN_SECONDS:
            continue
        if lasting > left:
            days.append([])
            left = DAY_SECONDS
        days[-1].append(path)
        left -= lasting
    return days


class Rotation:
    """Runs the slow tests whose turn is on ``day``."""

    def __init__(self, day: date) -> None:
        days = turns(recorded(RECORDED_SLOW))
        number = day.toordinal() % len(days)
        self._files = days[number]
        self._said = f"slow tests of {day}: part {number + 1} of {len(days)}: {' '.join(self._files)}"
        self._end = time.monotonic() + RUN_SECONDS

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Print which part of the slow tests this run takes."""
        session.config.get_terminal_writer().line(self._said)

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Skip files that hold no test of this part."""
        path = collection_path.relative_to(config.rootpath).as_posix()
        return True if collection_path.suffix == ".py" and path not in self._files else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests that are not in this part."""
        here = [item.get_closest_marker("slow") is not None and file_of(item.nodeid) in self._files for item in items]
        config.hook.pytest_deselected(items=[item for item, ours in zip(items, here, strict=True) if not ours])
        items[:] = [item for item, ours in zip(items, here, strict=True) if ours]

    def pytest_runtest_setup(self) -> None:
        """Begin no test when the time is over."""
        if time.monotonic() > self._end:
            pytest.skip(f"the slow tests of today have had their {RUN_SECONDS:.0f} seconds")
