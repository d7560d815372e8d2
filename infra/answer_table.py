"""Estimates per answer in the terminal: what does not fit is shortened with an ellipsis, numbers never are."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from infra.plain import JOINERS
from infra.terminal import BAR_WIDTH, estimate_bar, plain_table

ANSWER = "answer"
"""The heading of the labels."""
LEAST_BAR = 14
LEAST_LABEL = 8
GAP = 2
"""Characters without a picture that letters around them need."""
FRAME = 4
"""Cells that a panel's frame takes of a line."""


@dataclass(frozen=True)
class AnswerRow:
    """One row: the label, the estimate with its standard error, the ``truth`` where it is known, and the numbers as
    they are written."""

    label: str
    estimate: float
    stderr: float
    numbers: tuple[str, ...]
    truth: float | None = None


def answers_table(answers: Sequence[AnswerRow], bar: str, numbers: Sequence[str], width: int) -> Table:
    """A table within a panel on a terminal of ``width`` cells. Headings: ``bar`` and ``numbers``. There are no bars
    where the numbers leave no room for them."""
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
            Text(shortened(one.label, label_width), style="bold"),
            *([estimate_bar(one.estimate, one.stderr, top, one.truth, bar_width)] if bars else []),
            *one.numbers,
        )
    return table


def shortened(label: str, cells: int) -> str:
    """``label`` on one line of at most ``cells`` cells: its beginning, an ellipsis and its end, where labels that begin
    alike differ."""
    line = " ".join("".join(char if char.isprintable() or char in JOINERS else " " for char in label).split())
    if cell_len(line) <= cells:
        return line
    tail = set_cell_size(line[::-1], (cells - 1) // 3)[::-1].strip()
    while tail and unicodedata.category(tail[0]).startswith("M"):  # a mark whose letter was cut away
        tail = tail[1:]
    return f"{set_cell_size(line, cells - 1 - cell_len(tail)).strip()}…{tail}"
