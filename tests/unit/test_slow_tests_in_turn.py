"""Every slow test has its day, and a day's tests fit into a run."""

from __future__ import annotations

import re
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kit.durations import RECORDED, RECORDED_SLOW, recorded
from tests.kit.rotation import DAY_SECONDS, IN_ORDER, Rotation, Share, are_in_turn, turns

SLOW = re.compile(r"\bmark\.slow\b")


def test_every_file_with_slow_tests_is_recorded_and_no_other() -> None:
    here = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_slow_tests_in_turn.py"
    }
    assert set(recorded(RECORDED_SLOW)) == {name for name, text in here.items() if SLOW.search(text)}
    assert set(recorded(RECORDED)) <= set(here), "run make durations"


def test_files_share_a_day_and_a_long_one_is_dealt_out_over_several() -> None:
    seconds = {"a": 150, "b": 50, "c": 1, "d": 401, "e": 100}
    assert [[str(share) for share in day] for day in turns(seconds)] == [
        ["a", "b"],
        ["c", "d (1 of 3)"],
        ["d (2 of 3)"],
        ["d (3 of 3)"],
        ["e"],
    ]


def test_every_share_of_every_file_has_one_day_that_it_fits_into() -> None:
    seconds = recorded(RECORDED_SLOW)
    for path in IN_ORDER:
        if seconds[path] > DAY_SECONDS:
            del seconds[path]
    days = turns(seconds)
    shares = [share for day in days for share in day]
    for path in seconds:
        of = {share.of for share in shares if share.path == path}
        assert len(of) == 1
        assert sorted(share.number for share in shares if share.path == path) == list(range(of.pop()))
    assert all(sum(seconds[share.path] / share.of for share in day) <= DAY_SECONDS for day in days)


def test_the_shares_of_a_file_are_all_its_slow_tests_once() -> None:
    files = ["a", None, "a", "b", "a", "c", "b"]
    shares = [{"a": Share("a", number, 2), "b": Share("b")} for number in range(2)]
    assert are_in_turn(shares[0], files) == [True, False, False, True, True, False, True]
    assert are_in_turn(shares[1], files) == [False, False, True, True, False, False, True]


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
