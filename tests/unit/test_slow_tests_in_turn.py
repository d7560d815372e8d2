"""Every slow test has its day, and a day's tests fit into a run."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.kit.durations import RECORDED, RECORDED_SLOW, recorded
from tests.kit.rotation import DAY_SECONDS, RUN_SECONDS, turns

SLOW = re.compile(r"\bmark\.slow\b")


def test_every_file_with_slow_tests_is_recorded_and_no_other() -> None:
    here = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_slow_tests_in_turn.py"
    }
    assert set(recorded(RECORDED_SLOW)) == {name for name, text in here.items() if SLOW.search(text)}
    assert set(recorded(RECORDED)) <= set(here), "run make durations"


def test_every_file_that_fits_into_a_run_has_one_day() -> None:
    seconds = {"a": 100, "b": 50, "c": 1, "d": 200, "e": 150, "f": 301, "g": 10}
    assert turns(seconds) == [["a", "b"], ["c"], ["d"], ["e"], ["g"]]
    days = turns(recorded(RECORDED_SLOW))
    given = [name for day in days for name in day]
    assert sorted(given) == sorted(name for name, last in recorded(RECORDED_SLOW).items() if last <= RUN_SECONDS)
    assert all(len(day) == 1 or sum(recorded(RECORDED_SLOW)[name] for name in day) <= DAY_SECONDS for day in days)
