"""The order in which several workers take the files of tests: those that last longest come first, so that no worker is
left with a long one at the end. ``make durations`` records how long each lasts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parent.parent / "durations.json"
"""Path of a file of tests -> whole seconds, of every file that lasts so long without its slow tests."""
SLOW_SECONDS = 60
"""What is assumed of each slow test."""


def file_of(nodeid: str) -> str:
    """The path of the file in which a test is."""
    return nodeid.partition("::")[0]


class LongestFirst:
    """Sorts files; the tests of each stay in their order."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort what is going to run."""
        seconds = Counter[str](json.loads(RECORDED.read_text()))
        for item in items:
            if item.get_closest_marker("slow") is not None:
                seconds[file_of(item.nodeid)] += SLOW_SECONDS
        items.sort(key=lambda item: -seconds[file_of(item.nodeid)])


class Recording:
    """Writes down how long each file lasts in this run, whatever worker runs it."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file that the next runs read."""
        lasting = {path: round(seconds) for path, seconds in sorted(self._seconds.items()) if round(seconds)}
        RECORDED.write_text(json.dumps(lasting, indent=1) + "\n")
