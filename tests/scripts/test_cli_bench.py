"""``tacit bench kernels``: its table, its JSON document, and the count of operations that its floors rest on."""

from __future__ import annotations

import json

import pytest

import infra.bench
from infra.bench import Case, work_of
from infra.cli import run
from tacit.vdaf.native import usable_levels
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram, Prio3SumVec

Capture = pytest.CaptureFixture[str]
COLUMNS = {
    *("stage", "vdaf", "parameters", "role", "path", "us_per_report", "floor_us", "ratio", "offered_rate"),
    *("repetitions", "spread"),
}


@pytest.fixture(autouse=True)
def one_vdaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infra.bench, "cases", lambda: [Case(Prio3Count(2), "count", {}, 1, 16)])


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
    assert run(["bench", "kernels", "--repetitions", "3"]) == 0
    answer = capsys.readouterr().out
    assert "reports are verified on path" in answer
    assert "keccak permutation" in answer
    assert "verify_init" in answer


def test_permutations_are_those_that_the_draft_implies() -> None:
    assert work_of(Prio3Histogram(2, 256, 16), "helper").permutations == 25 + 10 + 25 + 1 + 2 + 1
    assert work_of(Prio3Histogram(2, 256, 16), "leader").permutations == 25 + 1 + 2 + 1
    assert work_of(Prio3SumVec(2, 1000, 1, 32), "leader").permutations == 102
    assert work_of(Prio3Count(2), "helper").permutations == 3
    assert work_of(Prio3Count(2), "leader").permutations == 1
