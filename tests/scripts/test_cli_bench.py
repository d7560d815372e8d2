"""``tacit bench``: its tables, its JSON document, what it keeps, and the counts that its floors rest on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import infra.lab.bench.kernels
from infra.cli import run
from infra.lab.bench import accounting, history, stages
from infra.lab.bench.kernels import Case, work_of
from infra.lab.bench.loading import storage
from infra.lab.bench.loading.implementations import multibuffer_set
from infra.lab.bench.loading.storage import SQLITE, Backend
from infra.lab.bench.pan_privacy import largest_t
from infra.lab.bench.rows import Row
from infra.lab.bench.targets import MOST_T, UNDER_ATTACK
from infra.lab.commands import bench
from infra.lab.commands.bench_needs import tell_of_driver
from tacit.errors import Fatal
from tacit.vdaf.native import usable_levels
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram, Prio3SumVec

Capture = pytest.CaptureFixture[str]
COLUMNS = {
    *("stage", "vdaf", "parameters", "role", "path", "us_per_report", "floor_us", "ratio", "offered_rate"),
    *("repetitions", "spread"),
}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One VDAF, few reports, no database server; results are kept in the test's own folder."""
    monkeypatch.setattr(infra.lab.bench.kernels, "cases", lambda: [Case(Prio3Count(2), "count", {}, 1, 16)])
    monkeypatch.setattr(stages, "REPORTS", 8)
    monkeypatch.setattr(stages, "JOB_REPORTS", 16)
    monkeypatch.setattr(stages, "backends", lambda: [Backend(SQLITE)])
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def test_json_holds_the_machine_and_one_row_per_stage_role_and_path(capsys: Capture) -> None:
    assert run(["bench", "kernels", "--json", "--repetitions", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"machine", "rows"}
    assert set(document["machine"]) == {"cpu", "features", "cores"}
    assert all(set(row) == COLUMNS for row in document["rows"])
    verified = {(row["role"], row["path"]) for row in document["rows"] if row["stage"] == "verify_init"}
    assert verified == {(role, path) for role in ("helper", "leader") for path in ("off", *usable_levels())}
    assert all(row["us_per_report"] > 0 for row in document["rows"])


def test_table_names_primitives_and_stages(capsys: Capture) -> None:
    assert run(["bench", "kernels", "--repetitions", "1"]) == 0
    answer = capsys.readouterr().out
    assert "reports are verified on path" in answer
    assert "keccak permutation" in answer
    assert "verify_init" in answer


def test_stages_show_every_step_beside_its_floor_and_the_jobs_target(capsys: Capture) -> None:
    assert run(["bench", "stages", "--repetitions", "2"]) == 0
    answer = capsys.readouterr().out
    steps = ("X25519", "fsync", "HPKE open", "token verify", "prepare a job", "aggregation job", "commit a job")
    for step in (*steps, "upload, group commit", "OHTTP decapsulate", "HPKE seal"):
        assert step in answer
    jobs = [line for line in answer.splitlines() if line.startswith("aggregation job")]
    (job,) = [line for line in jobs if "openssl, sqlite" in line]
    assert "135 m" in job
    ifma = multibuffer_set() == "ifma"
    assert all(("45.00 m" in line) == ifma for line in jobs if "multibuffer" in line), "AVX2 has no target"
    (upload,) = [line for line in answer.splitlines() if line.startswith("upload, group commit") and "sqlite" in line]
    assert "45.00 m" in upload
    assert max(map(len, answer.splitlines())) <= 120


@pytest.mark.slow
def test_accounting_shows_a_claim_at_start_up_and_a_full_ledger_beside_their_targets(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "RECIPES", 20)
    assert run(["bench", "accounting", "--repetitions", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    claims = [line for line in lines if line.startswith("claim, fresh interpreter")]
    assert [line.split()[3].partition("(")[0] for line in claims] == ["krr", "rr", "rappor", "flips", "krr"]
    assert all("50.0 ms" in line for line in claims[:4])
    ledgers = [line for line in lines if line.startswith("ledger of 1,000 recipes")]
    assert len(ledgers) == 2
    assert all("2,000 ms met" in line for line in ledgers)
    assert max(map(len, lines)) <= 120


@pytest.mark.false_alarm(0, "the times of updates are measured, and not judged")
def test_pan_privacy_shows_updates_and_decryption_beside_their_targets_and_whether_times_tell(capsys: Capture) -> None:
    assert run(["bench", "pan-privacy", "--repetitions", "1", "--samples", "100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for target in ("250 m", "1,000 m", "4,000 m", "20,000 m"):
        assert sum(line.startswith("state update ") and target in line for line in lines) == 1
    assert sum(line.startswith("decrypt a report") and "66.67 m" in line for line in lines) == 1
    for operation in ("decrypt a kept share", "verify a kept share"):
        found = [line for line in lines if line.startswith(operation)]
        assert [("leader" in line, "helper" in line) for line in found] == [(True, False), (False, True)] * 2
    judged = [line for line in lines if "|t| 4.50" in line]
    assert [line.split(",")[0] for line in judged] == ["state update", "state update", "choice in it"]
    assert max(map(len, lines)) <= 120


def test_times_that_tell_of_an_event_are_found_and_others_are_not() -> None:
    generator = np.random.default_rng(5)
    events = generator.random(20_000) < 0.5
    times = 200_000 + generator.exponential(9_000, 20_000).astype(np.int64)
    assert largest_t(events, times) < MOST_T
    assert largest_t(events, times + 500 * events) > MOST_T


def test_kept_results_are_drawn_over_commits(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_commit", lambda: "0123abc")
    assert run(["bench", "stages", "--repetitions", "1", "--json", "--save"]) == 0
    (kept,) = Path("benchmarks").iterdir()
    assert kept.name.endswith("-0123abc.json")
    assert json.loads(kept.read_text()) == json.loads(capsys.readouterr().out)
    assert run(["bench", "plot"]) == 0
    assert capsys.readouterr().out == "benchmarks/history.png: 1 result\n"
    assert Path("benchmarks/history.png").read_bytes().startswith(PNG)


def test_what_cannot_be_kept_or_measured_is_refused_before_anything_is_measured(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_stages", lambda _repetitions: iter(lambda: pytest.fail("measured"), None))
    Path("benchmarks").write_text("no folder")
    assert run(["bench", "stages", "--save"]) == 1
    assert capsys.readouterr().err == "tacit: --save: benchmarks is no folder in which this user can write\n"
    assert run(["bench", "soak", "--save", "nowhere/run.png"]) == 1
    assert capsys.readouterr().err == "tacit: --save: nowhere is no folder in which this user can write\n"
    monkeypatch.setattr("tacit.extras.importlib.util.find_spec", lambda _name: None)
    assert run(["bench", "all"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tacit: this measurement needs psutil, dp_accounting; install it with: ")
    assert line.endswith("[bench,accounting]'")


@pytest.mark.parametrize(("error", "code"), [(Fatal("the server is gone"), 1), (KeyboardInterrupt(), 130)])
def test_rows_measured_before_the_end_came_are_shown(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def some(_repetitions: int) -> Iterator[Row]:
        yield Row("HPKE open", "histogram", {}, "leader", "openssl", 12.5)
        raise error

    monkeypatch.setattr(bench, "_stages", some)
    assert run(["bench", "stages"]) == code
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("HPKE open")]
    assert "12.50" in line
    assert "%" not in line, "one repetition has no spread"


def test_long_names_are_divided_and_figures_are_not(capsys: Capture) -> None:
    role, path = "p99, slow head at relay", "openssl, postgres, one process each, frames"
    row = Row(UNDER_ATTACK, "histogram", {"length": 128}, role, path, 139_000.0, None, 2.64, 100.0, 3, 0.16)
    bench._show([row])
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "100/s" in line]
    assert line.endswith("139 ms   2.64     16%  x 2.00 missed")
    assert max(map(len, lines)) <= 120


def test_where_only_the_driver_of_postgresql_is_missing_a_line_says_so(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "find_binaries", lambda: Path("bin"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "asyncpg" else object())
    tell_of_driver([""])
    assert capsys.readouterr().err == "", "who asks for no server gets none"
    tell_of_driver()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("SQLite alone is measured: PostgreSQL is here, but not asyncpg (")


def test_a_plot_of_nothing_says_in_one_line_what_to_do(capsys: Capture) -> None:
    assert run(["bench", "plot"]) == 1
    assert capsys.readouterr().err == "tacit: benchmarks: no results here; save one with: tacit bench all --save\n"
    Path("benchmarks").mkdir()
    Path("benchmarks/2026-01-01-abc.json").write_text("[]")
    assert run(["bench", "plot"]) == 1
    assert "not a document of tacit bench --save" in capsys.readouterr().err


def test_permutations_are_those_that_the_draft_implies() -> None:
    assert work_of(Prio3Histogram(2, 256, 16), "helper").permutations == 25 + 10 + 25 + 1 + 2 + 1
    assert work_of(Prio3Histogram(2, 256, 16), "leader").permutations == 25 + 1 + 2 + 1
    assert work_of(Prio3SumVec(2, 1000, 1, 32), "leader").permutations == 102
    assert work_of(Prio3Count(2), "helper").permutations == 3
    assert work_of(Prio3Count(2), "leader").permutations == 1
