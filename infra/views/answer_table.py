"""A terminal table of estimates per answer. Long labels are shortened with an ellipsis; numbers never are."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from infra.views.plain import JOINERS
from infra.views.terminal import BAR_WIDTH, estimate_bar, plain_table

ANSWER = "answer"
"""Heading of the label column."""
LEAST_BAR = 14
LEAST_LABEL = 8
GAP = 2
"""Empty cells between two columns."""
FRAME = 4
"""Cells of a line that a panel's frame takes."""


@dataclass(frozen=True)
class AnswerRow:
    """One row: the label, the estimate with its standard error, the ``truth`` if it is known, and the numbers as
    formatted text."""

    label: str
    estimate: float
    stderr: float
    numbers: tuple[str, ...]
    truth: float | None = None


def answers_table(answers: Sequence[AnswerRow], bar: str, numbers: Sequence[str], width: int) -> Table:
    """Return a table for a panel on a terminal of ``width`` cells. ``bar`` and ``numbers`` are the column headings;
    the column of bars is left out if the numbers leave no room for it."""
    rest = sum(
        GAP + max(cell_len(heading), *(cell_len(one.numbers[at]) for one in answers), 0)
        for at, heading in enumerate(numbers)
    )
    longest = max(cell_len(ANSWER), *(cell_len(one.label) for one in answers), 0)
    free = width - FRAME - rest - GAP
    bars = free >= LEAST_BAR + min(longest, LEAST_LABEL)
    bar_width = min(BAR_WIDTH, max(LEAST_BAR, free - longest)) if bars else -GAP
    label_width = max(LEAST_LABEL, free - bar_width)
    table = plain_table(ANSWER, *([bar] if bars else []), *numbers)
    for at, column in enumerate(table.columns):
        drawn = bars and at == 1
        column.justify = "left" if drawn else "right"
        column.no_wrap = not drawn
        column.width = bar_width if drawn else None
    top = max((max(one.estimate + 2 * one.stderr, one.truth or 0) for one in answers), default=1.0)
    for one in answers:
        table.add_row(
            Text(shorten(one.label, label_width), style="bold"),
            *([estimate_bar(one.estimate, one.stderr, top, one.truth, bar_width)] if bars else []),
            *one.numbers,
        )
    return table


def shorten(label: str, cells: int) -> str:
    """Return ``label`` on one line of at most ``cells`` cells. A longer one keeps its beginning and, because labels
    often differ only there, its end, with an ellipsis between them."""
    line = " ".join("".join(char if char.isprintable() or char in JOINERS else " " for char in label).split())
    if cell_len(line) <= cells:
        return line
    tail = set_cell_size(line[::-1], (cells - 1) // 3)[::-1].strip()
    while tail and unicodedata.category(tail[0]).startswith("M"):  # a mark whose letter was cut away
        tail = tail[1:]
    return f"{set_cell_size(line, cells - 1 - cell_len(tail)).strip()}…{tail}"
