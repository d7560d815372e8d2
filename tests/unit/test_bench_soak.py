"""``tacit bench soak``: what it judges, what it plans, what it draws, and how it ends."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.bench.loading.database_sizes import DatabaseSize
from infra.lab.bench.loading.stream import BLOCK, share_of
from infra.lab.bench.soak import run as soaking
from infra.lab.bench.soak.drawing import CELLS
from infra.lab.bench.soak.report import document, kept_bytes, memory, verdicts
from infra.lab.bench.soak.run import GENERATOR, LEAST_BATCH, LEAST_WINDOW, Plan, Soak, wrong_buckets
from infra.lab.bench.soak.samples import Sample
from infra.lab.bench.soak.trends import LEAST_BYTES, Trend, judged, returned
from infra.views.terminal import curve
from tacit.errors import Fatal, UsageError

MIB = 1 << 20
PLACES = [float(1000 * number) for number in range(1, 41)]
Capture = pytest.CaptureFixture[str]


def noisy(start: float, end: float, noise: float) -> list[float]:
    """A series from ``start`` to ``end`` with noise of that share, always the same."""
    draw = random.Random(7)
    steps = len(PLACES) - 1
    line = [start + (end - start) * number / steps for number in range(len(PLACES))]
    return [value * (1 + noise * (2 * draw.random() - 1)) for value in line]


def test_a_slope_is_that_of_the_line_and_its_interval_is_below_it() -> None:
    exact = Trend.of(PLACES, [3.0 + 2.0 * place for place in PLACES])
    assert exact.growth == pytest.approx(2.0 * (PLACES[-1] - PLACES[0]))
    assert exact.least == pytest.approx(exact.growth)
    rough = Trend.of(PLACES, noisy(100, 120, 0.05))
    assert 0 < rough.least < rough.growth < 30
    assert Trend.of([1.0, 1.0, 2.0], [5.0, 5.0, 7.0]).growth == 2.0, "two samples at one place have no slope"


@pytest.mark.parametrize(
    ("start", "end", "noise", "holds"),
    [
        (100, 100, 0.2, True),
        (100, 108, 0.02, True),
        (100, 150, 0.1, False),
        (100, 400, 0.3, False),
        (150, 100, 0.1, True),
    ],
)
def test_a_series_that_grows_is_told_from_one_that_does_not(start: int, end: int, noise: float, holds: bool) -> None:
    values = noisy(start, end, noise)
    verdict = judged("CPU", PLACES, values, 0.15, "us per contribution")
    assert (verdict.holds, verdict.first, verdict.last) == (holds, values[len(values) // 4], values[-1])
    assert verdict.growth is not None
    assert (verdict.growth > 0.15) == (not holds)


def test_what_a_run_does_at_its_start_and_a_little_memory_are_no_growth() -> None:
    settled = [50.0 + min(number, 8) * 10 for number in range(40)]
    assert judged("memory", PLACES, settled, 0.1, "bytes").holds
    little = noisy(MIB, 3 * MIB, 0.0)
    assert not judged("memory", PLACES, little, 0.1, "bytes").holds
    assert judged("memory", PLACES, little, 0.1, "bytes", LEAST_BYTES).holds


def test_few_samples_are_not_judged() -> None:
    verdict = judged("CPU", PLACES[:9], noisy(1, 9, 0.0)[:9], 0.15, "us per contribution")
    assert (verdict.holds, verdict.growth) == (True, None)


def test_a_database_that_does_not_shrink_after_releases_is_noticed() -> None:
    assert returned("database", [50.0 * MIB, 51.0 * MIB, 49.0 * MIB], 0.25, LEAST_BYTES).holds
    assert not returned("database", [50.0 * MIB, 90.0 * MIB, 130.0 * MIB], 0.25, LEAST_BYTES).holds
    assert returned("database", [1.0 * MIB, 3.0 * MIB], 0.25, LEAST_BYTES).holds, "a page or two"
    assert returned("database", [1.0 * MIB], 0.25, LEAST_BYTES).growth is None


def test_a_plan_gives_every_task_as_many_batches_and_has_no_more_than_asked() -> None:
    for reports, tasks in ((112, 1), (1000, 1), (10_000_000, 1), (112_000, 1000), (12_345, 7), (1600, 3), (4500, 40)):
        plan = Plan.of(reports, tasks)
        assert plan.batch >= LEAST_BATCH
        assert reports - tasks * plan.rounds * BLOCK < plan.reports <= reports
        assert sum(plan.windows()) == plan.tasks * plan.batch
        assert max(plan.windows()) <= plan.window
        assert plan.window >= LEAST_WINDOW
    for reports, tasks, words in ((223, 2, "need at least 224"), (10**7, 1025, "at most 1024")):
        with pytest.raises(UsageError, match=words):
            Plan.of(reports, tasks)


@pytest.mark.parametrize(("reports", "tasks"), [(112, 1), (1000, 1), (4500, 40), (12_345, 7), (20_000, 100)])
def test_every_task_gets_its_batch_in_a_round_however_chunks_are_cut(reports: int, tasks: int) -> None:
    batch = Plan.of(reports, tasks).batch
    given: Counter[int] = Counter()
    for start in range(0, tasks * batch, 50):
        given += share_of(start, min(50, tasks * batch - start), tasks)
    assert given == dict.fromkeys(range(tasks), batch)


def test_lost_and_misplaced_contributions_are_wrong_buckets() -> None:
    releases: list[dict[str, Any]] = [
        {"buckets": [{"count": 3}, {"count": 0}]},
        {"buckets": [{"count": 1}, {"count": 2}]},
    ]
    assert wrong_buckets({0: 4, 1: 2}, releases) == 0
    assert wrong_buckets({0: 4, 1: 3}, releases) == 1
    assert wrong_buckets({0: 3, 1: 3}, releases) == 2
    assert wrong_buckets({0: 4, 1: 2, 5: 1}, releases) == 1


def made(*, leak: float = 0.0, left: float = 0.0, errors: tuple[str, ...] = ()) -> Soak:
    """A run of 40,000 contributions whose leader grows by ``leak`` MiB, and its database by ``left`` MiB a release."""
    found = Soak(Plan(1, 5, 8000, 1000), "sqlite", errors=list(errors))
    for number in range(1, 41):
        released, releases = number % 8 == 0, number // 8
        size = DatabaseSize(
            int((20 + left * releases) * MIB) + 400 * 1000 * number, 400 * 1000 * number, 5, 2, 1000 * number
        )
        memory = {"relay": 70 * MIB, "leader": int((100 + leak * number / 40) * MIB)}
        found.samples.append(
            Sample(
                1000 * number,
                2.0 * number,
                {"relay": 80.0, "leader": 300.0},
                memory,
                {"leader": size, "helper": size},
                releases,
                released,
                0,
            )
        )
    return found


def test_a_leak_and_a_database_that_stays_large_are_named_and_spent_tokens_are_not() -> None:
    assert all(one.holds for one in verdicts(made()))
    assert [one.subject for one in verdicts(made(leak=60)) if not one.holds] == ["memory, leader"]
    grown = [one.subject for one in verdicts(made(left=20)) if not one.holds]
    assert grown == ["database after a release, leader", "database after a release, helper"]
    assert kept_bytes(made()) == {"leader": 400.0, "helper": 400.0}


def test_memory_of_the_generator_is_shown_and_not_judged() -> None:
    found = made()
    for number, sample in enumerate(found.samples):
        sample.memory[GENERATOR] = number * 20 * MIB  # type: ignore[index]
    assert [one.values[-1] for one in memory(found) if GENERATOR in one.subject] == [39 * 20 * MIB]
    assert all(one.holds and GENERATOR not in one.subject for one in verdicts(found))


@pytest.mark.parametrize(
    ("error", "words"),
    [(Fatal("the server answered 500"), "the server answered 500"), (KeyboardInterrupt(), "interrupted")],
)
def test_a_run_that_ends_early_keeps_what_it_has_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path, error: BaseException, words: str
) -> None:
    whole, measured = made(), list[Sample]()

    class Ending:
        def __init__(self, _stack: object, found: Soak, _tell: object) -> None:
            self._found = found

        def whole(self, *_: object) -> None:
            self._found.samples.extend(measured)
            raise error

    monkeypatch.setattr(soaking, "laid_out", lambda *_args, **_more: contextlib.nullcontext())
    monkeypatch.setattr(soaking, "run_on", lambda _site, work: work(None))
    monkeypatch.setattr(soaking, "make_issuers", lambda _tasks: [])
    monkeypatch.setattr(soaking, "_Run", Ending)
    with pytest.raises(type(error)):
        soaking.soak(whole.plan, frozenset(), lambda _share: None)
    measured += whole.samples[:3]
    found = soaking.soak(whole.plan, frozenset(), lambda _share: None)
    assert found.samples == measured
    assert found.errors == [f"ended after 3,000 of 40,000 contributions: {words}"]
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(soaking, "soak", lambda _plan, _servers, _tell: found)
    assert run(["bench", "soak", "--save", str(tmp_path / "run.png")]) == 1
    captured = capsys.readouterr()
    assert "3,000 contributions to 1 task" in captured.out
    assert words in captured.err


@pytest.fixture
def ends_as(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the command measure nothing, and find what a test gives it."""
    monkeypatch.setenv("COLUMNS", "140")
    return lambda found: monkeypatch.setattr(soaking, "soak", lambda _plan, _servers, _tell: found)


@pytest.mark.parametrize(
    ("found", "code"), [(made(), 0), (made(leak=60), 1), (made(left=20), 1), (made(errors=("task 0: 1 bucket",)), 1)]
)
def test_a_run_that_grows_or_loses_something_ends_with_one(
    capsys: Capture, ends_as: Any, found: Soak, code: int
) -> None:
    ends_as(found)
    assert run(["bench", "soak", "--json"]) == code
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer == json.loads(json.dumps(document(found, verdicts(found))))
    assert (len(answer["samples"]), answer["plan"]["reports"], answer["errors"]) == (40, 40_000, found.errors)
    assert all(error in captured.err for error in found.errors)


def test_the_table_shows_each_curve_with_its_verdict_and_the_picture_is_written(
    capsys: Capture, ends_as: Any, tmp_path: Path
) -> None:
    ends_as(made(leak=60))
    picture = tmp_path / "run.png"
    assert run(["bench", "soak", "--save", str(picture)]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert "memory, leader grows" in captured.err.splitlines()
    (leader,) = [line for line in lines if line.startswith("memory, leader")]
    assert "grows (at most 10%" in leader
    (relay,) = [line for line in lines if line.startswith("memory, relay")]
    assert "constant" in relay
    assert relay.count("█") == CELLS
    assert "bytes of spent tokens for each contribution: leader 400, helper 400" in lines
    assert max(map(len, lines)) <= 140
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert run(["bench", "soak", "--save", str(tmp_path / "run.xyz")]) == 1
    assert "must end in .png or .svg" in capsys.readouterr().err


def test_a_curve_is_drawn_from_nothing_to_its_largest_value() -> None:
    assert curve([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert curve([5.0] * 100, width=10) == "█" * 10
    assert curve([0.0, 0.0]) == "▁▁"
    assert curve([]) == ""
