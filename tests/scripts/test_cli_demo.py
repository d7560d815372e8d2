"""What ``tacit demo`` says to wrong flags and wrong files: exit codes and one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cli import run


@pytest.mark.parametrize(
    "arguments",
    [
        ["--devices", "0"],
        ["--devices", "many"],
        ["--input", "x.csv"],
        ["--column", "visits"],
        ["--input", "x.csv", "--column", "v", "--buckets", "1,1"],
        ["--input", "x.csv", "--column", "v", "--buckets", "a,b"],
        ["--input", "x.csv", "--column", "v", "--categories", "a"],
        ["--input", "x.csv", "--column", "v", "--categories", "a,b", "--buckets", "1,2"],
        ["--unknown"],
    ],
)
def test_wrong_flags_are_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 1 <= len(captured.err.splitlines()) <= 3


@pytest.mark.parametrize("text", [None, "", "id,v\n", "id,w\n1,2\n", "id,v\n1,2,3\n", "id,v\n1,nan\n"])
def test_a_wrong_file_is_one_line_that_names_it(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.csv"
    if text is not None:
        path.write_text(text)
    assert run(["demo", "--input", str(path), "--column", "v"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert str(path) in captured.err


def test_too_few_devices_are_refused_with_the_number_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--devices", "199"]) == 1
    assert "at least 200" in capsys.readouterr().err


def test_a_folder_that_cannot_take_the_report_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    assert run(["demo", "--out", str(tmp_path / "taken")]) == 1
    assert "choose another folder with --out" in capsys.readouterr().err


def test_a_path_of_the_kernels_that_does_not_exist_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TACIT_NATIVE", "fast")
    assert run(["demo"]) == 1
    assert capsys.readouterr().err.startswith("tacit: TACIT_NATIVE must be one of off, baseline")
