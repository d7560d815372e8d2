"""Every slow test has its day within a fortnight, and a day's tests fit into a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kit.durations import RECORDED, RECORDED_SLOW, recorded
from tests.kit.rotation import DAYS, LEFT_OUT, WORKER_SECONDS, WORKERS, Rotation, Share, are_in_turn, turns

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


def test_a_long_file_is_dealt_out_over_several_days() -> None:
    seconds = {"a": 150, "b": 50, "d": 2 * WORKER_SECONDS + 1, "e": 100}
    days = [[str(share) for share in day] for day in turns(seconds)]
    assert days[:6] == [["d (1 of 3)"], ["d (2 of 3)"], ["d (3 of 3)"], ["a"], ["e"], ["b"]]
    assert not any(days[6:])


def test_the_shares_of_a_file_are_all_its_slow_tests_once_and_keep_together_what_belongs_together() -> None:
    tests = [("a", "1"), None, ("a", "2"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"), ("b", "2")]
    shares = [{"a": Share("a", number, 2), "b": Share("b")} for number in range(2)]
    assert are_in_turn(shares[0], tests) == [True, False, False, True, False, False, True, True]
    assert are_in_turn(shares[1], tests) == [False, False, True, True, True, False, False, True]


@pytest.mark.parametrize(
    ("others", "status", "then"),
    [
        (True, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.OK),
        (False, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.NO_TESTS_COLLECTED),
        (True, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_day_without_a_test_of_its_own_is_no_failure_if_its_files_have_tests_of_other_days(
    others: bool, status: pytest.ExitCode, then: pytest.ExitCode
) -> None:
    session: Any = SimpleNamespace(exitstatus=status)
    rotation = Rotation(date(2026, 1, 1))
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    item: Any = SimpleNamespace(nodeid="tests/none.py::test", get_closest_marker=lambda _name: None)
    rotation.pytest_collection_modifyitems(config, [item] * others)
    rotation.pytest_sessionfinish(session, status)
    assert session.exitstatus == then
