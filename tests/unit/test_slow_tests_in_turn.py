"""Every slow test has its day within a fortnight, and a day's tests fit into a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.conftest import ROOT
from tests.kit.durations import RECORDED, RECORDED_SLOW, recorded
from tests.kit.rotation import DAYS, LEFT_OUT, WORKER_SECONDS, WORKERS, Share, turns

SLOW = re.compile(r"\bmark\.slow\b")


def test_every_file_with_slow_tests_is_recorded_and_no_other() -> None:
    here = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_slow_tests_in_turn.py"
    }
    assert set(recorded(RECORDED_SLOW)) == {name for name, text in here.items() if SLOW.search(text)}
    assert set(recorded(RECORDED)) <= set(here), "run make durations"


def test_a_fortnight_has_every_slow_test_and_no_day_lasts_longer_than_two_workers_have_time() -> None:
    seconds = recorded(RECORDED_SLOW)
    days = turns(seconds)
    assert len(days) == DAYS == 14
    shares = [share for day in days for share in day]
    assert len(shares) == len(set(shares))
    for path in set(seconds) - set(LEFT_OUT):
        of = {share.of for share in shares if share.path == path}
        assert len(of) == 1, path
        assert sorted(share.number for share in shares if share.path == path) == list(range(of.pop()))
    for number, day in enumerate(days):
        assert len({share.path for share in day}) == len(day)
        assert shared_out(day, seconds) <= WORKER_SECONDS, f"part {number + 1}: run make durations MARKED=slow"


def test_what_a_fortnight_leaves_out_is_one_walk_that_no_day_has_room_for() -> None:
    seconds = recorded(RECORDED_SLOW)
    assert list(LEFT_OUT) == ["tests/e2e/test_examples_of_help.py"]
    assert all(seconds[path] > WORKER_SECONDS for path in LEFT_OUT)


def shared_out(day: Sequence[Share], seconds: Mapping[str, int]) -> float:
    """Seconds until the last worker is done, if each takes the longest file that is left."""
    ends = [0.0] * WORKERS
    for lasting in sorted((seconds[share.path] / share.of for share in day), reverse=True):
        ends[ends.index(min(ends))] += lasting
    return max(ends)
