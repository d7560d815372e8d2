"""The input of the demo of local pan-privacy, what its flags take, and what it says of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from infra.lab.commands.demo import demo
from infra.lab.commands.demo_watched import DEFAULT_STEPS, FEWER_STEPS, MOST, visits_of, watching_of
from infra.lab.demo.event_counts import (
    EVENT,
    MAX_DEVICES,
    MAX_STEPS,
    MIN_DEVICES,
    MOST_PER_STEP,
    load_visits,
    made_up,
    steps_of,
)
from infra.lab.demo.results.watched_result import looks_of
from infra.lab.demo.watched_run import Watching, truths
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import UsageError

TWO, ONE = "pan-private", "pan-private-single"
STEPS = 4


def table(folder: Path, cells: list[str], name: str = "visits") -> Path:
    path = folder / "computers.csv"
    path.write_text(f"id,{name}\n" + "".join(f"{number},{cell}\n" for number, cell in enumerate(cells)))
    return path


def test_whole_numbers_are_taken_and_an_empty_cell_is_none(tmp_path: Path) -> None:
    cells = ["0", "3", "", " 2 ", "007", "+1", str(MOST_PER_STEP * STEPS)] + ["1"] * MIN_DEVICES
    found = load_visits(table(tmp_path, cells), "visits", STEPS, None)
    assert found.counts == (0, 3, 0, 2, 7, 1, MOST_PER_STEP * STEPS, *([1] * MIN_DEVICES))
    assert (found.event, found.missing) == ("visits", 1)


def test_a_column_whose_name_no_event_may_have_is_called_a_visit(tmp_path: Path) -> None:
    assert load_visits(table(tmp_path, ["1"] * 60, "How often?"), "How often?", STEPS, None).event == EVENT


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("-1", "'-1' is no whole number from 0 on"),
        ("2.5", "'2.5' is no whole number from 0 on"),
        ("many", "'many' is no whole number from 0 on"),
        ("1e3", "'1e3' is no whole number from 0 on"),
        ("٣", "is no whole number from 0 on"),
        ("nine", "'nine' is no whole number from 0 on"),
        ("9" * 30, "is no whole number from 0 on"),
        (str(MOST_PER_STEP * STEPS + 1), f"65 events are more than 64, {MOST_PER_STEP} a step; ask for more --steps"),
    ],
)
def test_another_cell_is_refused_by_its_line(tmp_path: Path, cell: str, said: str) -> None:
    for before in (70, 0):
        path = table(tmp_path, ["1"] * before + [cell])
        with pytest.raises(UsageError) as refused:
            load_visits(path, "visits", STEPS, None)
        assert f"{path}: line {before + 2}, column visits: " in str(refused.value)
        assert said in str(refused.value)


def test_too_few_and_too_many_devices_are_refused(tmp_path: Path) -> None:
    few = table(tmp_path, ["1"] * (MIN_DEVICES - 1))
    with pytest.raises(UsageError, match="59 rows below the header; the demo needs at least 60"):
        load_visits(few, "visits", STEPS, None)
    with pytest.raises(UsageError, match="has 59 rows, --devices asks for 60"):
        load_visits(few, "visits", STEPS, 60)
    with pytest.raises(UsageError, match="59 devices are too few to hide in"):
        made_up(MIN_DEVICES - 1)
    with pytest.raises(UsageError, match="2,001 devices are too many"):
        made_up(MAX_DEVICES + 1)
    with pytest.raises(UsageError, match="more than 2,000 rows"):
        load_visits(table(tmp_path, ["1"] * (MAX_DEVICES + 1)), "visits", STEPS, None)
    assert len(load_visits(table(tmp_path, ["1"] * 80), "visits", STEPS, 70).counts) == 70


def test_the_made_up_library_is_the_same_in_every_run() -> None:
    all_of_them = made_up(MAX_DEVICES).counts
    assert made_up(100).counts == all_of_them[:100]
    assert 0.4 < sum(count == 0 for count in all_of_them) / MAX_DEVICES < 0.7
    assert set(range(5)) < set(all_of_them)


def test_events_are_spread_over_the_steps_and_none_is_lost() -> None:
    entropy = SeededEntropy(3)
    spread = [steps_of(200, STEPS, entropy) for _ in range(50)]
    assert all(sum(own) == 200 and len(own) == STEPS for own in spread)
    assert all(2300 < sum(own[step] for own in spread) < 2700 for step in range(STEPS))
    assert steps_of(7, 1, entropy) == [7]


def test_the_truth_is_what_the_result_would_be_without_protection() -> None:
    counts = (0, 0, 1, 4, 9)
    assert truths(counts, Watching(TWO, "count", STEPS, 1)) == {"nonzero": 3}
    assert truths(counts, Watching(ONE, "histogram", STEPS, 2)) == {"0": 2, "1": 1, "2+": 2}
    assert truths(counts, Watching(ONE, "mean", STEPS, 4)) == {"mean": 9 / 5}


@pytest.mark.parametrize(
    ("events", "shown"),
    [((0, 2, 0), [(2, 2), (3, 0)]), ((0, 1), [(2, 1), (1, 0)]), ((0, 0), [(1, 0)]), ((3,), [(1, 3)])],
)
def test_a_step_with_events_and_one_without_are_shown(events: tuple[int, ...], shown: list[tuple[int, int]]) -> None:
    files = [(8192, bytes([number])) for number in range(len(events) + 1)]
    found = looks_of(files, "visit", events)
    assert [(look.step, look.events) for look in found] == shown
    assert all((look.before, look.after) == (bytes([look.step - 1]), bytes([look.step])) for look in found)


def test_what_is_not_said_is_usual() -> None:
    assert watching_of(TWO, None, None) == Watching(TWO, "count", DEFAULT_STEPS, 1)
    assert watching_of(TWO, "histogram", None) == Watching(TWO, "histogram", FEWER_STEPS, MOST)
    assert watching_of(ONE, "mean", 7) == Watching(ONE, "mean", 7, MOST)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"model": "private"}, "--model takes local, shuffled, pan-private, pan-private-single"),
        ({"model": "secure-aggregation"}, "--model takes local, shuffled, pan-private, pan-private-single"),
        ({"model": TWO, "statistic": "mean"}, "--statistic with pan-private takes count, histogram"),
        ({"model": ONE, "statistic": "median"}, "--statistic with pan-private-single takes count, histogram, mean"),
        ({"model": ONE, "steps": 0}, f"--steps takes a number from 1 to {MAX_STEPS}"),
        ({"model": ONE, "steps": MAX_STEPS + 1}, f"--steps takes a number from 1 to {MAX_STEPS}"),
        ({"model": TWO, "buckets": "0,1,2"}, "--buckets goes with the main model or --model shuffled"),
        ({"model": TWO, "categories": "a,b"}, "--categories goes with the main model or --model shuffled"),
        ({"model": TWO, "column": "visits"}, "--column goes with --input"),
        ({"model": TWO, "input_file": Path("visits.csv")}, "--input needs --column NAME"),
        ({"statistic": "count"}, "--statistic goes with --model pan-private or --model pan-private-single"),
        ({"steps": 3}, "--steps goes with --model pan-private or --model pan-private-single"),
        ({"model": "local", "missing": "ignore"}, "--missing goes with the main model or --model shuffled"),
        ({"model": "local", "heavy_hitters": True}, "give either --model or --heavy-hitters"),
        ({"heavy_hitters": True, "engine": "tree"}, "--engine goes with --model local"),
        ({"heavy_hitters": True, "column": "word"}, "--column goes with --input"),
        ({"epsilon": "1"}, "--epsilon goes with --heavy-hitters or --model local"),
        ({"model": "local", "epsilon": "nan"}, "--epsilon takes a number from 0.1 to 8"),
        ({"model": "local", "domain": 9}, "--domain goes with --model shuffled"),
    ],
)
def test_flags_that_do_not_fit_are_refused_before_anything_runs(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        demo(**flags)
    assert said in str(refused.value)


def test_own_data_is_read_with_the_steps_that_are_asked_for(tmp_path: Path) -> None:
    path = table(tmp_path, ["40"] * MIN_DEVICES)
    asked = watching_of(ONE, "count", 3)
    assert visits_of(asked, path, "visits", None).counts == (40,) * MIN_DEVICES
    with pytest.raises(UsageError, match="40 events are more than 32"):
        visits_of(watching_of(ONE, "count", 2), path, "visits", None)
