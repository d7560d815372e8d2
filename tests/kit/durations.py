"""How long files of tests last, as ``make durations`` records it, and the order that follows from it: the files that
last longest come first, so that no worker is left with one of them when the others are done."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
RECORDED, RECORDED_SLOW = TESTS / "durations.json", TESTS / "slow_durations.json"
"""Path of a file of tests -> whole seconds of its tests that are not slow, where it is one at least; and of those that
are."""


def recorded(path: Path) -> Counter[str]:
    """The seconds that are written down in ``path``; 0 of a file that is not there."""
    return Counter(json.loads(path.read_text()))


def file_of(nodeid: str) -> str:
    """The path of the file in which a test is."""
    return nodeid.partition("::")[0]


class LongestFirst:
    """Sorts files; the tests of each stay in their order."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort what is going to run."""
        seconds = recorded(RECORDED)
        if any(item.get_closest_marker("slow") for item in items):
            seconds += recorded(RECORDED_SLOW)
        items.sort(key=lambda item: -seconds[file_of(item.nodeid)])


class Recording:
    """Writes down how long each file lasts in this run, whatever worker runs it."""

    def __init__(self) -> None:
        self._seconds: dict[Path, defaultdict[str, float]] = {
            path: defaultdict(float) for path in (RECORDED, RECORDED_SLOW)
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        path = RECORDED_SLOW if "slow" in report.keywords else RECORDED
        self._seconds[path][file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the files that the next runs read; of other files they say what they said."""
        for path, seconds in self._seconds.items():
            least = 1 if path == RECORDED_SLOW else 0
            found = {**recorded(path), **{file: max(least, round(lasting)) for file, lasting in seconds.items()}}
            kept = {file: lasting for file, lasting in sorted(found.items()) if lasting}
            path.write_text(json.dumps(kept, indent=1) + "\n")
