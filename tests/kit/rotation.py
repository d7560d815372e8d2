"""A part of the slow tests, another one every day, so that a run of all checks has some of them and every one has its
turn: the files are shared out over the days by their recorded durations, and a day has the same ones in every run. The
tests of a file that lasts longer than a day's share are dealt out over several days."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from tests.kit.durations import RECORDED_SLOW, file_of, recorded

IN_ORDER = (
    "tests/e2e/test_examples.py",
    "tests/e2e/test_examples_in_full.py",
    "tests/e2e/test_examples_of_benches.py",
    "tests/e2e/test_examples_of_help.py",
    "tests/e2e/test_staging_many.py",
)
"""Files whose tests go on from where the ones before them ended, or are one: they run as a whole, or only in ``make
test-all``."""
DAY_SECONDS = 200
"""How long the tests of one day may last, as recorded."""
RUN_SECONDS = 400.0
"""When so much time has passed, the tests that have not begun are skipped."""


@dataclass(frozen=True)
class Share:
    """The tests of a file whose place among its slow tests, divided by ``of``, leaves ``number``."""

    path: str
    number: int = 0
    of: int = 1

    def __str__(self) -> str:
        return self.path if self.of == 1 else f"{self.path} ({self.number + 1} of {self.of})"


def turns(seconds: Mapping[str, int]) -> list[list[Share]]:
    """What runs on every day, after which the first day's tests have their turn again."""
    days: list[list[Share]] = []
    left = 0.0
    for path, lasting in sorted(seconds.items()):
        if path in IN_ORDER and lasting > DAY_SECONDS:
            continue
        of = math.ceil(lasting / DAY_SECONDS)
        for number in range(of):
            if lasting / of > left:
                days.append([])
                left = DAY_SECONDS
            days[-1].append(Share(path, number, of))
            left -= lasting / of
    return days


def are_in_turn(shares: Mapping[str, Share], files: Sequence[str | None]) -> list[bool]:
    """Whether each test is in one of the shares, given by file. ``files`` are the tests' files, None if not slow."""
    seen = Counter[str | None]()
    found = []
    for path in files:
        share = shares.get(path or "")
        found.append(share is not None and seen[path] % share.of == share.number)
        seen[path] += 1
    return found


class Rotation:
    """Runs the slow tests whose turn is on ``day``."""

    def __init__(self, day: date) -> None:
        days = turns(recorded(RECORDED_SLOW))
        number = day.toordinal() % len(days)
        self._shares = {share.path: share for share in days[number]}
        self._said = f"slow tests of {day}: part {number + 1} of {len(days)}: {' '.join(map(str, days[number]))}"
        self._end = time.monotonic() + RUN_SECONDS
        self._has_others = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Print which part of the slow tests this run takes."""
        session.config.get_terminal_writer().line(self._said)

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Skip files that hold no test of this part."""
        path = collection_path.relative_to(config.rootpath).as_posix()
        return True if collection_path.suffix == ".py" and path not in self._shares else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests that are not in this part."""
        slow = [file_of(item.nodeid) if item.get_closest_marker("slow") else None for item in items]
        here = are_in_turn(self._shares, slow)
        self._has_others = len(items) > sum(here)
        config.hook.pytest_deselected(items=[item for item, ours in zip(items, here, strict=True) if not ours])
        items[:] = [item for item, ours in zip(items, here, strict=True) if ours]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A part may hold no test, where a file has fewer tests than days that it could fill."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._has_others:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_runtest_setup(self) -> None:
        """Begin no test when the time is over."""
        if time.monotonic() > self._end:
            pytest.skip(f"the slow tests of today have had their {RUN_SECONDS:.0f} seconds")
