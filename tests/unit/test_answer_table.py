"""Answers in a terminal: numbers are whole whatever the labels are."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel

from infra.views.answer_table import AnswerRow, answers_table, shorten

LONG = "never at all in the last twelve months, as far as I remember"
LABELS = (LONG, f"{LONG} it", "日本語のとても長い回答ラベルですがまだ続きます", "แทบไม่เคย", "no")


def drawn(labels: tuple[str, ...], width: int) -> list[str]:
    answers = [AnswerRow(label, 12_345.0, 678.0, ("12,345", "1,329", "12,001"), 12_001.0) for label in labels]
    console = Console(file=io.StringIO(), width=width, legacy_windows=False)
    headings = ("estimate", "± 1.96 s.e.", "truth")
    console.print(Panel(answers_table(answers, "━ estimate  ╌ 95 % interval  ┃ truth", headings, width)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [72, 80, 100, 200])
def test_long_and_wide_labels_cut_no_number_and_take_one_line_each(width: int) -> None:
    lines = drawn(LABELS, width)
    assert {cell_len(line) for line in lines} == {width}
    assert "± 1.96 s.e." in "".join(lines)
    rows = [line for line in lines if "12,345" in line]
    assert len(rows) == len(LABELS)
    assert all("1,329" in row and "12,001" in row and "━━━━━━" in row for row in rows)
    labels = [row.strip("│ ").split("  ")[0] for row in rows]
    assert len(set(labels)) == len(LABELS)
    if width <= 100:
        assert [("…" in label) for label in labels[:2]] == [True, True]


def test_short_labels_leave_the_bar_its_width() -> None:
    assert any("━ estimate  ╌ 95 % interval" in line for line in drawn(("yes", "no"), 80))


@pytest.mark.parametrize("cells", range(8, 30))
@pytest.mark.parametrize("label", LABELS)
def test_a_shortened_label_fits_and_begins_and_ends_as_the_label_does(label: str, cells: int) -> None:
    short = shorten(label, cells)
    assert cell_len(short) <= cells
    begin, _, end = short.partition("…")
    assert label.startswith(begin)
    assert label.endswith(end)


def test_a_label_is_one_line_without_controls() -> None:
    assert shorten("a\nb\x1b[2J\u202ec", 20) == "a b [2J c"


@pytest.mark.parametrize("width", [72, 80, 100])
def test_headings_are_whole_beside_labels_that_are_shorter_than_theirs(width: int) -> None:
    answers = [AnswerRow(label, 18.0, 20.0, ("18", "20", "-11 ± 41 %", "6 to 60")) for label in ("0", "8+")]
    console = Console(file=io.StringIO(), width=width, legacy_windows=False)
    headings = ("estimate", "± 1.96 s.e.", "share", "of all asked")
    console.print(Panel(answers_table(answers, "estimate ━ with 95 % interval ╌", headings, width)))
    file = console.file
    assert isinstance(file, io.StringIO)
    assert "…" not in file.getvalue()
    assert file.getvalue().count("-11 ± 41 %") == len(answers)
