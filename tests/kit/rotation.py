"""A part of the slow tests, another one every day, so that a run of all checks has some of them and a fortnight all:
the files are shared out over the days by their recorded durations, and a day has the same ones in every run. The tests
of a file that lasts longer than a worker has time are dealt out over several days."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from tests.kit.durations import RECORDED_SLOW, file_of, recorded

DAYS = 14
WORKERS = 2
"""How many processes share the files of a day."""
WORKER_SECONDS = 600
"""How long each of them may be at work, as recorded."""
RUN_SECONDS = 690.0
"""When so much time has passed, the tests that have not begun are skipped; ``.ci/run`` ends the run after 1,800."""
LEFT_OUT = {
    "tests/e2e/test_examples_of_help.py": "each command goes on from the ones before it, for a quarter of an hour"
}
"""Files for which no day has room, and why: only ``make test-all`` runs them."""
TOGETHER = {"tests/e2e/test_examples_in_full.py": "place", "tests/e2e/test_examples.py": ""}
"""Files whose tests go on from where the ones before them ended, if they have the same value of this parameter; all of
them where it is empty."""


@dataclass(frozen=True)
class Share:
    """The tests of a file whose place among its slow tests, divided by ``of``, leaves ``number``. Tests that belong
    together have one place."""

    path: str
    number: int = 0
    of: int = 1

    def __str__(self) -> str:
        return self.path if self.of == 1 else f"{self.path} ({self.number + 1} of {self.of})"


def turns(seconds: Mapping[str, int]) -> list[list[Share]]:
    """What runs on each of ``DAYS``: the longest share first, each on the day that has least to do and no other share
    of its file, as one worker has all of a file's tests."""
    parts = {path: math.ceil(lasting / WORKER_SECONDS) for path, lasting in seconds.items() if path not in LEFT_OUT}
    shares = [Share(path, number, of) for path, of in parts.items() for number in range(of)]
    days: list[list[Share]] = [[] for _ in range(DAYS)]
    for share in sorted(shares, key=lambda one: (-seconds[one.path] / one.of, one.path, one.number)):
        free = [day for day in days if share.path not in {one.path for one in day}]
        min(free, key=lambda day: load(day, seconds)).append(share)
    return days


def load(day: Sequence[Share], seconds: Mapping[str, int]) -> float:
    """How long the tests of a day last, one after the other, as recorded."""
    return sum(seconds[share.path] / share.of for share in day)


def are_in_turn(shares: Mapping[str, Share], tests: Sequence[tuple[str, str] | None]) -> list[bool]:
    """Whether each test is in one of the shares, given by file. ``tests``: by test its file, and what it has in common
    with those that it belongs to; None if it is not slow."""
    seen: dict[str, dict[str, int]] = {}
    found = []
    for test in tests:
        path, together = test or ("", "")
        share, places = shares.get(path), seen.setdefault(path, {})
        place = places.setdefault(together, len(places))
        found.append(share is not None and place % share.of == share.number)
    return found


def _place(item: pytest.Item) -> tuple[str, str] | None:
    if item.get_closest_marker("slow") is None:
        return None
    path = file_of(item.nodeid)
    if path not in TOGETHER:
        return path, item.nodeid
    parameters = getattr(item, "callspec", None)
    return path, "" if parameters is None else str(parameters.params.get(TOGETHER[path], ""))


class Rotation:
    """Runs the slow tests whose turn is on ``day``."""

    def __init__(self, day: date) -> None:
        days = turns(recorded(RECORDED_SLOW))
        number = day.toordinal() % DAYS
        self._shares = {share.path: share for share in days[number]}
        self._said = f"slow tests of {day}: part {number + 1} of {DAYS}: {' '.join(map(str, days[number]))}"
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
        here = are_in_turn(self._shares, [_place(item) for item in items])
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
